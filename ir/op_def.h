#ifndef STOWAGE_IR_OP_DEF_H_
#define STOWAGE_IR_OP_DEF_H_

// The definition of an op in the IR: its shape rule, which results are views, which
// operands a kernel may overwrite, which strides it accepts, and its operation count.
// Each op of ir/ops.def has one OpDef, in ir/ops/<family>.cc; GetOpDef finds it.
//
//   const OpDef& def = GetOpDef(OpKind::kMatMul);
//   Result<std::vector<TensorType>> types = def.infer(args);
//
// A program may define ops of its own by four definitions: the OpDef (DefineOp), the
// derivative (autodiff/vjp.h), the CPU kernel (cpu/kernel.h) and, to run on a GPU, the
// GPU kernel (gpu/kernel.h). Such an op is checked, printed, parsed, differentiated,
// planned and recomputed like any other. docs/guides/own_ops.md defines one.
//
//   const OpKind kHuber = *DefineOp(
//       "huber", {.num_inputs = 2, .infer = InferHuber, .flops = HuberFlops});
//   const Status kHuberGrad = DefineVjp(kHuber, Differentiable(HuberRule));
//   const Status kHuberRuns = cpu::DefineKernel(kHuber, {.run = RunHuber});
//
//   Value loss = ReduceMean(Apply(kHuber, {guess, truth}, {{"delta", 1.0}}));
//
// Define ops before the first graph is built, from one thread: in initializers of
// globals, as above, or first in main.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"

namespace stowage {

/// Only `split` and `sum_partials` may have more results. A failed Emit returns this many
/// inert values.
inline constexpr int kMaxResults = 8;
inline constexpr int kAnyNumber = -1;

/// The operands and attributes that a shape rule sees.
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

/// The position of a view in its root: strides, and the offset of its first element, in
/// elements.
struct ViewLayout {
  Strides strides;
  int64_t offset = 0;
  friend bool operator==(const ViewLayout&, const ViewLayout&) = default;
};

/// Whether bit `i` of a set of inputs is set. The set holds inputs 0 to 31.
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

  /// Inputs (bit i = input i) that the kernels can overwrite with result 0, where both are
  /// contiguous and of one byte size. The rule for a graph is InPlace (ir/uses.h).
  uint32_t may_overwrite = 0;

  /// The first `updates` results are the new contents of the first `updates`
  /// inputs and always share their bytes (optimizer updates).
  int updates = 0;

  /// Inputs (bit i = input i) that must be in host memory; all others are in the arena.
  /// `results_on_host`: the results are in host memory too.
  uint32_t host_inputs = 0;
  bool results_on_host = false;

  /// Every rank must run it, in the same order: it is never recomputed and never stands
  /// under a condition that may differ between ranks.
  bool collective = false;

  /// For a program's own op: example i (element i of the first axis) of every result
  /// depends on example i of the operands alone, so that a batch may be split through the
  /// op (autodiff/batch_analysis.h).
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

/// Defines an op called `name` in the text form, in errors and in plan files: lower case
/// letters, digits and underscores, the first a letter. Errors: any other name; the name
/// of an existing op; a definition without `infer`; a view that updates or overwrites;
/// more than kMaxCustomOps ops.
Result<OpKind> DefineOp(std::string_view name, const OpDef& def);

/// The index of `op` in a table of kMaxCustomOps entries; an error unless DefineOp
/// returned it. `what` names the table's entries in the error: "derivative", "CPU kernel".
Result<size_t> CustomOpIndex(OpKind op, std::string_view what);

}  // namespace stowage

#endif  // STOWAGE_IR_OP_DEF_H_
