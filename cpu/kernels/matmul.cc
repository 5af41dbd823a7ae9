#include "cpu/kernels/matmul.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/bf16_matmul.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/kernel_table.h"
#include "cpu/kernels/strided.h"
#include "ir/fused.h"
#include "ir/op_kind.h"
#include "ir/weight_type.h"
#include "math/optimizer.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

namespace {

StepCode RunMatMul(const Launch& launch, ThreadPool& pool,
                   const Blocking& blocking) noexcept {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    RunProduct<T>(launch, pool, blocking, launch.outputs[0], NoTail<T>());
  });
  return StepCode::kOk;
}

// --- epilogue_matmul ---

// The epilogue of the sums, of f32 or f64: a bias is added, then the addend, each sum
// rounded; then a multiplication by the derivative of gelu at x.
template <typename T, bool kGeluGrad>
class EpilogueTail {
 public:
  static constexpr bool kTakesRows = kGeluGrad;
  static constexpr bool kTakesSums = true;

  explicit EpilogueTail(const Launch& launch)
      : y_(launch.outputs[0]),
        columns_(y_.shape().back()),
        attrs_(*launch.attrs),
        gelu_grad_(OwnKernel(OpKind::kGeluTanhGrad).block) {
    const EpilogueOperands at = EpilogueOperandsOf(attrs_);
    if (at.bias != 0) bias_ = launch.inputs[at.bias].data;
    if (at.addend != 0) addend_ = launch.inputs[at.addend].data;
    if (at.x != 0) x_ = launch.inputs[at.x].data;
  }

  Finish<T> FinishOf(int64_t row, int64_t column) const {
    Finish<T> finish;
    if (bias_ != nullptr) {
      finish.row = reinterpret_cast<const T*>(bias_) + column;
    }
    if (addend_ != nullptr) {
      finish.matrix = {
          reinterpret_cast<const T*>(addend_) + row * columns_ + column,
          columns_};
    }
    return finish;
  }

  auto For(int64_t row, int64_t column, int64_t n, int64_t /*m*/) const {
    return [this, row, column, n](int64_t i, int64_t rows) {
      for (int64_t r = row + i; r < row + i + rows; ++r) {
        const int64_t at =
            (r * columns_ + column) * static_cast<int64_t>(sizeof(T));
        GeluGrad(n, x_ + at, y_.data + at);
      }
    };
  }

  // f16 and bf16.
  void FinishRow(int64_t row, int64_t column, int64_t n, float* sums) const {
    const Bytes size = SizeOf(y_.dtype());
    const Bytes at = (row * columns_ + column) * size;
    alignas(64) float wide[kStripColumns<float>];
    const auto add = [&](const std::byte* from) {
      Widen(y_.dtype(), n, from, 1, wide);
      for (int64_t j = 0; j < n; ++j) sums[j] += wide[j];
    };
    if (bias_ != nullptr) add(bias_ + column * size);
    if (addend_ != nullptr) add(addend_ + at);
    if constexpr (kGeluGrad) {
      Widen(y_.dtype(), n, x_ + at, 1, wide);
      GeluGrad(n, reinterpret_cast<const std::byte*>(wide),
               reinterpret_cast<std::byte*>(sums));
    }
  }

 private:
  // dy becomes the derivative at x, times dy.
  void GeluGrad(int64_t n, const std::byte* x, std::byte* dy) const {
    const std::byte* const operands[] = {x, dy};
    gelu_grad_(attrs_, DTypeOf<T>(), n, dy, operands);
  }

  const TensorView& y_;
  const int64_t columns_;
  const Attrs& attrs_;
  const CpuKernel::BlockFn gelu_grad_;
  const std::byte* bias_ = nullptr;
  const std::byte* addend_ = nullptr;
  const std::byte* x_ = nullptr;
};

// --- Sums of an operand, which a GPU's library computes with a matmul. On the CPU no step has
// such a node (Fusions::epilogues). ---

// The sum of n elements, `step` apart, from `x` on: of f16 and bf16, or of T.
template <typename T>
T SumOf(DType dtype, int64_t n, const std::byte* x, int64_t step) {
  double sum = 0;
  if (!IsHalf(dtype)) {
    const T* from = reinterpret_cast<const T*>(x);
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(from[i * step]);
    return static_cast<T>(sum);
  }
  constexpr int64_t kRun = 512;
  float wide[kRun];
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t count = std::min(kRun, n - i);
    Widen(dtype, count, x + i * step * SizeOf(dtype), step, wide);
    for (int64_t j = 0; j < count; ++j) sum += static_cast<double>(wide[j]);
  }
  return static_cast<T>(sum);
}

