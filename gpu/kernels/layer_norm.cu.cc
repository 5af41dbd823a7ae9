// layer_norm and its gradient, along the last axis.
//
// A row of up to kMaxWarpRow elements is a warp's, one of up to kMaxBlockRow a block's, and
// stays in registers; longer rows are read again for each pass. In the gradient, the sums of
// dgamma and dbeta stay in registers while a block goes through many rows; each row is read
// twice, the second time from the cache. The sums are written to the workspace, and a second
// kernel adds those of all blocks in order.

#include <cmath>
#include <optional>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/rows.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"

namespace stowage::gpu {
namespace {

// --- layer_norm --------------------------------------------------------------

struct NormParams {
  const void* x;
  const void* gamma;
  const void* beta;
  void* y;
  float* mean;
  float* rstd;
  int64_t rows;
  int64_t n;
  float inverse_n;
  float eps;
};

// y = (x - mean) rstd gamma + beta, kPackSize<T> of them.
template <bool kPacked, typename T>
STOWAGE_DEVICE void StoreNormal(const NormParams& p, T* y, int64_t i,
                                const Pack<T>& x, float mean, float rstd) {
  const Pack<T> gamma =
      LoadOfWholeRow<kPacked>(static_cast<const T*>(p.gamma), i, p.n, T{});
  const Pack<T> beta =
      LoadOfWholeRow<kPacked>(static_cast<const T*>(p.beta), i, p.n, T{});
  Pack<T> pack;
  for (int j = 0; j < kPackSize<T>; ++j) {
    const float normal = (ToFloat(x.value[j]) - mean) * rstd;
    pack.value[j] = FromFloat<T>(
        fmaf(normal, ToFloat(gamma.value[j]), ToFloat(beta.value[j])));
  }
  StoreOfWholeRow<kPacked>(y, i, p.n, pack);
}

template <typename T>
STOWAGE_DEVICE float SumOf(const Pack<T>& x) {  // 0 outside the row
  float sum = 0;
  for (int j = 0; j < kPackSize<T>; ++j) sum += ToFloat(x.value[j]);
  return sum;
}
template <typename T>
STOWAGE_DEVICE float SquaresOf(const Pack<T>& x, int64_t i, int64_t n,
                               float mean) {
  float sum = 0;
  for (int j = 0; j < kPackSize<T>; ++j) {
    const float centred = i + j < n ? ToFloat(x.value[j]) - mean : 0.0f;
    sum = fmaf(centred, centred, sum);
  }
  return sum;
}

// kThreads: 32 or kRowThreads.
template <typename T, bool kPacked, int kThreads>
STOWAGE_KERNEL(kRowThreads)
NormHeldRows(STOWAGE_PARAMS(NormParams) p) {
  constexpr int kWidth = kPackSize<T>;
  constexpr int kPacks = static_cast<int>(kMaxWarpRow) / (kWarpSize * kWidth);
  STOWAGE_SHARED(float, scratch, kWarpSize);
  constexpr bool kWarp = kThreads == kWarpSize;
  const int64_t row =
      kWarp ? int64_t{BlockId()} * kRowWarps + Warp() : BlockId();
  const int thread = kWarp ? Lane() : ThreadId();
  if (row >= p.rows) return;
  const T* x = static_cast<const T*>(p.x) + row * p.n;
  T* y = static_cast<T*>(p.y) + row * p.n;
  const int n = static_cast<int>(p.n);
  Pack<T> held[kPacks];
  float sum = 0;
  for (int k = 0; k < kPacks; ++k) {
    held[k] =
        LoadOfWholeRow<kPacked>(x, (k * kThreads + thread) * kWidth, n, T{});
    sum += SumOf(held[k]);
  }
  const float mean =
      RoundedProduct(SumOfRow<kThreads>(sum, scratch), p.inverse_n);
  sum = 0;
  for (int k = 0; k < kPacks; ++k) {
    sum += SquaresOf(held[k], (k * kThreads + thread) * kWidth, n, mean);
  }
  const float variance =
      RoundedProduct(SumOfRow<kThreads>(sum, scratch), p.inverse_n);
  const float rstd = 1 / sqrtf(variance + p.eps);
  for (int k = 0; k < kPacks; ++k) {
    const int i = (k * kThreads + thread) * kWidth;
    if (i < n) StoreNormal<kPacked>(p, y, i, held[k], mean, rstd);
  }
  if (thread == 0) {
    p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

template <typename T, bool kPacked>
STOWAGE_KERNEL(kRowThreads)
NormLongRows(STOWAGE_PARAMS(NormParams) p) {
  constexpr int kWidth = kPackSize<T>;
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const T* x = static_cast<const T*>(p.x) + BlockId() * p.n;
  T* y = static_cast<T*>(p.y) + BlockId() * p.n;
  const int64_t first = ThreadId() * kWidth;
  constexpr int64_t kStep = kRowThreads * kWidth;
  float sum = 0;
  for (int64_t i = first; i < p.n; i += kStep) {
    sum += SumOf(LoadOfWholeRow<kPacked>(x, i, p.n, T{}));
  }
  const float mean = RoundedProduct(BlockSum(sum, &scratch[0]), p.inverse_n);
  sum = 0;
  for (int64_t i = first; i < p.n; i += kStep) {
    sum += SquaresOf(LoadOfWholeRow<kPacked>(x, i, p.n, T{}), i, p.n, mean);
  }
  const float variance =
      RoundedProduct(BlockSum(sum, &scratch[0]), p.inverse_n);
  const float rstd = 1 / sqrtf(variance + p.eps);
  for (int64_t i = first; i < p.n; i += kStep) {
    StoreNormal<kPacked>(p, y, i, LoadOfWholeRow<kPacked>(x, i, p.n, T{}), mean,
                         rstd);
  }
  if (ThreadId() == 0) {
    p.mean[BlockId()] = mean;
    p.rstd[BlockId()] = rstd;
  }
}

template <typename T, bool kPacked>
void LaunchNorm(const NormParams& params, Queue& queue) {
  const auto launch = [&](void (*kernel)(NormParams), int64_t rows_of_block) {
    LaunchKernel(queue, "layer_norm", kernel, params,
                 {.x = BlocksFor(params.rows, rows_of_block)}, kRowThreads);
  };
  if (params.n <= kMaxWarpRow) {
    launch(NormHeldRows<T, kPacked, kWarpSize>, kRowWarps);
  } else if (params.n <= kMaxBlockRow) {
    launch(NormHeldRows<T, kPacked, kRowThreads>, 1);
  } else {
    launch(NormLongRows<T, kPacked>, 1);
  }
}

void EnqueueNorm(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const int64_t n = x.shape().back();
  const NormParams params = {
      .x = x.data,
      .gamma = launch.inputs[1].data,
      .beta = launch.inputs[2].data,
      .y = launch.outputs[0].data,
      .mean = launch.outputs[1].as<float>(),
      .rstd = launch.outputs[2].as<float>(),
      .rows = x.size() / n,
      .n = n,
      .inverse_n = 1.0f / static_cast<float>(n),
      .eps = static_cast<float>(launch.attrs->Float("eps"))};
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (PacksAreWhole<T>(n, params.x, params.gamma, params.beta, params.y)) {
      LaunchNorm<T, true>(params, queue);
    } else {
      LaunchNorm<T, false>(params, queue);
    }
  });
}

// --- layer_norm_grad ---------------------------------------------------------

// With h = (x - mean) rstd and g = dy gamma:
//   dx = rstd (g - mean(g) - h mean(g h)),  dgamma = sum(dy h), dbeta = sum(dy)

struct GradParams {
  const void* x;
  const void* gamma;
  const float* mean;
  const float* rstd;
  const void* dy;
  const void* residual;  // added to dx; null: nothing
  void* dx;
  float* dgamma;  // (blocks, n), partial sums
  float* dbeta;   // likewise
  int64_t rows;
  int64_t n;
  float inverse_n;
};

// The sums that a row's dx needs. 0 outside the row, as dy is there.
template <typename T>
struct GradTerms {
  STOWAGE_DEVICE void Add(const Pack<T>& x, const Pack<T>& dy,
                          const Pack<T>& gamma, float mean, float rstd) {
    for (int j = 0; j < kPackSize<T>; ++j) {
      const float h = (ToFloat(x.value[j]) - mean) * rstd;
      const float d = ToFloat(dy.value[j]);
      const float factor = ToFloat(gamma.value[j]);
      sum_g = fmaf(d, factor, sum_g);
      sum_gh = fmaf(d * factor, h, sum_gh);
    }
  }
  float sum_g = 0;
  float sum_gh = 0;
};

// Adds an element's terms to dgamma and dbeta.
template <typename T>
STOWAGE_DEVICE void AddToParams(T x, T dy, float mean, float rstd,
                                float* dgamma, float* dbeta) {
  const float h = (ToFloat(x) - mean) * rstd;
  const float d = ToFloat(dy);
  *dgamma = fmaf(d, h, *dgamma);
  *dbeta += d;
}

template <typename T>
STOWAGE_DEVICE Pack<T> InputGradient(const Pack<T>& x, const Pack<T>& dy,
                                     const Pack<T>& gamma, float mean,
                                     float rstd, float mean_g, float mean_gh) {
  Pack<T> dx;
  for (int j = 0; j < kPackSize<T>; ++j) {
    const float h = (ToFloat(x.value[j]) - mean) * rstd;
    const float centred =  // g - mean(g)
        fmaf(ToFloat(dy.value[j]), ToFloat(gamma.value[j]), -mean_g);
    dx.value[j] =
        FromFloat<T>(RoundedProduct(rstd, fmaf(-h, mean_gh, centred)));
  }
  return dx;
}

// dx, rounded before the residual is added, as by a separate node.
template <typename T>
STOWAGE_DEVICE Pack<T> PlusResidual(Pack<T> dx, const Pack<T>& residual) {
  for (int j = 0; j < kPackSize<T>; ++j) {
    dx.value[j] =
        FromFloat<T>(ToFloat(residual.value[j]) + ToFloat(dx.value[j]));
  }
  return dx;
}

// Rows of up to kThreads * kPacks * kPackSize<T> elements; kThreads is 32 or
// kRowThreads.
template <typename T, bool kPacked, int kThreads, int kPacks>
STOWAGE_KERNEL(kRowThreads)
GradRows(STOWAGE_PARAMS(GradParams) p) {
  constexpr int kWidth = kPackSize<T>;
  constexpr bool kWarp = kThreads == kWarpSize;
  // The residual, which is needed last, is loaded while the row is summed, if there are
  // registers for it.
  constexpr bool kAhead = kPacked && kPacks <= 3 && sizeof(T) == 2;
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const int thread = kWarp ? Lane() : ThreadId();
  const int n = static_cast<int>(p.n);
  const T* gamma = static_cast<const T*>(p.gamma);
  float dgamma[kPacks * kWidth];
  float dbeta[kPacks * kWidth];
  for (int c = 0; c < kPacks * kWidth; ++c) dgamma[c] = dbeta[c] = 0;

  const uint32_t rows = static_cast<uint32_t>(p.rows);
  const uint32_t of_block = kWarp ? kGradWarps : 1;
  for (uint32_t row = static_cast<uint32_t>(BlockId()) * of_block +
                      static_cast<uint32_t>(kWarp ? Warp() : 0);
       row < rows; row += static_cast<uint32_t>(GridSize()) * of_block) {
    const T* x = static_cast<const T*>(p.x) + row * p.n;
    const T* dy = static_cast<const T*>(p.dy) + row * p.n;
    T* dx = static_cast<T*>(p.dx) + row * p.n;
    const float mean = p.mean[row];
    const float rstd = p.rstd[row];
    Pack<T> residual_ahead[kAhead ? kPacks : 1];
    if constexpr (kAhead) {
      if (p.residual != nullptr) {
        const T* residual = static_cast<const T*>(p.residual) + row * p.n;
        for (int k = 0; k < kPacks; ++k) {
          const int i = (k * kThreads + thread) * kWidth;
          residual_ahead[k] = LoadOfWholeRow<kPacked>(residual, i, n, T{});
        }
      }
    }
    GradTerms<T> terms;
    for (int k = 0; k < kPacks; ++k) {
      const int i = (k * kThreads + thread) * kWidth;
      const Pack<T> of_x = LoadOfWholeRow<kPacked>(x, i, n, T{});
      const Pack<T> of_dy = LoadOfWholeRow<kPacked>(dy, i, n, T{});
      terms.Add(of_x, of_dy, LoadOfWholeRow<kPacked>(gamma, i, n, T{}), mean,
                rstd);
      for (int j = 0; j < kWidth; ++j) {
        AddToParams(of_x.value[j], of_dy.value[j], mean, rstd,
                    &dgamma[k * kWidth + j], &dbeta[k * kWidth + j]);
      }
    }
    const float mean_g =
        RoundedProduct(SumOfRow<kThreads>(terms.sum_g, scratch), p.inverse_n);
    const float mean_gh =
        RoundedProduct(SumOfRow<kThreads>(terms.sum_gh, scratch), p.inverse_n);
    for (int k = 0; k < kPacks; ++k) {
      const int i = (k * kThreads + thread) * kWidth;
      if (i >= n) break;
      Pack<T> of_dx = InputGradient(LoadOfWholeRow<kPacked>(x, i, n, T{}),
                                    LoadOfWholeRow<kPacked>(dy, i, n, T{}),
                                    LoadOfWholeRow<kPacked>(gamma, i, n, T{}),
                                    mean, rstd, mean_g, mean_gh);
      if (p.residual != nullptr) {
        if constexpr (kAhead) {
          of_dx = PlusResidual(of_dx, residual_ahead[k]);
        } else {
          const T* residual = static_cast<const T*>(p.residual) + row * p.n;
          of_dx =
              PlusResidual(of_dx, LoadOfWholeRow<kPacked>(residual, i, n, T{}));
        }
      }
      StoreOfWholeRow<kPacked>(dx, i, n, of_dx);
    }
  }

  float* to_dgamma = p.dgamma + int64_t{BlockId()} * p.n;
  float* to_dbeta = p.dbeta + int64_t{BlockId()} * p.n;
  if constexpr (kWarp) {  // the warps add up, in turn
    constexpr int kColumns = kWarpSize * kPacks * kWidth;
    STOWAGE_SHARED(float, sums, 2 * kColumns);
    for (int warp = 0; warp < kGradWarps; ++warp) {
      for (int c = 0; warp == Warp() && c < kPacks * kWidth; ++c) {
        const int column =
            (c / kWidth * kWarpSize + Lane()) * kWidth + c % kWidth;
        sums[column] = (warp == 0 ? 0.0f : sums[column]) + dgamma[c];
        sums[kColumns + column] =
            (warp == 0 ? 0.0f : sums[kColumns + column]) + dbeta[c];
      }
      SyncThreads();
    }
    for (int i = ThreadId(); i < n; i += kGradWarps * kWarpSize) {
      to_dgamma[i] = sums[i];
      to_dbeta[i] = sums[kColumns + i];
    }
  } else {
    for (int c = 0; c < kPacks * kWidth; ++c) {
      const int column = (c / kWidth * kThreads + thread) * kWidth + c % kWidth;
      if (column >= n) continue;
      to_dgamma[column] = dgamma[c];
      to_dbeta[column] = dbeta[c];
    }
  }
}

// Rows of any length; the sums of dgamma and dbeta are in the workspace from the start. A
// thread has the same columns of every row.
template <typename T, bool kPacked>
STOWAGE_KERNEL(kLongThreads)
GradLongRows(STOWAGE_PARAMS(GradParams) p) {
  constexpr int kWidth = kPackSize<T>;
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const int64_t first = ThreadId() * kWidth;
  constexpr int64_t kStep = kLongThreads * kWidth;
  const T* gamma = static_cast<const T*>(p.gamma);
  float* dgamma = p.dgamma + int64_t{BlockId()} * p.n;
  float* dbeta = p.dbeta + int64_t{BlockId()} * p.n;
  for (int64_t i = first; i < p.n; i += kStep) {
    for (int64_t c = i; c < i + kWidth && c < p.n; ++c) {
      dgamma[c] = dbeta[c] = 0;
    }
  }
  for (int64_t row = BlockId(); row < p.rows; row += GridSize()) {
    const T* x = static_cast<const T*>(p.x) + row * p.n;
    const T* dy = static_cast<const T*>(p.dy) + row * p.n;
    T* dx = static_cast<T*>(p.dx) + row * p.n;
    const float mean = p.mean[row];
    const float rstd = p.rstd[row];
    GradTerms<T> terms;
    for (int64_t i = first; i < p.n; i += kStep) {
      const Pack<T> of_x = LoadOfWholeRow<kPacked>(x, i, p.n, T{});
      const Pack<T> of_dy = LoadOfWholeRow<kPacked>(dy, i, p.n, T{});
      terms.Add(of_x, of_dy, LoadOfWholeRow<kPacked>(gamma, i, p.n, T{}), mean,
                rstd);
      for (int j = 0; j < kWidth && i + j < p.n; ++j) {
        AddToParams(of_x.value[j], of_dy.value[j], mean, rstd, &dgamma[i + j],
                    &dbeta[i + j]);
      }
    }
    const float mean_g =
        RoundedProduct(BlockSum(terms.sum_g, &scratch[0]), p.inverse_n);
    const float mean_gh =
        RoundedProduct(BlockSum(terms.sum_gh, &scratch[0]), p.inverse_n);
    for (int64_t i = first; i < p.n; i += kStep) {
      Pack<T> of_dx = InputGradient(LoadOfWholeRow<kPacked>(x, i, p.n, T{}),
                                    LoadOfWholeRow<kPacked>(dy, i, p.n, T{}),
                                    LoadOfWholeRow<kPacked>(gamma, i, p.n, T{}),
                                    mean, rstd, mean_g, mean_gh);
      if (p.residual != nullptr) {
        const T* residual = static_cast<const T*>(p.residual) + row * p.n;
        of_dx =
            PlusResidual(of_dx, LoadOfWholeRow<kPacked>(residual, i, p.n, T{}));
      }
      StoreOfWholeRow<kPacked>(dx, i, p.n, of_dx);
    }
  }
}

template <typename T, bool kPacked>
void LaunchGrad(const GradParams& params, int64_t blocks, Queue& queue) {
  const Grid grid = {.x = static_cast<uint32_t>(blocks)};
  const auto launch = [&](void (*kernel)(GradParams), uint32_t threads) {
    LaunchKernel(queue, "layer_norm_grad", kernel, params, grid, threads);
  };
  OnGradRows<T, kPacked>(
      params.n,
      [&](auto row_threads, auto packs, uint32_t threads) {
        launch(GradRows<T, kPacked, row_threads(), packs()>, threads);
      },
      [&] { launch(GradLongRows<T, kPacked>, kLongThreads); });
}

void EnqueueGrad(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const int64_t n = x.shape().back();
  const void* residual =
      launch.op == OpKind::kLayerNormGradAdd ? launch.inputs[5].data : nullptr;
  const int64_t rows = x.size() / n;
  const std::optional<int64_t> parts = PartsOf(*launch.attrs);
  const int64_t blocks = parts.value_or(SumBlocks(rows));
  const auto partial = [&](size_t r) {
    return parts ? launch.outputs[r].as<float>()
                 : reinterpret_cast<float*>(launch.workspace.data()) +
                       static_cast<int64_t>(r - 1) * blocks * n;
  };
  const GradParams params = {.x = x.data,
                             .gamma = launch.inputs[1].data,
                             .mean = launch.inputs[2].as<const float>(),
                             .rstd = launch.inputs[3].as<const float>(),
                             .dy = launch.inputs[4].data,
                             .residual = residual,
                             .dx = launch.outputs[0].data,
                             .dgamma = partial(1),
                             .dbeta = partial(2),
                             .rows = rows,
                             .n = n,
                             .inverse_n = 1.0f / static_cast<float>(n)};
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    // Without a residual, an address that is as good as any.
    const void* const added = residual == nullptr ? params.dx : residual;
    if (PacksAreWhole<T>(n, params.x, params.gamma, params.dy, added,
                         params.dx)) {
      LaunchGrad<T, true>(params, blocks, queue);
    } else {
      LaunchGrad<T, false>(params, blocks, queue);
    }
    if (parts) return;  // to a sum_partials
    const ColumnSum sums[] = {
        {params.dgamma, launch.outputs[1].data, n, blocks},
        {params.dbeta, launch.outputs[2].data, n, blocks}};
    EnqueueColumnSums<T, 2>("layer_norm_grad of params", sums, queue);
  });
}

Bytes GradWorkspace(const OpArgs& args, std::span<const TensorType>) {
  if (PartsOf(args.attrs)) return 0;
  const int64_t n = args.shape(0).back();
  const int64_t blocks = SumBlocks(args.shape(0).num_elements() / n);
  return blocks * 2 * n * SizeOf(DType::kF32);
}

}  // namespace

namespace kernels {

constinit const GpuKernel LayerNorm = {.enqueue = EnqueueNorm};
constinit const GpuKernel LayerNormGrad = {.enqueue = EnqueueGrad,
                                           .workspace = GradWorkspace};
constinit const GpuKernel LayerNormGradAdd = {.enqueue = EnqueueGrad,
                                              .workspace = GradWorkspace};

}  // namespace kernels
}  // namespace stowage::gpu
