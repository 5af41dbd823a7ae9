#ifndef STOWAGE_CPU_KERNEL_H_
#define STOWAGE_CPU_KERNEL_H_

// Declares the table of CPU kernels, which has one entry per op. Each entry is defined in
// cpu/kernels/ under the name declared below. An op without an entry is a link error. `run` is
// null for views (which do no work), loop and cond (whose bodies LaunchList runs), collectives
// (which have `run_among_ranks`), and stand_in (which cannot run).
//
//   const CpuKernel& kernel = KernelOf(graph, node);
//   StepCode code = kernel.run(launch, pool);
//
// A kernel is a pure function of its launch and runs on the caller's pool. Its results are
// bit-identical for any number of threads and any addresses of its operands. It uses no memory
// except its operands and the workspace requested here.
//
// Kernels are compiled once for each CPU target of the build (cpu/targets.h), so each target
// has its own table.
//
// Kernels compute in f32 and f64. Nodes of f16 and bf16 are computed in f32. Elementwise
// kernels and matmul convert what they read and write, one block at a time. Every other kernel
// reads f32 copies of its f16 and bf16 operands and writes f32 results. The copies and results
// are in the node's workspace, and the results are rounded once. (layer_norm_grad_add also
// rounds the gradient before its sum, as a separate node would.) A copy is contiguous, without
// repeated elements, and has its operand's axes in the order of the operand's memory. A kernel
// that supports the operand's strides therefore also supports the strides of the copy. bf16
// matmuls and convolutions have their own kernels if the processor multiplies bf16
// (cpu/kernels/kernel_table.h).

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

  /// Runs one launch of a matmul with a blocking, which is one of its trial's candidates. `run`
  /// uses the default blocking and computes the same bits. If null, there is only one blocking.
  using RunBlockedFn = StepCode (*)(const Launch&, ThreadPool&,
                                    const Blocking&) noexcept;
  RunBlockedFn run_blocked = nullptr;

  /// Returns the trial that finds the blocking of a launch on a pool of `threads`. Reads no
  /// element of the launch. If the trial is nullopt, the default blocking is used. If the
  /// function is null, no launch has a trial.
  using TrialFn = std::optional<BlockingTrial> (*)(const Launch&, int threads);
  TrialFn trial = nullptr;

  /// Runs one launch of a collective. Collectives have no `run`.
  using AmongRanksFn = StepCode (*)(const Launch&, Collectives&) noexcept;
  AmongRanksFn run_among_ranks = nullptr;

  /// Returns the workspace size in bytes for a pool of `threads`. The workspace is aligned to
  /// kWorkspaceAlignment. If null, the kernel uses no workspace.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results,
                                int threads);
  WorkspaceFn workspace = nullptr;

  /// Returns whether `run` accepts operands of these types. If null, operand 0 must be f32 or
  /// f64. f16 and bf16 operands that `run` accepts only as f32 are converted.
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// Computes n contiguous elements of `y` from elements of the operands x[0] and x[1], with
  /// the bits of `run`. All are f32, or all are f64. `y` may be an operand. Null unless the op
  /// is elementwise on floats of one type.
  using BlockFn = void (*)(const Attrs&, DType, int64_t n, std::byte* y,
                           const std::byte* const* x);
  BlockFn block = nullptr;
};

/// The `run` of a kernel that has `run_blocked`.
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
  /// The kernels in the order of ir/ops.def.
  std::array<const CpuKernel*, kNumOps> of_op = {};
  /// The kernel that runs nodes of f16 and bf16 in f32.
  const CpuKernel* widened = nullptr;
  /// The same table with AVX512-BF16 kernels. Null if this table already has them or the build
  /// has none.
  const KernelTable* by_pairs = nullptr;
};

/// Returns the kernel of an op in `table`. The kernel of a custom op is the same for all
/// tables. Its `run` is null if no kernel was defined.
const CpuKernel& GetKernel(OpKind op, const KernelTable& table);

/// Returns the kernel of an op for the target of this process (RunningCpuTarget).
const CpuKernel& GetKernel(OpKind op);

/// Defines the kernel of a custom op (ir/op_def.h). A view needs no kernel. Returns
/// kInvalidArgument if `op` is not a custom op.
Status DefineKernel(OpKind op, const CpuKernel& kernel);

/// Returns whether a kernel accepts operands of these types without conversion.
bool Takes(const CpuKernel& kernel, const OpArgs& args);

/// Returns the kernel that runs `node`: the kernel of its op, or `widened`.
const CpuKernel& KernelOf(const Graph& graph, const Node& node,
                          const KernelTable& table);
const CpuKernel& KernelOf(const Graph& graph, const Node& node);

/// Returns kUnsupported if the CPU cannot run `node`. The message names the op, the node and
/// the element types.
Status Supports(const Graph& graph, const Node& node);

/// The maximum number of operands of a node that runs widened. No built-in op has more.
inline constexpr size_t kMaxWidenedOperands = 16;

/// Returns whether the kernel of `node`'s op in `table` accepts the node's types only with f32
/// in place of f16 and bf16, and infers the same results except for these types.
bool RunsWidened(const Graph& graph, const Node& node,
                 const KernelTable& table);

/// Returns `type` with f32 in place of f16 and bf16.
TensorType Wide(const TensorType& type);
std::vector<TensorType> Wide(std::span<const TensorType> types);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const CpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP

/// Runs nodes of f16 and bf16 in f32. Its workspace holds an f32 copy of each f16 or bf16
/// operand and result, and the workspace of the op's own kernel.
extern const CpuKernel Widened;
}  // namespace kernels

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNEL_H_
