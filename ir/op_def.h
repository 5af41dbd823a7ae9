#ifndef STOWAGE_IR_OP_DEF_H_
#define STOWAGE_IR_OP_DEF_H_

// Defines OpDef, which describes an op to all passes: the shape rule, the results that are views,
// the operands that kernels may overwrite, the strides that kernels accept, and the operation
// count. Each op of ir/ops.def has one OpDef, in ir/ops/<family>.cc. GetOpDef returns it.
//
//   const OpDef& def = GetOpDef(OpKind::kMatMul);
//   Result<std::vector<TensorType>> types = def.infer(args);
//
// A program can define a custom op. It provides the OpDef (DefineOp), the derivative
// (autodiff/vjp.h), the CPU kernel (cpu/kernel.h) and, to run on a GPU, the GPU kernel
// (gpu/kernel.h). A custom op is checked, printed, parsed, differentiated, planned and recomputed
// like any other op. docs/guides/own_ops.md is a tutorial.
//
//   const OpKind kHuber = *DefineOp(
//       "huber", {.num_inputs = 2, .infer = InferHuber, .flops = HuberFlops});
//   const Status kHuberGrad = DefineVjp(kHuber, Differentiable(HuberRule));
//   const Status kHuberRuns = cpu::DefineKernel(kHuber, {.run = RunHuber});
//
//   Value loss = ReduceMean(Apply(kHuber, {guess, truth}, {{"delta", 1.0}}));
//
// Ops must be defined on one thread, before the first graph is built: in initializers of global
// variables, as above, or at the start of main.

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

/// The maximum number of results of an op. Only `split`, `sum_partials`, `loop` and `cond` may have
/// more. After an error, GraphBuilder::Emit returns kMaxResults inert values for any op.
inline constexpr int kMaxResults = 8;
inline constexpr int kAnyNumber = -1;  // a value of OpDef::num_inputs

/// The operands and attributes of a node, as the functions of an OpDef receive them.
struct OpArgs {
  OpKind op;
  std::span<const TensorType> types;
  std::span<const std::string_view> names;  // of the operands, for messages
  const Attrs& attrs;

  int count() const { return static_cast<int>(types.size()); }
  const TensorType& type(int i) const { return types[static_cast<size_t>(i)]; }
  const Shape& shape(int i) const { return type(i).shape; }
  /// Returns a description of operand `i` for messages: `"h" is f32(32, 128)`.
  std::string Describe(int i) const;
  /// Returns an error with code kInvalidArgument and a message that begins with the op's name:
  /// "[matmul] ...".
  Error Fail(std::string_view message) const;
};

/// The layout of a view within its root, the value that owns the bytes (ir/layout.h): the strides
/// and the offset of the first element, all in elements.
struct ViewLayout {
  Strides strides;
  int64_t offset = 0;
  friend bool operator==(const ViewLayout&, const ViewLayout&) = default;
};

/// Returns whether the bit set `inputs`, in which bit i represents input i, contains input `i`. A
/// set can only contain inputs 0 to 31.
constexpr bool HasInput(uint32_t inputs, size_t i) {
  return i < 32 && (inputs >> i & 1) != 0;
}

struct OpDef {
  /// The number of operands. kAnyNumber means that `infer` checks the number.
  int num_inputs = 1;

  /// Returns the types of the results, or an error that states the operands and the actual values.
  /// `num_inputs` has already been checked, but attributes have not. An op must have at least one
  /// result. Each result must have at most kMaxRank dimensions, which must be at least 1, and a
  /// size in bytes that fits 63 bits. The dimensions and sizes are not checked again for custom
  /// ops, but Typed (ir/ops/shape_rules.h) checks them.
  using InferFn = Result<std::vector<TensorType>> (*)(const OpArgs&);
  InferFn infer = nullptr;

  /// Returns the number of floating-point operations of a node. A multiply-add counts as two. If
  /// null, the number is 0.
  using FlopsFn = double (*)(const OpArgs&,
                             std::span<const TensorType> results);
  FlopsFn flops = nullptr;

  /// Returns the layout of result `r`, a view of input 0, given `input`, the layout of input 0.
  /// Both are layouts within the root of input 0. Returns nullopt if strides cannot express the
  /// view. Legalize (ir/layout.h) then copies input 0 first, so the function must not return
  /// nullopt for a contiguous input. Null for ops that are not views.
  using ViewFn = std::optional<ViewLayout> (*)(const OpArgs&, int r,
                                               const ViewLayout& input);
  ViewFn view = nullptr;

  /// Returns whether the kernels accept `strides` for input `i`. If null, inputs must be
  /// contiguous.
  using AcceptsFn = bool (*)(const OpArgs&, int i, const Strides& strides);
  AcceptsFn accepts = nullptr;

  /// The inputs (bit i is input i) that the kernels can overwrite with result 0, provided that the
  /// input and result 0 are contiguous and have the same size in bytes. InPlace (ir/uses.h) applies
  /// this rule to the nodes of a graph.
  uint32_t may_overwrite = 0;

  /// The number of inputs that the op updates in place, such as the weight and the moments of an
  /// optimizer update. For each i below `updates`, result i is the new content of input i and has
  /// the same bytes. At most the number of inputs and the number of results.
  int updates = 0;

  /// The inputs (bit i is input i) that must be in host memory. All other inputs must be in the
  /// arena.
  uint32_t host_inputs = 0;
  /// Whether the results are in host memory instead of the arena.
  bool results_on_host = false;

  /// Whether all ranks must run the op, in the same order. A collective op is never recomputed and
  /// never runs under a condition that may differ between ranks.
  bool collective = false;

  /// Whether, for a custom op, example i of each result depends only on example i of the operands.
  /// Example i is element i of the first axis. The batch may then be split into micro-batches
  /// (autodiff/batch_analysis.h).
  bool per_example = false;

  bool is_view() const { return view != nullptr; }
  bool may_overwrite_operand(size_t i) const {
    return HasInput(may_overwrite, i);
  }
  bool takes_from_host(size_t i) const { return HasInput(host_inputs, i); }
};

/// Returns the definition of `op`, which must be in ir/ops.def or returned by DefineOp.
const OpDef& GetOpDef(OpKind op);

/// Returns true. This is the AcceptsFn of elementwise ops and copies, which accept any strides.
bool AcceptAnyStrides(const OpArgs& args, int i, const Strides& strides);

namespace op_defs {
#define STOWAGE_OP(kind, name) extern const OpDef kind;
#include "ir/ops.def"
#undef STOWAGE_OP
}  // namespace op_defs

/// Defines a custom op. `name` is the op's name in the text form (ir/text.h), in error messages and
/// in plan files. It must begin with a lower-case letter and consist of lower-case letters, digits
/// and underscores. Returns kInvalidArgument if `name` has another form or is the name of an
/// existing op, if `infer` is null, if a view op updates or overwrites an input, or if
/// kMaxCustomOps ops are already defined. Other fields of `def` are not checked.
Result<OpKind> DefineOp(std::string_view name, const OpDef& def);

/// Returns the index of the custom op `op` in a table of kMaxCustomOps entries, such as the table
/// of derivatives or of CPU kernels. Returns kInvalidArgument if DefineOp has not returned `op`. In
/// the message, `what` describes an entry of the table: "derivative" or "CPU kernel".
Result<size_t> CustomOpIndex(OpKind op, std::string_view what);

}  // namespace stowage

#endif  // STOWAGE_IR_OP_DEF_H_
