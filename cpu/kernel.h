#ifndef STOWAGE_CPU_KERNEL_H_
#define STOWAGE_CPU_KERNEL_H_

// Declares the table of CPU kernels, which has one entry per op. Each entry is defined in
// cpu/kernels/ under the name declared below. If an op of ir/ops.def has no entry, linking fails.
// `run` is null for views (which do no work), loop and cond (whose bodies LaunchList runs),
// collectives (which have `run_among_ranks`), and stand_in (which cannot run).
//
//   const CpuKernel& kernel = KernelOf(graph, node);
//   StepCode code = kernel.run(launch, pool);
//
// The results of a kernel depend only on its launch. It runs on the pool that the caller passes.
// Its results are bit-identical for any number of threads and any addresses of its operands. It
// uses no memory except its operands and the workspace requested here.
//
// Kernels are compiled once for each CPU target of the build (cpu/targets.h), so each target
// has its own table.
//
// Kernels compute in f32 and f64. Nodes of f16 and bf16 are computed in f32. Elementwise kernels,
// matmul and the updates of optimizers convert what they read and write, one block at a time.
// Kernels that only move elements, such as gather, copy them without conversion. Every other kernel
// reads f32 copies of its f16 and bf16 operands and writes f32 results. These copies and results
// are in the node's workspace, and the results are rounded once. (layer_norm_grad_add also rounds
// the gradient before its sum, as a separate node would.) A copy is contiguous, without repeated
// elements, and its axes have the order that the operand's axes have in memory. A kernel that
// supports the operand's strides therefore also supports the strides of the copy. If the processor
// has instructions that multiply bf16, then matmuls, convolutions, attention and
// linear_cross_entropy of bf16 have their own kernels (cpu/kernels/kernel_table.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cpu/blocking.h"
#include "cpu/thread_pool.h"
#include "ir/attrs.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

struct CpuKernel {
  /// Runs one launch. Null for the ops listed above.
  using RunFn = StepCode (*)(const Launch&, ThreadPool&) noexcept;
  RunFn run = nullptr;

  /// Runs one launch of a matmul with a blocking, which must be the default or one of the
  /// candidates of its trial. The result is bit-equal to the result of `run`, which uses the
  /// default blocking. Null if the kernel does not use blockings.
  using RunBlockedFn = StepCode (*)(const Launch&, ThreadPool&,
                                    const Blocking&) noexcept;
  RunBlockedFn run_blocked = nullptr;

  /// Returns the trial by which the blocking of a launch is chosen, for a pool of `threads`
  /// threads. Reads no element of the launch's operands. Returns nullopt if the launch uses the
  /// default blocking. Null if all launches do.
  using TrialFn = std::optional<BlockingTrial> (*)(const Launch&, int threads);
  TrialFn trial = nullptr;

  /// Runs one launch of a collective. Collectives have no `run`.
  using AmongRanksFn = StepCode (*)(const Launch&, Collectives&) noexcept;
  AmongRanksFn run_among_ranks = nullptr;

  /// Returns the workspace size in bytes for a pool of `threads` threads. Launches get a workspace
  /// that is aligned to kWorkspaceAlignment. If null, the kernel uses no workspace.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results,
                                int threads);
  WorkspaceFn workspace = nullptr;

  /// Returns whether `run` accepts operands of these types. If null, `run` accepts operands whose
  /// first one is f32 or f64, and ops without operands. If `run` does not accept f16 or bf16
  /// operands but accepts f32 in their place, the operands are converted (Widened).
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// Computes n contiguous elements of `y` from the operands x[0] and x[1]. The elements are
  /// bit-equal to the elements that `run` computes. All are f32, or all are f64. An op with one
  /// operand does not read x[1]. `y` may be equal to x[0] or x[1]. Null unless the op is
  /// elementwise on floats of one type.
  using BlockFn = void (*)(const Attrs&, DType, int64_t n, std::byte* y,
                           const std::byte* const* x);
  BlockFn block = nullptr;
};

/// Implements CpuKernel::run for a kernel with `run_blocked`, by running it with the default
/// blocking.
template <CpuKernel::RunBlockedFn kRunBlocked>
StepCode RunByDefault(const Launch& launch, ThreadPool& pool) noexcept {
  return kRunBlocked(launch, pool, {});
}

/// The alignment of workspaces, which is a cache line.
inline constexpr Bytes kWorkspaceAlignment = 64;

/// The kernels of one CPU target.
struct KernelTable {
  /// The vector extension that the kernels use, such as "AVX2".
  std::string_view vectors;
  /// The kernel of each op, in the order of ir/ops.def.
  std::array<const CpuKernel*, kNumOps> of_op = {};
  /// The kernel that runs nodes of f16 and bf16 in f32.
  const CpuKernel* widened = nullptr;
  /// The same table, except that the kernels of kernel_table.h that use AVX512-BF16 replace others.
  /// Null if this table already has them or the build has none.
  const KernelTable* by_pairs = nullptr;
};

/// Returns the kernel of an op in `table`. The kernel of a custom op (DefineKernel) is the same for
/// all tables. If it has not been defined, `run` is null.
const CpuKernel& GetKernel(OpKind op, const KernelTable& table);

/// Returns the kernel of an op for the target of this process (RunningCpuTarget).
const CpuKernel& GetKernel(OpKind op);

/// Sets the kernel of a custom op (ir/op_def.h), which replaces the kernel set before. A custom op
/// that is a view needs no kernel. Returns kInvalidArgument if `op` is not a custom op. Must not be
/// called while another thread uses kernels.
Status DefineKernel(OpKind op, const CpuKernel& kernel);

/// Returns whether a kernel accepts operands of these types without conversion.
bool Takes(const CpuKernel& kernel, const OpArgs& args);

/// Returns the kernel that runs `node`: the table's `widened` if RunsWidened, and otherwise the
/// kernel of its op. Without `table`, uses the table of RunningCpuTarget.
const CpuKernel& KernelOf(const Graph& graph, const Node& node,
                          const KernelTable& table);
const CpuKernel& KernelOf(const Graph& graph, const Node& node);

/// Returns kUnsupported if the kernels of this process's target cannot run `node` or a node of its
/// bodies. The message names the op and the node, and lists the operands' types if they are the
/// reason.
Status Supports(const Graph& graph, const Node& node);

/// The maximum number of operands of a node that runs by `widened`. A node of a custom op with more
/// operands is unsupported if its kernel does not accept f16 or bf16.
inline constexpr size_t kMaxWidenedOperands = 16;

/// Returns whether `node` runs by `widened`. This is the case if the kernel of its op in `table`
/// rejects its types, but accepts them with f32 in place of f16 and bf16, and the op's results for
/// these operands have the same shapes, with f32 in place of f16 and bf16. Always false for nodes
/// with more than kMaxWidenedOperands operands.
bool RunsWidened(const Graph& graph, const Node& node,
                 const KernelTable& table);

/// Return types with f32 in place of f16 and bf16.
TensorType Wide(const TensorType& type);
std::vector<TensorType> Wide(std::span<const TensorType> types);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const CpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP

/// Runs nodes of f16 and bf16 in f32. Its workspace holds f32 copies of all f16 and bf16 operands,
/// f32 results in place of f16 and bf16 results, and the workspace of the op's own kernel.
extern const CpuKernel Widened;
}  // namespace kernels

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNEL_H_