template <typename T>
void RunSums(const TensorView& x, int axis, const TensorView& sums,
             ThreadPool& pool) {
  const int64_t n = x.shape()[axis];
  const Bytes size = SizeOf(x.dtype());
  const Bytes across = x.strides[1 - axis] * size;
  const auto sum_to = [&](int64_t i) {
    const T sum = SumOf<T>(x.dtype(), n, x.data + i * across, x.strides[axis]);
    if constexpr (std::is_same_v<T, float>) {
      if (IsHalf(x.dtype())) {
        return Narrow(x.dtype(), 1, &sum, sums.data + i * size);
      }
    }
    sums.as<T>()[i] = sum;
  };
  ParallelRanges(pool, sums.size(), RowsPerChunk(n),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) sum_to(i);
                 });
}

StepCode RunEpilogueMatMul(const Launch& launch, ThreadPool& pool,
                           const Blocking& blocking) noexcept {
  const TensorView& y = launch.outputs[0];
  OnFloat(ComputedIn(y.dtype()), [&](auto zero) {
    using T = decltype(zero);
    if (EpilogueOperandsOf(*launch.attrs).x != 0) {
      RunProduct<T>(launch, pool, blocking, y, EpilogueTail<T, true>(launch));
    } else {
      RunProduct<T>(launch, pool, blocking, y, EpilogueTail<T, false>(launch));
    }
    if (const auto summed = SummedOperandOf(*launch.attrs)) {
      RunSums<T>(launch.inputs[summed->place], summed->axis, launch.outputs[1],
                 pool);
    }
  });
  return StepCode::kOk;
}

}  // namespace

std::optional<BlockingTrial> MatMulTrial(const Launch& launch, int threads) {
  const DType dtype = launch.outputs[0].dtype();
  if (IsHalf(dtype)) return std::nullopt;
  return OnFloat(dtype, [&](auto zero) -> std::optional<BlockingTrial> {
    const internal::ProductOf<decltype(zero)> product(launch);
    if (product.matrices != 1) return std::nullopt;
    return ProductTrial(product.rows, product.columns, product.depth,
                        product.a.matrix, product.b.matrix, threads);
  });
}

#ifdef STOWAGE_CPU_BF16_PAIRS

// --- bf16 by pairs ---

namespace {

StepCode RunMatMulByPairs(const Launch& launch, ThreadPool& pool) noexcept {
  RunBf16MatMul(launch, pool, launch.outputs[0], NoTail<float>());
  return StepCode::kOk;
}

StepCode RunEpilogueMatMulByPairs(const Launch& launch,
                                  ThreadPool& pool) noexcept {
  const TensorView& y = launch.outputs[0];
  if (EpilogueOperandsOf(*launch.attrs).x != 0) {
    RunBf16MatMul(launch, pool, y, EpilogueTail<float, true>(launch));
  } else {
    RunBf16MatMul(launch, pool, y, EpilogueTail<float, false>(launch));
  }
  if (const auto summed = SummedOperandOf(*launch.attrs)) {
    RunSums<float>(launch.inputs[summed->place], summed->axis,
                   launch.outputs[1], pool);
  }
  return StepCode::kOk;
}

}  // namespace

namespace bf16_kernels {

constinit const CpuKernel MatMul =
    Bf16MatMulKernel<kernels::MatMul, RunMatMulByPairs>();
constinit const CpuKernel EpilogueMatMul =
    Bf16MatMulKernel<kernels::EpilogueMatMul, RunEpilogueMatMulByPairs>();

}  // namespace bf16_kernels

#endif  // STOWAGE_CPU_BF16_PAIRS

// --- quantized_matmul, quantized_gather: a frozen matrix in the bytes of its file ---

namespace {

StepCode RunMatMul(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const int64_t depth = x.shape().back();
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    QuantizedProduct<T>(pool, x.size() / depth, {x.as<const T>(), depth, 1},
                        BlockMatrix(launch.inputs[1], *launch.attrs),
                        launch.attrs->Int("transpose_w") == 1,
                        {y.as<T>(), y.shape().back()},
                        reinterpret_cast<T*>(launch.workspace.data()));
  });
  return StepCode::kOk;
}

