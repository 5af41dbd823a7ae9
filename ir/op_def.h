#ifndef STOWAGE_IR_OP_DEF_H_
#define STOWAGE_IR_OP_DEF_H_

// What the IR knows of an op: how result types follow from operand types, which
// results are views, what may be overwritten, which strides a kernel takes, how
// many floating-point operations it costs. One OpDef an op, defined in
// ir/ops/<family>.cc under the name declared below; GetOpDef finds it.
//
//   const OpDef& def = GetOpDef(OpKind::kMatMul);
//   Result<std::vector<TensorType>> types = def.infer(args);

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/shape.h"

namespace stowage {

/// No op but `split` and `sum_partials` has more results; an Emit that fails returns so
/// many inert ones.
inline constexpr int kMaxResults = 8;
inline constexpr int kAnyNumber = -1;

/// The operands of an op that is being typed.
struct OpArgs {
  OpKind op;
  std::span<const TensorType> types;
  std::span<const std::string_view> names;  // of the operands, for messages
  const Attrs& attrs;

  int count() const { return static_cast<int>(types.size()); }
  const TensorType& type(int i) const { return types[static_cast<size_t>(i)]; }
  const Shape& shape(int i) const { return type(i).shape; }
  /// `"h" is f32(32, 128)`, for messages.
  std::string Describe(int i) const;
  /// An invalid-argument error that opens with the op's name: "[matmul] ...".
  Error Fail(std::string_view message) const;
};

/// Where a view lies in its root: strides in elements, distance of its first
/// element from the root's in elements.
struct ViewLayout {
  Strides strides;
  int64_t offset = 0;
  friend bool operator==(const ViewLayout&, const ViewLayout&) = default;
};

/// Whether input `i` is in a set of inputs, where bit k stands for input k: no
/// input beyond the 32nd is.
constexpr bool HasInput(uint32_t inputs, size_t i) {
  return i < 32 && (inputs >> i & 1) != 0;
}

struct OpDef {
  /// Operand count; kAnyNumber for ops that check it in `infer`.
  int num_inputs = 1;

  /// Result types, or an error that names operands and actual values.
  /// `num_inputs` has been checked before.
  using InferFn = Result<std::vector<TensorType>> (*)(const OpArgs&);
  InferFn infer = nullptr;

  /// Floating-point operations (a multiply-add counts two); null means none.
  using FlopsFn = double (*)(const OpArgs&,
                             std::span<const TensorType> results);
  FlopsFn flops = nullptr;

  /// Set for view ops: the layout of result `r` inside input 0's root, given
  /// input 0's own layout; nothing when strides cannot express it (the
  /// legalizer then copies input 0 first).
  using ViewFn = std::optional<ViewLayout> (*)(const OpArgs&, int r,
                                               const ViewLayout& input);
  ViewFn view = nullptr;

  /// Whether the kernels take input `i` with these strides. Null: contiguous
  /// only.
  using AcceptsFn = bool (*)(const OpArgs&, int i, const Strides& strides);
  AcceptsFn accepts = nullptr;

  /// Inputs that the kernels can write result 0 over, when both are contiguous
  /// and of one byte size (bit i = input i). Where it may be: ir/uses.h.
  uint32_t may_overwrite = 0;

  /// The first `updates` results are the new contents of the first `updates`
  /// inputs and always share their bytes (optimizer updates).
  int updates = 0;

  /// Inputs that must lie in the host's memory (bit i = input i); all others lie
  /// in the arena. Whether the results lie there.
  uint32_t host_inputs = 0;
  bool results_on_host = false;

  /// Whether every rank of a step must run it, in one order: so that it never runs
  /// again, and nothing decides rank by rank whether it runs.
  bool collective = false;

  /// Of a program's own op (ir/custom_op.h): whether element i of the first axis, example
  /// i, of every result follows from example i of the operands that have this axis alone.
  /// A batch is split through an op that says so (autodiff/batch_rules.h).
  bool per_example = false;

  bool is_view() const { return view != nullptr; }
  bool may_overwrite_operand(size_t i) const {
    return HasInput(may_overwrite, i);
  }
  bool takes_from_host(size_t i) const { return HasInput(host_inputs, i); }
};

/// The definition of an op.
const OpDef& GetOpDef(OpKind op);

/// Accepts any strides (elementwise kernels, copies).
bool AcceptAnyStrides(const OpArgs& args, int i, const Strides& strides);

namespace op_defs {
#define STOWAGE_OP(kind, name) extern const OpDef kind;
#include "ir/ops.def"
#undef STOWAGE_OP
}  // namespace op_defs

}  // namespace stowage

#endif  // STOWAGE_IR_OP_DEF_H_
