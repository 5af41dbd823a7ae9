#ifndef STOWAGE_CPU_KERNEL_H_
#define STOWAGE_CPU_KERNEL_H_

// The table of CPU kernels: one entry per op, defined in cpu/kernels/ under the name
// declared below. An op without an entry is a link error. `run` is null for views, which do
// no work; for loop and cond, whose bodies LaunchList runs; and for stand_in, which cannot
// run.
//
//   const CpuKernel& kernel = KernelOf(graph, node);
//   StepCode code = kernel.run(launch, pool);
//
// A kernel is a pure function of its launch and runs on the caller's pool. Its results are
// bit-identical for any number of threads and any addresses of its operands. It uses no
// memory besides its operands and the workspace requested here.
//
// Kernels are compiled once for each CPU target of the build (cpu/targets.h), which gives a
// table for each.
//
// Kernels compute in f32 and f64. Nodes of f16 and bf16 run in f32: elementwise kernels and
// matmul convert what they read and write, a block at a time; every other kernel is given
// f32 copies of its f16 and bf16 operands and writes f32 results, both in the node's
// workspace, and the results are rounded once (layer_norm_grad_add also rounds the gradient
// before its sum, as a separate node would). A copy has its operand's axes in the order of
// the operand's memory, contiguous, without its repetitions, so a kernel that takes the
// operand's strides takes the copy's. Matmuls and convolutions of bf16 have their own kernels
// if the processor multiplies bf16 (cpu/kernels/kernel_table.h).

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
  /// Runs one launch. Null for views and for ops that can only be planned.
  using RunFn = StepCode (*)(const Launch&, ThreadPool&) noexcept;
  RunFn run = nullptr;

  /// For matmuls: runs one launch with a blocking, one of its trial's candidates; `run` uses
  /// the default, with the same bits. Null: there is no choice.
  using RunBlockedFn = StepCode (*)(const Launch&, ThreadPool&,
                                    const Blocking&) noexcept;
  RunBlockedFn run_blocked = nullptr;

  /// The trial that finds the blocking of a launch for a pool of `threads`; reads no element
  /// of the launch. None: the default is used. Null: none for any launch.
  using TrialFn = std::optional<BlockingTrial> (*)(const Launch&, int threads);
  TrialFn trial = nullptr;

  /// For collectives, in place of `run`.
  using AmongRanksFn = StepCode (*)(const Launch&, Collectives&) noexcept;
  AmongRanksFn run_among_ranks = nullptr;

  /// Bytes of workspace, aligned to kWorkspaceAlignment, for a pool of
  /// `threads`. Null: none.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results,
                                int threads);
  WorkspaceFn workspace = nullptr;

  /// Whether `run` takes operands of these types. Null: operand 0 is f32 or f64. f16 and
  /// bf16 operands that it takes only as f32 are converted.
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// For elementwise ops on floats of one type: computes n contiguous elements of `y` from
  /// those of the operands x[0] and x[1], all f32 or f64, with the bits of `run`. `y` may be
  /// an operand. Null for other ops.
  using BlockFn = void (*)(const Attrs&, DType, int64_t n, std::byte* y,
                           const std::byte* const* x);
  BlockFn block = nullptr;
};

/// The `run` of a kernel with `run_blocked`.
template <CpuKernel::RunBlockedFn kRunBlocked>
StepCode RunByDefault(const Launch& launch, ThreadPool& pool) noexcept {
  return kRunBlocked(launch, pool, {});
}

/// The alignment of workspaces: a cache line.
inline constexpr Bytes kWorkspaceAlignment = 64;

/// The kernels of one CPU target.
struct KernelTable {
  /// The vector extension that they use, such as "AVX2".
  std::string_view vectors;
  /// In the order of ir/ops.def.
  std::array<const CpuKernel*, kNumOps> of_op = {};
  /// Runs nodes of f16 and bf16 in f32.
  const CpuKernel* widened = nullptr;
  /// The same table with bf16 matmuls by AVX512-BF16; null if this is that table or there
  /// are no such kernels.
  const KernelTable* by_pairs = nullptr;
};

/// The kernel of an op in `table`. The kernel of a custom op is the same for all tables; its
/// `run` is null if none was defined.
const CpuKernel& GetKernel(OpKind op, const KernelTable& table);

/// The kernel of an op for the target of this process (RunningCpuTarget).
const CpuKernel& GetKernel(OpKind op);

/// Defines the kernel of a custom op (ir/op_def.h); a view needs none. Error: `op` is not
/// a custom op.
Status DefineKernel(OpKind op, const CpuKernel& kernel);

/// Whether a kernel takes operands of these types as they are.
bool Takes(const CpuKernel& kernel, const OpArgs& args);

/// The kernel that runs `node`: its op's, or `widened`.
const CpuKernel& KernelOf(const Graph& graph, const Node& node,
                          const KernelTable& table);
const CpuKernel& KernelOf(const Graph& graph, const Node& node);

/// Whether the CPU can run `node`. Error kUnsupported names the op, the node
/// and the element type.
Status Supports(const Graph& graph, const Node& node);

/// More operands than any built-in op has.
inline constexpr size_t kMaxWidenedOperands = 16;

/// Whether the kernel of `node`'s op in `table` takes the node's types only with f32 in
/// place of f16 and bf16, and then has the same results but for those types.
bool RunsWidened(const Graph& graph, const Node& node,
                 const KernelTable& table);

/// `type` with f32 in place of f16 and bf16.
TensorType Wide(const TensorType& type);
std::vector<TensorType> Wide(std::span<const TensorType> types);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const CpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP

/// Runs nodes of f16 and bf16 in f32. Its workspace is an f32 copy of each f16 or bf16
/// operand and result, and the workspace of the op's own kernel.
extern const CpuKernel Widened;
}  // namespace kernels

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNEL_H_
