#ifndef STOWAGE_GPU_KERNEL_H_
#define STOWAGE_GPU_KERNEL_H_

// The table of GPU kernels: one entry per op, defined in gpu/kernels/ under the name declared
// below. An op without an entry is a link error. `enqueue` is null for views, which do no
// work; for loop and cond, which are the launches of their bodies (gpu/enqueue.h); and for
// stand_in, which cannot run.
//
// A kernel is a pure function of its launch: the same operands give the same bits at any
// address. It computes in f32 for 16-bit operands, too, adds in a fixed order, and uses no
// memory besides its operands and the workspace requested here. The table needs no device,
// so plans can be made on any machine.
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

  /// Bytes of workspace, aligned to kSlotAlignment. Null: none.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results);
  WorkspaceFn workspace = nullptr;

  /// Whether `enqueue` takes operands of these types. Null: operand 0 is f32, f16 or bf16.
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// Names a size of supported operands that is too large for `enqueue`: "a head of "q" has
  /// 300 elements; expected at most 256". Empty: none. Null: none for any operands.
  using ExcessFn = std::string (*)(const OpArgs&);
  ExcessFn excess = nullptr;

  /// Names an attribute that `enqueue` does not support: "a softcap of 50". Empty: none.
  /// Null: none for any attributes.
  using LacksFn = std::string (*)(const OpArgs&);
  LacksFn lacks = nullptr;

  /// Enqueues consecutive launches of this op in few kernel launches, with the results of one
  /// at a time. Null: one at a time.
  using EnqueueManyFn = void (*)(std::span<const Launch>, Queue&);
  EnqueueManyFn enqueue_many = nullptr;
};

/// The alignment of slots and workspaces, for the matmuls.
inline constexpr Bytes kSlotAlignment = 256;

/// The kernel of an op. `enqueue` is null for a custom op without a kernel.
const GpuKernel& GetKernel(OpKind op);

/// Defines the kernel of a custom op (ir/op_def.h); a view needs none. Error: `op` is not
/// a custom op.
Status DefineKernel(OpKind op, const GpuKernel& kernel);

/// Whether there is a kernel for `node`. Error kUnsupported names the op, the node, and the
/// unsupported element types or size.
Status Supports(const Graph& graph, const Node& node);

/// GpuKernel::lacks of kernels without a softcap.
std::string LacksSoftcap(const OpArgs& args);

/// Whether `op` may be part of a fused_elementwise: the ops of training steps with short
/// code.
bool FusesOp(OpKind op);

/// The number of partial sums over rows of a norm's gradient (Fusions::sum_parts); 0 for
/// other ops.
int64_t SumPartsOf(const OpArgs& args);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const GpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP
}  // namespace kernels

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNEL_H_
