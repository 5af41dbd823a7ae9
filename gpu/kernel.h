#ifndef STOWAGE_GPU_KERNEL_H_
#define STOWAGE_GPU_KERNEL_H_

// The table of GPU kernels: one entry an op, defined in gpu/kernels/ under the
// name declared below. An op without an entry is a link error; views have an
// entry whose `enqueue` is null, for they do no work, and so have stand_in, which
// no program may hold; loop and cond, which are the launches of their bodies
// (gpu/enqueue.h).
//
// A kernel is a pure function of its launch: the same operands give the same
// bits wherever they lie. It computes in f32, whatever 16-bit type its operands
// are stored in, adds in a fixed order, and needs no memory but its operands and
// the workspace that it asks for here. Nothing of this needs a device: a plan
// can be made on a machine that has none.
//
//   const GpuKernel& kernel = GetKernel(node.op);
//   kernel.enqueue(launch, queue);

#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/queue.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

struct GpuKernel {
  /// Enqueues one launch. Null for views, and for what can be planned only.
  using EnqueueFn = void (*)(const Launch&, Queue&);
  EnqueueFn enqueue = nullptr;

  /// Bytes of workspace, aligned to kSlotAlignment. Null: none.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results);
  WorkspaceFn workspace = nullptr;

  /// Whether `enqueue` takes operands of these types; asked before a launch is
  /// made. Null: operand 0 of f32, f16 or bf16.
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// What of operands that `supports` accepts is too large for `enqueue`: "a head
  /// of "q" has 300 elements; expected at most 256". Empty: nothing. Null: never.
  using ExcessFn = std::string (*)(const OpArgs&);
  ExcessFn excess = nullptr;

  /// What of the attributes `enqueue` does not do: "a softcap of 50". Empty: nothing.
  /// Null: it does all.
  using LacksFn = std::string (*)(const OpArgs&);
  LacksFn lacks = nullptr;

  /// Enqueues consecutive launches of this op in few grids; the results are
  /// those of one at a time. Null: one at a time.
  using EnqueueManyFn = void (*)(std::span<const Launch>, Queue&);
  EnqueueManyFn enqueue_many = nullptr;
};

/// Where slots and workspaces must start: what the matrix products want.
inline constexpr Bytes kSlotAlignment = 256;

/// The kernel of an op. One of the program's own that was given none has no
/// `enqueue`.
const GpuKernel& GetKernel(OpKind op);

/// Gives the program's own `op` (ir/op_def.h) a kernel; a view needs none. Error:
/// `op` is not one that DefineOp gave.
Status DefineKernel(OpKind op, const GpuKernel& kernel);

/// Whether there is a kernel for `node`. Error kUnsupported names the op, the
/// node, and the element types or the size that there is none for.
Status Supports(const Graph& graph, const Node& node);

/// GpuKernel::lacks of kernels that take scores or logits as they are.
std::string LacksSoftcap(const OpArgs& args);

/// Whether `op` may be part of a fused_elementwise: what steps of training consist of,
/// and whose code is short.
bool FusesOp(OpKind op);

/// Into how many partial sums the gradient of a norm adds up its rows (Fusions::sum_parts);
/// 0 for other ops.
int64_t SumPartsOf(const OpArgs& args);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const GpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP
}  // namespace kernels

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNEL_H_
