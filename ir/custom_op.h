#ifndef STOWAGE_IR_CUSTOM_OP_H_
#define STOWAGE_IR_CUSTOM_OP_H_

// Ops of a program's own. What ir/ops.def and the tables of the rooms are to an op
// of this library, four definitions are to an op that it has never heard of: what
// the graph knows of it (here), its derivative (autodiff/vjp.h), its CPU kernel
// (cpu/kernel.h) and, where it is to run there, its GPU kernel (gpu/kernel.h). From
// then on it is an op like any other: checked, printed and parsed by its name,
// differentiated, planned in place or as a view, recomputed, taken in micro-batches,
// validated, found again in the cache of plans. docs/own_ops.md defines one.
//
//   const OpKind kHuber = *DefineOp(
//       "huber", {.num_inputs = 2, .infer = InferHuber, .flops = HuberFlops});
//   const Status kHuberGrad = DefineVjp(kHuber, Differentiable(HuberRule));
//   const Status kHuberRuns = cpu::DefineKernel(kHuber, {.run = RunHuber});
//
//   Value loss = ReduceMean(Apply(kHuber, {guess, truth}, {{"delta", 1.0}}));
//
// Define ops before the first graph is built, by one thread: initializers of
// globals, as above, or the first lines of main.

#include <string_view>

#include "base/result.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/ops/shape_rules.h"

namespace stowage {

/// A new op, called `name` in the text form, in errors and in plan files: lower
/// case letters, digits and underscores, the first a letter. Errors: another name;
/// one that an op has already; a definition without `infer`; one that says it
/// updates and is a view at once; kMaxCustomOps ops are defined.
Result<OpKind> DefineOp(std::string_view name, const OpDef& def);

/// That `op` is one that DefineOp gave, and its place in a table of kMaxCustomOps
/// entries. For rooms that have a definition of their own; `what` it is, for the
/// error: "derivative", "CPU kernel".
Result<size_t> CustomOpIndex(OpKind op, std::string_view what);

/// The definition that DefineOp was given. Precondition: CustomIndex(op).
const OpDef& CustomOpDef(OpKind op);

}  // namespace stowage

#endif  // STOWAGE_IR_CUSTOM_OP_H_
