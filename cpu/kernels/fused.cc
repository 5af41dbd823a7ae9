// Chains of elementwise ops, alone or after a matmul, on a block of a few hundred elements at
// a time: each op runs over the block, which stays in the first-level cache, by its own
// kernel's code.

#include "ir/fused.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "cpu/blocking.h"
#include "cpu/kernel.h"
#include "cpu/kernels/bf16_matmul.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/kernel_table.h"
#include "cpu/kernels/matmul.h"
#include "cpu/kernels/vec.h"
#include "ir/op_kind.h"

namespace stowage::cpu {
namespace {

static_assert(kMaxFusedOperands <= internal::kMaxBlockOperands);

// The parts of a node, from one of them on.
class Parts {
 public:
  explicit Parts(const Attrs& attrs) : chain_(ChainOf(ProgramOf(attrs))) {
    for (size_t i = 0; i < steps().size(); ++i) {
      blocks_[i] = OwnKernel(steps()[i].op).block;
    }
  }

  std::span<const FusedStep> steps() const { return chain_.steps(); }

  // Runs the steps from `first` on over n elements in `dtype`. `value` is the chain's value
  // before; operand(k) returns leaf k. A step writes to to(step), and done(step) returns its
  // value for the next one.
  template <typename OperandFn, typename ToFn, typename DoneFn>
  void Run(size_t first, DType dtype, int64_t n, const std::byte* value,
           const OperandFn& operand, const ToFn& to, const DoneFn& done) const {
    for (size_t i = first; i < steps().size(); ++i) {
      const FusedStep& step = steps()[i];
      const std::byte* const other =
          step.operand < 0 ? value : operand(step.operand);
      const std::byte* const x[] = {step.is_second ? other : value,
                                    step.is_second ? value : other};
      std::byte* const y = to(step);
      blocks_[i](*step.attrs, dtype, n, y, x);
      value = done(step, y);
    }
  }

 private:
  FusedChain chain_;
  std::array<CpuKernel::BlockFn, kMaxFusedSteps> blocks_ = {};
};

// --- fused_elementwise ---

// For f32 and f64, results are computed in place. The last one may overwrite an operand that
// is no longer read.
template <typename T>
void RunElementwise(const Launch& launch, ThreadPool& pool,
                    const Parts& parts) {
  ElementwiseBlocks<T>(
      launch, pool,
      [&](int64_t n, int64_t index, const std::byte* const* operands) {
        alignas(64) T between[kBlockElements];
        parts.Run(
            0, launch.outputs[0].dtype(), n, operands[0],
            [&](int k) { return operands[k]; },
            [&](const FusedStep& step) {
              return step.result < 0
                         ? reinterpret_cast<std::byte*>(between)
                         : launch.outputs[static_cast<size_t>(step.result)]
                                   .data +
                               index * static_cast<int64_t>(sizeof(T));
            },
            [](const FusedStep&, const std::byte* y) { return y; });
      });
}

// A part's n results in f32, rounded: as they are stored, and as the next part reads
// them.
struct RoundedBlock {
  void Round(DType half, int64_t n) {
    Narrow(half, n, wide, narrow);
    Widen(half, n, narrow, 1, wide);
  }
  alignas(64) float wide[kBlockElements];
  alignas(64) std::byte narrow[2 * kBlockElements];
};

void RunHalfElementwise(const Launch& launch, ThreadPool& pool,
                        const Parts& parts) {
  const DType half = launch.outputs[0].dtype();
  ElementwiseBlocks<float>(
      launch, pool,
      [&](int64_t n, int64_t index, const std::byte* const* operands) {
        RoundedBlock block;
        auto* const wide = reinterpret_cast<std::byte*>(block.wide);
        parts.Run(
            0, DType::kF32, n, operands[0], [&](int k) { return operands[k]; },
            [&](const FusedStep&) { return wide; },
            [&](const FusedStep& step, const std::byte*) {
              block.Round(half, n);
              if (step.result >= 0) {
                std::memcpy(
                    launch.outputs[static_cast<size_t>(step.result)].data +
                        2 * index,
                    block.narrow, static_cast<size_t>(2 * n));
              }
              return static_cast<const std::byte*>(wide);
            });
      });
}

StepCode RunFusedElementwise(const Launch& launch, ThreadPool& pool) noexcept {
  const Parts parts(*launch.attrs);
  const DType dtype = launch.outputs[0].dtype();
  if (IsHalf(dtype)) {
    RunHalfElementwise(launch, pool, parts);
  } else {
    OnFloat(dtype, [&](auto zero) {
      RunElementwise<decltype(zero)>(launch, pool, parts);
    });
  }
  return StepCode::kOk;
}

// --- fused_matmul ---

// The operands after a and b: leaf k is operand k + 1 of the launch.
const TensorView& OperandOf(const Launch& launch, int leaf) {
  return launch.inputs[static_cast<size_t>(leaf) + 1];
}
// Whether it is one row, the same for all rows of the matmul.
bool IsOneRow(const TensorView& x) { return !x.contiguous(); }

// The number of leading sums, with a row and then with a matrix, that are folded into the
// matmul's last step. A stored result ends them.
struct Folded {
  size_t parts = 0;
  int row = -1;  // leaves
  int matrix = -1;
  int result = 0;  // where the product lies
};
Folded Fold(const Launch& launch, std::span<const FusedStep> steps) {
  Folded folded;
  for (const FusedStep& step : steps) {
    if (step.op != OpKind::kAdd || step.operand < 0 || folded.matrix >= 0) {
      break;
    }
    if (IsOneRow(OperandOf(launch, step.operand))) {
      if (folded.row >= 0) break;
      folded.row = step.operand;
    } else {
      folded.matrix = step.operand;
    }
    ++folded.parts;
    if (step.result < 0) continue;
    folded.result = step.result;
    break;
  }
  return folded;
}

// n elements, kStripColumns mostly: a few registers.
template <typename T>
void CopyRow(int64_t n, const T* from, T* to) {
  if (n == kStripColumns<T>) {
    constexpr int64_t kLanes = Vec<T>::kLanes;
    for (int64_t i = 0; i < kStripColumns<T>; i += kLanes) {
      Vec<T>::Load(from + i).Store(to + i);
    }
  } else {
    ForEachVec<T>(n, [&](auto at) { at.Store(to, at.Load(from)); });
  }
}

// The steps of the chain after the folded ones.
template <typename T>
class PartsTail {
 public:
  static constexpr bool kTakesRows = true;
  static constexpr bool kTakesSums = false;

