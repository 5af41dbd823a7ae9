#ifndef STOWAGE_GPU_KERNEL_H_
#define STOWAGE_GPU_KERNEL_H_

// Provides the table of GPU kernels. It has one entry per op, defined in gpu/kernels/ under the
// name declared below. An op without an entry is a link error. `enqueue` is null for views, which
// do no work, for loop and cond, whose bodies are enqueued instead (gpu/enqueue.h), and for
// stand_in, which cannot run.
//
// A kernel is a pure function of its launch: the same operands produce the same bits at any
// address. It computes in f32, also for 16-bit operands, and adds in a fixed order. It uses no
// memory other than its operands and the workspace requested here. The table does not need a
// device, so plans can be computed on any machine.
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
  /// Enqueues one launch. Null for views and for ops that can only be planned.
  using EnqueueFn = void (*)(const Launch&, Queue&);
  EnqueueFn enqueue = nullptr;

  /// Returns the bytes of workspace, aligned to kSlotAlignment. If null, there is no workspace.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results);
  WorkspaceFn workspace = nullptr;

  /// Returns whether `enqueue` accepts operands of these types. If null, operand 0 must be f32,
  /// f16 or bf16.
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// Returns a description of a size that is too large for `enqueue`, such as "a head of "q" has
  /// 300 elements; expected at most 256", or an empty string. Requires supported operands. If
  /// null, all sizes are accepted.
  using ExcessFn = std::string (*)(const OpArgs&);
  ExcessFn excess = nullptr;

  /// Returns the name of an attribute value that `enqueue` does not support, such as "a softcap of
  /// 50", or an empty string. If null, all attributes are supported.
  using LacksFn = std::string (*)(const OpArgs&);
  LacksFn lacks = nullptr;

  /// Enqueues consecutive launches of this op in few kernel launches, with the same results as
  /// separate launches. If null, launches are enqueued one at a time.
  using EnqueueManyFn = void (*)(std::span<const Launch>, Queue&);
  EnqueueManyFn enqueue_many = nullptr;
};

/// The alignment of slots and workspaces, which matmuls require.
inline constexpr Bytes kSlotAlignment = 256;

/// Returns the kernel of an op. `enqueue` is null for a custom op without a kernel.
const GpuKernel& GetKernel(OpKind op);

/// Defines the kernel of a custom op (ir/op_def.h). A view does not need a kernel. Returns an error
/// if `op` is not a custom op.
Status DefineKernel(OpKind op, const GpuKernel& kernel);

/// Returns kUnsupported if there is no kernel for `node`. The error names the op, the node, and the
/// unsupported element types, attribute or size.
Status Supports(const Graph& graph, const Node& node);

/// GpuKernel::lacks for kernels that do not support a softcap.
std::string LacksSoftcap(const OpArgs& args);

/// Returns whether `op` may be part of a fused_elementwise. Only ops that training steps use and
/// whose device code is short are fused.
bool FusesOp(OpKind op);

/// Returns the number of partial sums over rows in the gradient of a norm (Fusions::sum_parts), or
/// 0 for other ops.
int64_t SumPartsOf(const OpArgs& args);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const GpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP
}  // namespace kernels

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNEL_H_
