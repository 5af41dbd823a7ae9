#ifndef STOWAGE_GPU_KERNEL_H_
#define STOWAGE_GPU_KERNEL_H_

// Provides the table of GPU kernels, which has one entry per op. Each entry is defined in
// gpu/kernels/ under the name declared below. If an op of ir/ops.def has no entry, linking fails.
// `enqueue` is null for views (which do no work), loop and cond (whose bodies are enqueued, see
// gpu/enqueue.h), and stand_in (which cannot run).
//
// The results of a kernel depend only on its launch, and are bit-identical for operands at other
// addresses. The exceptions are matmuls and attention, whose algorithm may depend on the alignment
// of addresses. Floats, also of 16 bits, are computed in f32 and added in a fixed order. A kernel
// uses no memory other than its operands and the workspace requested here. The table does not need
// a device, so plans can be computed on any machine.
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
  /// Enqueues one launch. Null for the ops listed above.
  using EnqueueFn = void (*)(const Launch&, Queue&);
  EnqueueFn enqueue = nullptr;

  /// Returns the workspace size in bytes. Launches get a workspace that is aligned to
  /// kSlotAlignment. If null, the kernel uses no workspace.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results);
  WorkspaceFn workspace = nullptr;

  /// Returns whether `enqueue` accepts operands of these types. If null, `enqueue` accepts operands
  /// whose first one is f32, f16 or bf16, and ops without operands.
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// Returns a description of a size that is too large for `enqueue`, such as "a head of "q" has
  /// 300 elements; expected at most 256", or an empty string. Is called only for operands that
  /// `supports` accepts. If null, all sizes are accepted.
  using ExcessFn = std::string (*)(const OpArgs&);
  ExcessFn excess = nullptr;

  /// Returns a description of an attribute value that `enqueue` does not support, such as "a
  /// softcap of 50", or an empty string. If null, all attribute values are supported.
  using LacksFn = std::string (*)(const OpArgs&);
  LacksFn lacks = nullptr;

  /// Enqueues consecutive launches of this op in few kernel launches. The results are bit-equal to
  /// the results of separate launches. If null, launches are enqueued one at a time.
  using EnqueueManyFn = void (*)(std::span<const Launch>, Queue&);
  EnqueueManyFn enqueue_many = nullptr;
};

/// The alignment of slots and workspaces, which matmuls require.
inline constexpr Bytes kSlotAlignment = 256;

/// Returns the kernel of an op. `enqueue` is null for a custom op whose kernel has not been defined
/// (DefineKernel).
const GpuKernel& GetKernel(OpKind op);

/// Sets the kernel of a custom op (ir/op_def.h), which replaces the kernel set before. A custom op
/// that is a view needs no kernel. Returns kInvalidArgument if `op` is not a custom op. Must not be
/// called while another thread uses kernels.
Status DefineKernel(OpKind op, const GpuKernel& kernel);

/// Returns kUnsupported if the kernels cannot run `node` or a node of its bodies. The error names
/// the op, the node, and the unsupported element types, attribute or size.
Status Supports(const Graph& graph, const Node& node);

/// Implements GpuKernel::lacks for kernels that do not support a softcap.
std::string LacksSoftcap(const OpArgs& args);

/// Returns whether `op` may be part of a fused_elementwise. Only ops that training steps use and
/// whose device code is short are fused.
bool FusesOp(OpKind op);

/// Implements Fusions::sum_parts (runtime/backend.h). Returns the number of partial sums over rows
/// that the gradient of a norm computes, or 0 for other ops.
int64_t SumPartsOf(const OpArgs& args);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const GpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP
}  // namespace kernels

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNEL_H_
