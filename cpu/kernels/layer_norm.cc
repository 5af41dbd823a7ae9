// layer_norm, rms_norm and their gradients, along the last axis.
//
// dgamma and dbeta are sums over rows, in two stages: a partial sum for each chunk of rows,
// where the shape alone determines the chunks, then the sum of the partial sums in order.

#include <algorithm>
#include <array>
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
void RunLayerNorm(const Launch& launch, ThreadPool& pool) {
  const TensorView& x = launch.inputs[0];
  const int64_t n = x.shape().back();
  const T* gamma = launch.inputs[1].as<const T>();
  const T* beta = launch.inputs[2].as<const T>();
  T* means = launch.outputs[1].as<T>();
  T* rstds = launch.outputs[2].as<T>();
  const T eps = static_cast<T>(launch.attrs->Float("eps"));
  const T inverse_n = T(1) / static_cast<T>(n);
  ParallelRanges(
      pool, x.size() / n, RowsPerChunk(n), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* from = x.as<const T>() + row * n;
          T* to = launch.outputs[0].as<T>() + row * n;
          const T mean =
              RowSum<T>(n, [&](auto at) { return at.Load(from); }) * inverse_n;
          const Vec<T> shift = Vec<T>::All(mean);
          const T variance = RowSum<T>(n,
                                       [&](auto at) {
                                         const Vec<T> centred =
                                             at.Load(from, mean) - shift;
                                         return centred * centred;
                                       }) *
                             inverse_n;
          const T rstd = 1 / std::sqrt(variance + eps);
          const Vec<T> factor = Vec<T>::All(rstd);
          ForEachVec<T>(n, [&](auto at) {
            const Vec<T> normal = (at.Load(from) - shift) * factor;
            at.Store(to, MulAdd(normal, at.Load(gamma), at.Load(beta)));
          });
          means[row] = mean;
          rstds[row] = rstd;
        }
      });
}

