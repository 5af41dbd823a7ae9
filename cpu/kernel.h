#ifndef STOWAGE_CPU_KERNEL_H_
#define STOWAGE_CPU_KERNEL_H_

// The table of CPU kernels: one entry an op, defined in cpu/kernels/ under the
// name declared below. An op without an entry is a link error; views have an
// entry whose `run` is null, for they do no work, and so have loop and cond, whose
// bodies run (cpu/exchange_thread.h), and stand_in, which no program may hold.
//
// A kernel is a pure function of its launch and runs on the caller's pool; its
// results are the same, bit for bit, whatever the number of threads and
// wherever its operands lie. All it needs beside its operands is the workspace
// it asks for here.
//
// Kernels compute in f32 and f64; what has f16 or bf16 operands runs in f32, by the
// same kernels (cpu/widened.h), but for matmuls of bf16 where the processor has them
// (cpu/kernels/bf16_kernels.h). They are compiled once for each CPU target of the build
// (cpu/targets.h), which gives a table of them for each.
//
//   const CpuKernel& kernel = KernelOf(graph, node);
//   StepCode code = kernel.run(launch, pool);

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

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
  /// Runs one launch. Null for views, and for what can be planned only.
  using RunFn = StepCode (*)(const Launch&, ThreadPool&) noexcept;
  RunFn run = nullptr;

  /// Of what multiplies: runs one launch, cut by that blocking, one of its trial's; `run`
  /// does by the default, to the same bits. Null: nothing may be chosen.
  using RunBlockedFn = StepCode (*)(const Launch&, ThreadPool&,
                                    const Blocking&) noexcept;
  RunBlockedFn run_blocked = nullptr;

  /// What to time to find the blocking of a launch, of which no element is read, for a pool
  /// of `threads`; none where the default is kept. Null: none ever.
  using TrialFn = std::optional<BlockingTrial> (*)(const Launch&, int threads);
  TrialFn trial = nullptr;

  /// Runs, instead, what the ranks of a step do together.
  using AmongRanksFn = StepCode (*)(const Launch&, Collectives&) noexcept;
  AmongRanksFn run_among_ranks = nullptr;

  /// Bytes of workspace, aligned to kWorkspaceAlignment, for a pool of
  /// `threads`. Null: none.
  using WorkspaceFn = Bytes (*)(const OpArgs&,
                                std::span<const TensorType> results,
                                int threads);
  WorkspaceFn workspace = nullptr;

  /// Whether `run` takes operands of these types; asked before a launch is
  /// made. Null: operand 0 of f32 or f64. What it does not take in f16 or bf16 but
  /// would in f32 it is given in f32.
  using SupportsFn = bool (*)(const OpArgs&);
  SupportsFn supports = nullptr;

  /// Of an elementwise op whose operands and result are floats of one type: computes
  /// the n elements from `y` on, which may be those of an operand, from those from
  /// x[0] on, and from x[1] on. All are of that type, f32 or f64, and contiguous; the
  /// bits are those that `run` gives. Null: the op is no such.
  using BlockFn = void (*)(const Attrs&, DType, int64_t n, std::byte* y,
                           const std::byte* const* x);
  BlockFn block = nullptr;
};

/// `run` of a kernel that has `run_blocked`.
template <CpuKernel::RunBlockedFn kRunBlocked>
StepCode RunByDefault(const Launch& launch, ThreadPool& pool) noexcept {
  return kRunBlocked(launch, pool, {});
}

/// Where workspaces must start: a cache line.
inline constexpr Bytes kWorkspaceAlignment = 64;

/// The kernels as they are compiled for one CPU target.
struct KernelTable {
  /// The vector extension that they compute by: "AVX2".
  std::string_view vectors;
  /// In the order of ir/ops.def.
  std::array<const CpuKernel*, kNumOps> of_op = {};
  /// Runs nodes of f16 and bf16 in f32 (cpu/widened.h).
  const CpuKernel* widened = nullptr;
  /// These kernels, but those of matmuls of bf16 by the instructions of AVX512-BF16, of
  /// which the compilation makes no other use. Null where they are these, or there are none.
  const KernelTable* by_pairs = nullptr;
};

/// The kernel of an op in `table`. Kernels of the program's own ops are the same for all
/// tables; one that was given none has no `run`.
const CpuKernel& GetKernel(OpKind op, const KernelTable& table);

/// The same of the target that this process runs (RunningCpuTarget).
const CpuKernel& GetKernel(OpKind op);

/// Gives the program's own `op` (ir/op_def.h) a kernel; a view needs none. Error:
/// `op` is not one that DefineOp gave.
Status DefineKernel(OpKind op, const CpuKernel& kernel);

/// Whether a kernel takes operands of these types as they are.
bool Takes(const CpuKernel& kernel, const OpArgs& args);

/// What runs `node`: its op's kernel, or what gives that f32 for f16 and bf16.
const CpuKernel& KernelOf(const Graph& graph, const Node& node,
                          const KernelTable& table);
const CpuKernel& KernelOf(const Graph& graph, const Node& node);

/// Whether the CPU can run `node`. Error kUnsupported names the op, the node
/// and the element type.
Status Supports(const Graph& graph, const Node& node);

namespace kernels {
#define STOWAGE_OP(kind, name) extern const CpuKernel kind;
#include "ir/ops.def"
#undef STOWAGE_OP
}  // namespace kernels

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNEL_H_