Bytes QuantizedMatMulWorkspace(const OpArgs& args, std::span<const TensorType>,
                               int threads) {
  return OnFloat(args.type(0).dtype, [&](auto zero) -> Bytes {
    using T = decltype(zero);
    return threads *
           QuantizedScratch<T>(
               static_cast<WeightType>(args.attrs.Int("blocks"))) *
           SizeOf(DTypeOf<T>());
  });
}

StepCode RunGather(const Launch& launch, ThreadPool& pool) noexcept {
  const BlockMatrix table(launch.inputs[0], *launch.attrs);
  const TensorView& indices = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  return OnIndex(indices.dtype(), [&](auto index_zero) {
    const auto* index = indices.as<const decltype(index_zero)>();
    if (!InRange(index, indices.size(), table.rows)) {
      return StepCode::kIndexOutOfRange;
    }
    ParallelRanges(pool, indices.size(), RowsPerChunk(table.columns),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       ReadNumbers(table, index[i], 0, table.columns,
                                   y.as<float>() + i * table.columns);
                     }
                   });
    return StepCode::kOk;
  });
}

// --- join_weight, split_update ---

// Calls f(i) for each element.
template <typename F>
void ForEachElement(const Launch& launch, ThreadPool& pool, const F& f) {
  ParallelRanges(pool, launch.outputs[0].size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) f(i);
                 });
}

StepCode RunJoinWeight(const Launch& launch, ThreadPool& pool) noexcept {
  const auto* w = launch.inputs[0].as<const uint16_t>();
  const auto* delta = launch.inputs[1].as<const int16_t>();
  auto* y = launch.outputs[0].as<float>();
  ForEachElement(launch, pool, [=](int64_t i) {
    y[i] = math::Join({w[i], delta[i]});
  });
  return StepCode::kOk;
}

StepCode RunSplitUpdate(const Launch& launch, ThreadPool& pool) noexcept {
  const auto* x = launch.inputs[2].as<const float>();
  auto* w = launch.outputs[0].as<uint16_t>();
  auto* delta = launch.outputs[1].as<int16_t>();
  ForEachElement(launch, pool, [=](int64_t i) {
    const math::SplitMaster parts = math::Split(x[i]);
    w[i] = parts.weight;
    delta[i] = parts.delta;
  });
  return StepCode::kOk;
}

// --- grouped_matmul and the gradient of its matrices: matmuls of groups of rows, with borders
// known at run time. Tasks are divided by shapes alone; one with a border is two matmuls. ---

// Whether ends do not decrease and are in [0, rows].
template <typename Index>
bool AreEnds(const Index* ends, int64_t groups, int64_t rows) {
  Index last = 0;
  bool good = true;
  for (int64_t e = 0; e < groups; ++e) {
    good &= ends[e] >= last;
    last = ends[e];
  }
  return good && last <= rows;
}

template <typename T>
Bytes Scratch(int64_t depth, int threads) {
  return threads * StripElements<T>(depth) * static_cast<Bytes>(sizeof(T));
}

StepCode RunGroupedMatMul(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const bool transposed = launch.attrs->Int("transpose_w") == 1;
  const int64_t rows = x.shape()[0], k = x.shape()[1], n = y.shape()[1];
  const int64_t groups = w.shape()[0];
  return OnIndex(launch.inputs[2].dtype(), [&](auto index_zero) {
    using Index = decltype(index_zero);
    const Index* ends = launch.inputs[2].as<const Index>();
    if (!AreEnds(ends, groups, rows)) return StepCode::kIndexOutOfRange;
    OnFloat(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const scratch = reinterpret_cast<T*>(launch.workspace.data());
      const int64_t width = kStripColumns<T>;
      const int64_t strips = CeilDiv(n, width);
      const int64_t task_rows = RowsPerTask(rows, strips, pool.threads());
      pool.ParallelFor(
          CeilDiv(rows, task_rows) * strips, [&](int64_t task, int thread) {
            const int64_t column = task % strips * width;
            const int64_t columns = std::min(width, n - column);
            int64_t row = task / strips * task_rows;
            const int64_t end = std::min(rows, row + task_rows);
            int64_t group = std::upper_bound(ends, ends + groups, row) - ends;
            for (; row < end && group < groups; ++group) {
              const int64_t stop = std::min<int64_t>(end, ends[group]);
              if (stop <= row) continue;
              const T* of_group = w.as<const T>() + group * k * n;
              const Strided<T> matrix =
                  transposed ? Strided<T>{of_group + column * k, 1, k}
                             : Strided<T>{of_group + column, n, 1};
              ProductTask<T>(
                  stop - row, columns, k, {x.as<const T>() + row * k, k, 1},
                  matrix, {y.as<T>() + row * n + column, n},
                  /*accumulate=*/false, scratch + thread * StripElements<T>(k));
              row = stop;
            }
            for (; row < end; ++row) {
              std::fill_n(y.as<T>() + row * n + column, columns, T{0});
            }
          });
    });
    return StepCode::kOk;
  });
}