template <typename T>
void RunRmsNorm(const Launch& launch, ThreadPool& pool) {
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

// With h = (x - mean) rstd and g = dy gamma:
//   dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum(dy h), dbeta = sum(dy)
template <typename T>
void LayerNormGradRows(const Launch& launch, int64_t n, int64_t begin,
                       int64_t end, const std::array<T*, 2>& sums) {
  T* const dgamma = sums[0];
  T* const dbeta = sums[1];
  const T* x = launch.inputs[0].as<const T>();
  const T* gamma = launch.inputs[1].as<const T>();
  const T* means = launch.inputs[2].as<const T>();
  const T* rstds = launch.inputs[3].as<const T>();
  const T* dy = launch.inputs[4].as<const T>();
  const T* residual = launch.op == OpKind::kLayerNormGradAdd
                          ? launch.inputs[5].as<const T>()
                          : nullptr;
  T* dx = launch.outputs[0].as<T>();
  const T inverse_n = T(1) / static_cast<T>(n);
  std::fill(dgamma, dgamma + n, T(0));
  std::fill(dbeta, dbeta + n, T(0));
  for (int64_t row = begin; row < end; ++row) {
    const T* x_row = x + row * n;
    const T* dy_row = dy + row * n;
    T* dx_row = dx + row * n;
    const Vec<T> mean = Vec<T>::All(means[row]);
    const Vec<T> rstd = Vec<T>::All(rstds[row]);
    Vec<T> sum_gh = Vec<T>::Zero();
    const T sum_g = RowSum<T>(n, [&](auto at) {
      const Vec<T> h = (at.Load(x_row) - mean) * rstd;
      const Vec<T> d = at.Load(dy_row);
      at.Store(dgamma, MulAdd(d, h, at.Load(dgamma)));
      at.Store(dbeta, at.Load(dbeta) + d);
      const Vec<T> g = d * at.Load(gamma);  // 0 outside the row, as d is
      sum_gh = MulAdd(g, h, sum_gh);
      return g;
    });
    const Vec<T> mean_g = Vec<T>::All(sum_g * inverse_n);
    const Vec<T> mean_gh = Vec<T>::All(SumLanes(sum_gh) * inverse_n);
    ForEachVec<T>(n, [&](auto at) {
      const Vec<T> h = (at.Load(x_row) - mean) * rstd;
      const Vec<T> g = at.Load(dy_row) * at.Load(gamma);
      Vec<T> gradient = rstd * (g - mean_g - h * mean_gh);
      if (residual != nullptr) {
        // Rounded first, as where the sum is a node of its own.
        gradient = Rounded(gradient) + at.Load(residual + row * n);
      }
      at.Store(dx_row, gradient);
    });
  }
}

// With h = x rstd and g = dy gamma:  dx = rstd (g - h mean(g h)),
// dgamma = sum(dy h)
template <typename T>
void RmsNormGradRows(const Launch& launch, int64_t n, int64_t begin,
                     int64_t end, const std::array<T*, 1>& sums) {
  T* const dgamma = sums[0];
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

RowSumChunks GradChunks(const Shape& x) {
  return {x.num_elements() / x.back(), x.back()};
}

// dx of rows [begin, end), and their sums of dgamma and, for layer_norm, dbeta.
template <typename T, size_t kSums>
void GradRows(const Launch& launch, int64_t n, int64_t begin, int64_t end,
              const std::array<T*, kSums>& sums) {
  if constexpr (kSums == 2) {
    LayerNormGradRows<T>(launch, n, begin, end, sums);
  } else {
    RmsNormGradRows<T>(launch, n, begin, end, sums);
  }
}

// Outputs the partial sums, one of each even range of rows.
template <typename T, size_t kSums>
void RunGradInParts(const Launch& launch, int64_t parts, ThreadPool& pool) {
  const int64_t n = launch.inputs[0].shape().back();
  const int64_t rows = launch.inputs[0].size() / n;
  ParallelRanges(pool, parts, 1, [&](int64_t part, int64_t) {
    std::array<T*, kSums> sums;
    for (size_t k = 0; k < kSums; ++k) {
      sums[k] = launch.outputs[1 + k].as<T>() + part * n;
    }
    GradRows<T>(launch, n, FirstRowOfPart(part, parts, rows),
                FirstRowOfPart(part + 1, parts, rows), sums);
  });
}

template <typename T, size_t kSums>
void RunGrad(const Launch& launch, ThreadPool& pool) {
  if (const auto parts = PartsOf(*launch.attrs)) {
    return RunGradInParts<T, kSums>(launch, *parts, pool);
  }
  constexpr auto kStride = static_cast<int64_t>(kSums);
  const RowSumChunks chunks = GradChunks(launch.inputs[0].shape());
  const int64_t n = chunks.columns;
  T* partial = reinterpret_cast<T*>(launch.workspace.data());
  ParallelRanges(
      pool, chunks.rows, chunks.piece, [&](int64_t begin, int64_t end) {
        std::array<T*, kSums> sums;
        for (size_t k = 0; k < kSums; ++k) {
          sums[k] =
              partial +
              (begin / chunks.piece * kStride + static_cast<int64_t>(k)) * n;
        }
        GradRows<T>(launch, n, begin, end, sums);
      });
  for (size_t k = 0; k < kSums; ++k) {
    T* const result = launch.outputs[1 + k].as<T>();
    const T* const of_first = partial + static_cast<int64_t>(k) * n;
    ForEachVec<T>(n, [&](auto at) {
      Vec<T> sum = Vec<T>::Zero();
      for (int64_t i = 0; i < chunks.count; ++i) {
        sum += at.Load(of_first + i * kStride * n);
      }
      at.Store(result, sum);
    });
  }
}

StepCode RunLayerNormKernel(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunLayerNorm<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunRmsNormKernel(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunRmsNorm<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
template <size_t kSums>
StepCode RunGradKernel(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunGrad<decltype(zero), kSums>(launch, pool); });
  return StepCode::kOk;
}

template <size_t kSums>
Bytes GradWorkspace(const OpArgs& args, std::span<const TensorType>, int) {
  if (PartsOf(args.attrs)) return 0;
  const RowSumChunks chunks = GradChunks(args.shape(0));
  return chunks.count * static_cast<int64_t>(kSums) * chunks.columns *
         SizeOf(args.type(0).dtype);
}

}  // namespace

namespace kernels {

constinit const CpuKernel LayerNorm = {.run = RunLayerNormKernel};
constinit const CpuKernel LayerNormGrad = {.run = RunGradKernel<2>,
                                           .workspace = GradWorkspace<2>};
constinit const CpuKernel LayerNormGradAdd = {.run = RunGradKernel<2>,
                                              .workspace = GradWorkspace<2>};
constinit const CpuKernel RmsNorm = {.run = RunRmsNormKernel};
constinit const CpuKernel RmsNormGrad = {.run = RunGradKernel<1>,
                                         .workspace = GradWorkspace<1>};

}  // namespace kernels
}  // namespace stowage::cpu
