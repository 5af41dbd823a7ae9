// rms_norm and its gradient, along the last axis.
//
// dgamma is a sum over rows, in two stages: one partial sum for each of a number of
// row chunks that the shape alone decides, then the partial sums in order.

#include <algorithm>
#include <cmath>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/vec.h"
#include "ir/element_groups.h"

namespace stowage::cpu {
namespace {

template <typename T>
void RunForward(const Launch& launch, ThreadPool& pool) {
  const TensorView& x = launch.inputs[0];
  const int64_t n = x.shape().back();
  const T* gamma = launch.inputs[1].as<const T>();
  T* rstds = launch.outputs[1].as<T>();
  const T eps = static_cast<T>(launch.attrs->Float("eps"));
  const T inverse_n = T(1) / static_cast<T>(n);
  ParallelRanges(
      pool, x.size() / n, RowsPerChunk(n), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* from = x.as<const T>() + row * n;
          T* to = launch.outputs[0].as<T>() + row * n;
          const T mean_square = RowSum<T>(n,
                                          [&](auto at) {
                                            const Vec<T> v = at.Load(from);
                                            return v * v;
                                          }) *
                                inverse_n;
          const T rstd = 1 / std::sqrt(mean_square + eps);
          const Vec<T> factor = Vec<T>::All(rstd);
          ForEachVec<T>(n, [&](auto at) {
            at.Store(to, at.Load(from) * factor * at.Load(gamma));
          });
          rstds[row] = rstd;
        }
      });
}

RowSumChunks GradChunks(const Shape& x) {
  return {x.num_elements() / x.back(), x.back()};
}

// With h = x rstd and g = dy gamma:  dx = rstd (g - h mean(g h)),
// dgamma = sum(dy h)
template <typename T>
void GradRows(const Launch& launch, int64_t n, int64_t begin, int64_t end,
              T* dgamma) {
  const T* x = launch.inputs[0].as<const T>();
  const T* gamma = launch.inputs[1].as<const T>();
  const T* rstds = launch.inputs[2].as<const T>();
  const T* dy = launch.inputs[3].as<const T>();
  T* dx = launch.outputs[0].as<T>();
  const T inverse_n = T(1) / static_cast<T>(n);
  std::fill(dgamma, dgamma + n, T(0));
  for (int64_t row = begin; row < end; ++row) {
    const T* x_row = x + row * n;
    const T* dy_row = dy + row * n;
    T* dx_row = dx + row * n;
    const Vec<T> rstd = Vec<T>::All(rstds[row]);
    const T sum_gh = RowSum<T>(n, [&](auto at) {
      const Vec<T> dh = at.Load(dy_row) * (at.Load(x_row) * rstd);
      at.Store(dgamma, at.Load(dgamma) + dh);
      return dh * at.Load(gamma);  // 0 outside the row, as dy is
    });
    const Vec<T> mean_gh = Vec<T>::All(sum_gh * inverse_n);
    ForEachVec<T>(n, [&](auto at) {
      const Vec<T> h = at.Load(x_row) * rstd;
      const Vec<T> g = at.Load(dy_row) * at.Load(gamma);
      at.Store(dx_row, rstd * (g - h * mean_gh));
    });
  }
}

// The partial sums as results: the rows in even runs, one a part.
template <typename T>
void RunGradInParts(const Launch& launch, int64_t parts, ThreadPool& pool) {
  const int64_t n = launch.inputs[0].shape().back();
  const int64_t rows = launch.inputs[0].size() / n;
  ParallelRanges(pool, parts, 1, [&](int64_t part, int64_t) {
    GradRows<T>(launch, n, FirstRowOfPart(part, parts, rows),
                FirstRowOfPart(part + 1, parts, rows),
                launch.outputs[1].as<T>() + part * n);
  });
}

template <typename T>
void RunGrad(const Launch& launch, ThreadPool& pool) {
  if (const auto parts = PartsOf(*launch.attrs)) {
    return RunGradInParts<T>(launch, *parts, pool);
  }
  const RowSumChunks chunks = GradChunks(launch.inputs[0].shape());
  const int64_t n = chunks.columns;
  T* partial = reinterpret_cast<T*>(launch.workspace.data());
  ParallelRanges(
      pool, chunks.rows, chunks.piece, [&](int64_t begin, int64_t end) {
        GradRows<T>(launch, n, begin, end, partial + begin / chunks.piece * n);
      });
  T* dgamma = launch.outputs[1].as<T>();
  ForEachVec<T>(n, [&](auto at) {
    Vec<T> sum = Vec<T>::Zero();
    for (int64_t i = 0; i < chunks.count; ++i) sum += at.Load(partial + i * n);
    at.Store(dgamma, sum);
  });
}

StepCode RunRmsNorm(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunForward<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunRmsNormGrad(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunGrad<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

Bytes RmsNormGradWorkspace(const OpArgs& args, std::span<const TensorType>,
                           int) {
  if (PartsOf(args.attrs)) return 0;
  const RowSumChunks chunks = GradChunks(args.shape(0));
  return chunks.count * chunks.columns * SizeOf(args.type(0).dtype);
}

}  // namespace

namespace kernels {

constinit const CpuKernel RmsNorm = {.run = RunRmsNorm};
constinit const CpuKernel RmsNormGrad = {.run = RunRmsNormGrad,
                                         .workspace = RmsNormGradWorkspace};

}  // namespace kernels
}  // namespace stowage::cpu
