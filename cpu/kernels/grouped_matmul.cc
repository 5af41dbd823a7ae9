// grouped_matmul and the gradient of its matrices: matmuls of rows in groups, whose borders
// the step decides. Tasks are cut by shapes alone; one that meets a border is two matmuls.

#include <algorithm>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/parallel_gemm.h"

namespace stowage::cpu {
namespace {

// Whether ends do not fall, and lie in [0, rows].
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