  PartsTail(const Launch& launch, const Parts& parts, const Folded& folded)
      : launch_(launch),
        parts_(parts),
        folded_(folded),
        columns_(launch.outputs[0].shape().back()) {}

  Finish<T> FinishOf(int64_t row, int64_t column) const {
    Finish<T> finish;
    if (folded_.row >= 0) {
      finish.row = OperandOf(launch_, folded_.row).as<const T>() + column;
    }
    if (folded_.matrix >= 0) {
      const T* data = OperandOf(launch_, folded_.matrix).as<const T>();
      finish.matrix = {data + row * columns_ + column, columns_};
    }
    return finish;
  }

  // A task: rows of n columns from (row, column) on.
  class Task {
   public:
    Task(const PartsTail& tail, int64_t row, int64_t column, int64_t n,
         int64_t m)
        : tail_(tail), row_(row), column_(column), n_(n), m_(m) {
      for (const FusedStep& step :
           tail.parts_.steps().subspan(tail.folded_.parts)) {
        if (step.operand < 0) continue;
        const TensorView& x = OperandOf(tail.launch_, step.operand);
        if (!IsOneRow(x)) {
          Prefetch(x, 0);
          continue;
        }
        T* to = Repeated(step.operand);
        for (int64_t i = 0; i < kTileRows; ++i) {
          Read(x, column, to + i * n_);
        }
      }
    }

    void operator()(int64_t i, int64_t rows) const {
      const Launch& launch = tail_.launch_;
      const int64_t first = (row_ + i) * tail_.columns_ + column_;
      RoundedBlock half;
      alignas(64) T value[kElements];
      alignas(64) T other[kElements];
      const auto gather = [&](const TensorView& x, T* to) {
        for (int64_t r = 0; r < rows; ++r) {
          Read(x, first + r * tail_.columns_, to + r * n_);
        }
        return reinterpret_cast<const std::byte*>(to);
      };
      T* at = value;
      if constexpr (std::is_same_v<T, float>) {
        if (IsHalf(tail_.dtype())) at = half.wide;
      }
      const auto* start =
          gather(launch.outputs[static_cast<size_t>(tail_.folded_.result)], at);
      tail_.parts_.Run(
          tail_.folded_.parts, ComputedIn(tail_.dtype()), rows * n_, start,
          [&](int leaf) {
            const TensorView& x = OperandOf(launch, leaf);
            if (!IsOneRow(x)) {
              Prefetch(x, i + rows);
              return gather(x, other);
            }
            return reinterpret_cast<const std::byte*>(
                repeated_[static_cast<size_t>(leaf)]);
          },
          [&](const FusedStep&) { return reinterpret_cast<std::byte*>(at); },
          [&](const FusedStep& step, const std::byte* y) {
            const std::byte* from = y;
            if constexpr (std::is_same_v<T, float>) {
              if (IsHalf(tail_.dtype())) {
                half.Round(tail_.dtype(), rows * n_);
                from = half.narrow;
              }
            }
            if (step.result >= 0) {
              Write(launch.outputs[static_cast<size_t>(step.result)], first,
                    rows, from);
            }
            return y;
          });
    }