StepCode RunWeightGrad(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const TensorView& dw = launch.outputs[0];
  const int64_t rows = x.shape()[0], m = x.shape()[1], n = dy.shape()[1];
  const int64_t groups = dw.shape()[0];
  return OnIndex(launch.inputs[2].dtype(), [&](auto index_zero) {
    using Index = decltype(index_zero);
    const Index* ends = launch.inputs[2].as<const Index>();
    if (!AreEnds(ends, groups, rows)) return StepCode::kIndexOutOfRange;
    OnFloat(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const scratch = reinterpret_cast<T*>(launch.workspace.data());
      const int64_t width = kStripColumns<T>;
      const int64_t strips = CeilDiv(n, width);
      const int64_t task_rows = RowsPerTask(m, strips * groups, pool.threads());
      const int64_t chunks = CeilDiv(m, task_rows);
      pool.ParallelFor(groups * chunks * strips, [&](int64_t task, int thread) {
        const int64_t column = task % strips * width;
        const int64_t columns = std::min(width, n - column);
        const int64_t row = task / strips % chunks * task_rows;
        const int64_t count = std::min(task_rows, m - row);
        const int64_t group = task / strips / chunks;
        const int64_t first = group == 0 ? 0 : ends[group - 1];
        const int64_t depth = ends[group] - first;
        T* const to = dw.as<T>() + (group * m + row) * n + column;
        if (depth == 0) {
          for (int64_t i = 0; i < count; ++i) {
            std::fill_n(to + i * n, columns, T{0});
          }
          return;
        }
        ProductTask<T>(
            count, columns, depth, {x.as<const T>() + first * m + row, 1, m},
            {dy.as<const T>() + first * n + column, n, 1}, {to, n},
            /*accumulate=*/false, scratch + thread * StripElements<T>(rows));
      });
    });
    return StepCode::kOk;
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel MatMul = {.run = RunByDefault<RunMatMul>,
                                    .run_blocked = RunMatMul,
                                    .trial = MatMulTrial,
                                    .workspace = MatMulWorkspace,
                                    .supports = SupportsAll};
constinit const CpuKernel EpilogueMatMul = {
    .run = RunByDefault<RunEpilogueMatMul>,
    .run_blocked = RunEpilogueMatMul,
    .trial = MatMulTrial,
    .workspace = MatMulWorkspace,
    .supports = SupportsAll};

constinit const CpuKernel QuantizedMatMul = {
    .run = RunMatMul, .workspace = QuantizedMatMulWorkspace};
constinit const CpuKernel QuantizedGather = {.run = RunGather,
                                             .supports = SupportsAll};

constinit const CpuKernel JoinWeight = {.run = RunJoinWeight,
                                        .supports = SupportsAll};
constinit const CpuKernel SplitUpdate = {.run = RunSplitUpdate,
                                         .supports = SupportsAll};

constinit const CpuKernel GroupedMatMul = {
    .run = RunGroupedMatMul,
    .workspace = [](const OpArgs& args, std::span<const TensorType>,
                    int threads) {
      return OnFloat(args.type(0).dtype, [&](auto zero) {
        return Scratch<decltype(zero)>(args.shape(0)[1], threads);
      });
    }};
constinit const CpuKernel GroupedMatMulWeightGrad = {
    .run = RunWeightGrad,
    .workspace = [](const OpArgs& args, std::span<const TensorType>,
                    int threads) {
      return OnFloat(args.type(0).dtype, [&](auto zero) {
        return Scratch<decltype(zero)>(args.shape(0)[0], threads);
      });
    }};

}  // namespace kernels
}  // namespace stowage::cpu