   private:
    static constexpr int64_t kElements = kTileRows * kMaxStripColumns<T>;
    static_assert(kElements <= kBlockElements);

    T* Repeated(int leaf) { return repeated_[static_cast<size_t>(leaf)]; }
    // n elements of x from element `at` on.
    void Read(const TensorView& x, int64_t at, T* to) const {
      const Bytes size = SizeOf(x.dtype());
      if constexpr (std::is_same_v<T, float>) {
        if (IsHalf(x.dtype())) {
          return Widen(x.dtype(), n_, x.data + at * size, 1, to);
        }
      }
      CopyRow(n_, x.as<const T>() + at, to);
    }

    // Prefetches the rows from i on while their matmuls are computed.
    void Prefetch(const TensorView& x, int64_t i) const {
      const Bytes size = SizeOf(x.dtype());
      const int64_t end = std::min(m_, i + kTileRows);
      for (; i < end; ++i) {
        const std::byte* row =
            x.data + ((row_ + i) * tail_.columns_ + column_) * size;
        for (int64_t byte = 0; byte < n_ * size; byte += 64) {
          __builtin_prefetch(row + byte);
        }
      }
    }
    // Rows of n elements to y, from element `at` on.
    void Write(const TensorView& y, int64_t at, int64_t rows,
               const std::byte* from) const {
      if (IsHalf(y.dtype())) {
        for (int64_t r = 0; r < rows; ++r) {
          std::memcpy(y.data + 2 * (at + r * tail_.columns_), from + 2 * r * n_,
                      static_cast<size_t>(2 * n_));
        }
        return;
      }
      const T* row = reinterpret_cast<const T*>(from);
      T* to = y.as<T>() + at;
      for (int64_t r = 0; r < rows; ++r) {
        CopyRow(n_, row + r * n_, to + r * tail_.columns_);
      }
    }

    const PartsTail& tail_;
    const int64_t row_, column_, n_, m_;
    alignas(64) T repeated_[kMaxFusedOperands][kElements];
  };

  Task For(int64_t row, int64_t column, int64_t n, int64_t m) const {
    return Task(*this, row, column, n, m);
  }

 private:
  DType dtype() const { return launch_.outputs[0].dtype(); }

  const Launch& launch_;
  const Parts& parts_;
  const Folded folded_;
  const int64_t columns_;
};

// If all steps are folded.
template <typename T>
struct FoldedTail : PartsTail<T> {
  static constexpr bool kTakesRows = false;
};

template <typename T>
void RunAfterProduct(const Launch& launch, ThreadPool& pool,
                     const Blocking& blocking) {
  const Parts parts(*launch.attrs);
  Folded folded;
  if (!IsHalf(launch.outputs[0].dtype())) {
    folded = Fold(launch, parts.steps());
  }
  const TensorView& product =
      launch.outputs[static_cast<size_t>(folded.result)];
  const PartsTail<T> tail(launch, parts, folded);
  if (folded.parts == parts.steps().size()) {
    RunProduct<T>(launch, pool, blocking, product, FoldedTail<T>{tail});
  } else {
    RunProduct<T>(launch, pool, blocking, product, tail);
  }
}

StepCode RunFusedMatMul(const Launch& launch, ThreadPool& pool,
                        const Blocking& blocking) noexcept {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    RunAfterProduct<decltype(zero)>(launch, pool, blocking);
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel FusedElementwise = {.run = RunFusedElementwise,
                                              .supports = SupportsAll};
constinit const CpuKernel FusedMatMul = {.run = RunByDefault<RunFusedMatMul>,
                                         .run_blocked = RunFusedMatMul,
                                         .trial = MatMulTrial,
                                         .workspace = MatMulWorkspace,
                                         .supports = SupportsAll};

}  // namespace kernels

#ifdef STOWAGE_CPU_BF16_PAIRS

namespace {

StepCode RunFusedMatMulByPairs(const Launch& launch,
                               ThreadPool& pool) noexcept {
  const Parts parts(*launch.attrs);
  const Folded none;
  RunBf16MatMul(launch, pool, launch.outputs[0],
                PartsTail<float>(launch, parts, none));
  return StepCode::kOk;
}

}  // namespace

namespace bf16_kernels {

constinit const CpuKernel FusedMatMul =
    Bf16MatMulKernel<kernels::FusedMatMul, RunFusedMatMulByPairs>();

}  // namespace bf16_kernels

#endif  // STOWAGE_CPU_BF16_PAIRS

}  // namespace stowage::cpu
