// rms_norm and its gradient, along the last axis.
//
// A row of up to kMaxWarpRow elements is a warp's, one of up to kMaxBlockRow a block's, and
// stays in registers; longer rows are read again for each pass. In the gradient, the sums of
// dgamma stay in registers while a block goes through many rows; each row is read twice, the
// second time from the cache. The sums are written to the workspace, and a second kernel adds
// those of all blocks in order.

#include <cmath>
#include <optional>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/rows.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"

namespace stowage::gpu {
namespace {

// --- rms_norm ----------------------------------------------------------------

struct NormParams {
  const void* x;
  const void* gamma;
  void* y;
  float* rstd;
  int64_t rows;
  int64_t n;
  float inverse_n;
  float eps;
};

// y = x rstd gamma, kPackSize<T> of them.
template <bool kPacked, typename T>
STOWAGE_DEVICE void StoreNormal(const NormParams& p, T* y, int64_t i,
                                const Pack<T>& x, float rstd) {
  const Pack<T> gamma =
      LoadOfWholeRow<kPacked>(static_cast<const T*>(p.gamma), i, p.n, T{});
  Pack<T> pack;
  for (int j = 0; j < kPackSize<T>; ++j) {
    pack.value[j] =
        FromFloat<T>(ToFloat(x.value[j]) * rstd * ToFloat(gamma.value[j]));
  }
  StoreOfWholeRow<kPacked>(y, i, p.n, pack);
}

// sum + x^2; 0 is added outside the row.
template <typename T>
STOWAGE_DEVICE float AddSquares(const Pack<T>& x, float sum) {
  for (int j = 0; j < kPackSize<T>; ++j) {
    sum = fmaf(ToFloat(x.value[j]), ToFloat(x.value[j]), sum);
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
    sum = AddSquares(held[k], sum);
  }
  const float mean =
      RoundedProduct(SumOfRow<kThreads>(sum, scratch), p.inverse_n);
  const float rstd = 1 / sqrtf(mean + p.eps);
  for (int k = 0; k < kPacks; ++k) {
    const int i = (k * kThreads + thread) * kWidth;
    if (i < n) StoreNormal<kPacked>(p, y, i, held[k], rstd);
  }
  if (thread == 0) p.rstd[row] = rstd;
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
    sum = AddSquares(LoadOfWholeRow<kPacked>(x, i, p.n, T{}), sum);
  }
  const float mean = RoundedProduct(BlockSum(sum, &scratch[0]), p.inverse_n);
  const float rstd = 1 / sqrtf(mean + p.eps);
  for (int64_t i = first; i < p.n; i += kStep) {
    StoreNormal<kPacked>(p, y, i, LoadOfWholeRow<kPacked>(x, i, p.n, T{}),
                         rstd);
  }
  if (ThreadId() == 0) p.rstd[BlockId()] = rstd;
}

template <typename T, bool kPacked>
void LaunchNorm(const NormParams& params, Queue& queue) {
  const auto launch = [&](void (*kernel)(NormParams), int64_t rows_of_block) {
    LaunchKernel(queue, "rms_norm", kernel, params,
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
      .y = launch.outputs[0].data,
      .rstd = launch.outputs[1].as<float>(),
      .rows = x.size() / n,
      .n = n,
      .inverse_n = 1.0f / static_cast<float>(n),
      .eps = static_cast<float>(launch.attrs->Float("eps"))};
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (PacksAreWhole<T>(n, params.x, params.gamma, params.y)) {
      LaunchNorm<T, true>(params, queue);
    } else {
      LaunchNorm<T, false>(params, queue);
    }
  });
}

// --- rms_norm_grad -----------------------------------------------------------

// With h = x rstd and g = dy gamma:  dx = rstd (g - h mean(g h)),
// dgamma = sum(dy h)

struct GradParams {
  const void* x;
  const void* gamma;
  const float* rstd;
  const void* dy;
  void* dx;
  float* dgamma;  // (blocks, n), partial sums
  int64_t rows;
  int64_t n;
  float inverse_n;
};

// sum + g h; 0 is added outside the row, as dy is 0 there.
template <typename T>
STOWAGE_DEVICE float AddProducts(const Pack<T>& x, const Pack<T>& dy,
                                 const Pack<T>& gamma, float rstd, float sum) {
  for (int j = 0; j < kPackSize<T>; ++j) {
    const float h = ToFloat(x.value[j]) * rstd;
    sum = fmaf(ToFloat(dy.value[j]) * ToFloat(gamma.value[j]), h, sum);
  }
  return sum;
}

// Adds an element's term to dgamma.
template <typename T>
STOWAGE_DEVICE void AddToParam(T x, T dy, float rstd, float* dgamma) {
  *dgamma = fmaf(ToFloat(dy), ToFloat(x) * rstd, *dgamma);
}

template <typename T>
STOWAGE_DEVICE Pack<T> InputGradient(const Pack<T>& x, const Pack<T>& dy,
                                     const Pack<T>& gamma, float rstd,
                                     float mean_gh) {
  Pack<T> dx;
  for (int j = 0; j < kPackSize<T>; ++j) {
    const float h = ToFloat(x.value[j]) * rstd;
    const float g =
        RoundedProduct(ToFloat(dy.value[j]), ToFloat(gamma.value[j]));
    dx.value[j] = FromFloat<T>(rstd * fmaf(-h, mean_gh, g));
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
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const int thread = kWarp ? Lane() : ThreadId();
  const int n = static_cast<int>(p.n);
  const T* gamma = static_cast<const T*>(p.gamma);
  float dgamma[kPacks * kWidth];
  for (int c = 0; c < kPacks * kWidth; ++c) dgamma[c] = 0;

  const uint32_t rows = static_cast<uint32_t>(p.rows);
  const uint32_t of_block = kWarp ? kGradWarps : 1;
  for (uint32_t row = static_cast<uint32_t>(BlockId()) * of_block +
                      static_cast<uint32_t>(kWarp ? Warp() : 0);
       row < rows; row += static_cast<uint32_t>(GridSize()) * of_block) {
    const T* x = static_cast<const T*>(p.x) + row * p.n;
    const T* dy = static_cast<const T*>(p.dy) + row * p.n;
    T* dx = static_cast<T*>(p.dx) + row * p.n;
    const float rstd = p.rstd[row];
    float sum = 0;
    for (int k = 0; k < kPacks; ++k) {
      const int i = (k * kThreads + thread) * kWidth;
      const Pack<T> of_x = LoadOfWholeRow<kPacked>(x, i, n, T{});
      const Pack<T> of_dy = LoadOfWholeRow<kPacked>(dy, i, n, T{});
      sum = AddProducts(of_x, of_dy, LoadOfWholeRow<kPacked>(gamma, i, n, T{}),
                        rstd, sum);
      for (int j = 0; j < kWidth; ++j) {
        AddToParam(of_x.value[j], of_dy.value[j], rstd,
                   &dgamma[k * kWidth + j]);
      }
    }
    const float mean_gh =
        RoundedProduct(SumOfRow<kThreads>(sum, scratch), p.inverse_n);
    for (int k = 0; k < kPacks; ++k) {
      const int i = (k * kThreads + thread) * kWidth;
      if (i >= n) break;
      StoreOfWholeRow<kPacked>(
          dx, i, n,
          InputGradient(LoadOfWholeRow<kPacked>(x, i, n, T{}),
                        LoadOfWholeRow<kPacked>(dy, i, n, T{}),
                        LoadOfWholeRow<kPacked>(gamma, i, n, T{}), rstd,
                        mean_gh));
    }
  }

  float* to_dgamma = p.dgamma + BlockId() * p.n;
  if constexpr (kWarp) {  // the warps add up, in turn
    constexpr int kColumns = kWarpSize * kPacks * kWidth;
    STOWAGE_SHARED(float, sums, kColumns);
    for (int warp = 0; warp < kGradWarps; ++warp) {
      for (int c = 0; warp == Warp() && c < kPacks * kWidth; ++c) {
        const int column =
            (c / kWidth * kWarpSize + Lane()) * kWidth + c % kWidth;
        sums[column] = (warp == 0 ? 0.0f : sums[column]) + dgamma[c];
      }
      SyncThreads();
    }
    for (int i = ThreadId(); i < n; i += kGradWarps * kWarpSize) {
      to_dgamma[i] = sums[i];
    }
  } else {
    for (int c = 0; c < kPacks * kWidth; ++c) {
      const int column = (c / kWidth * kThreads + thread) * kWidth + c % kWidth;
      if (column < n) to_dgamma[column] = dgamma[c];
    }
  }
}

// Rows of any length; the sums of dgamma are in the workspace from the start. A thread has the
// same columns of every row.
template <typename T, bool kPacked>
STOWAGE_KERNEL(kLongThreads)
GradLongRows(STOWAGE_PARAMS(GradParams) p) {
  constexpr int kWidth = kPackSize<T>;
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const int64_t first = ThreadId() * kWidth;
  constexpr int64_t kStep = kLongThreads * kWidth;
  const T* gamma = static_cast<const T*>(p.gamma);
  float* dgamma = p.dgamma + BlockId() * p.n;
  for (int64_t i = first; i < p.n; i += kStep) {
    for (int64_t c = i; c < i + kWidth && c < p.n; ++c) dgamma[c] = 0;
  }
  for (int64_t row = BlockId(); row < p.rows; row += GridSize()) {
    const T* x = static_cast<const T*>(p.x) + row * p.n;
    const T* dy = static_cast<const T*>(p.dy) + row * p.n;
    T* dx = static_cast<T*>(p.dx) + row * p.n;
    const float rstd = p.rstd[row];
    float sum = 0;
    for (int64_t i = first; i < p.n; i += kStep) {
      const Pack<T> of_x = LoadOfWholeRow<kPacked>(x, i, p.n, T{});
      const Pack<T> of_dy = LoadOfWholeRow<kPacked>(dy, i, p.n, T{});
      sum = AddProducts(of_x, of_dy,
                        LoadOfWholeRow<kPacked>(gamma, i, p.n, T{}), rstd, sum);
      for (int j = 0; j < kWidth && i + j < p.n; ++j) {
        AddToParam(of_x.value[j], of_dy.value[j], rstd, &dgamma[i + j]);
      }
    }
    const float mean_gh =
        RoundedProduct(BlockSum(sum, &scratch[0]), p.inverse_n);
    for (int64_t i = first; i < p.n; i += kStep) {
      StoreOfWholeRow<kPacked>(
          dx, i, p.n,
          InputGradient(LoadOfWholeRow<kPacked>(x, i, p.n, T{}),
                        LoadOfWholeRow<kPacked>(dy, i, p.n, T{}),
                        LoadOfWholeRow<kPacked>(gamma, i, p.n, T{}), rstd,
                        mean_gh));
    }
  }
}

template <typename T, bool kPacked>
void LaunchGrad(const GradParams& params, int64_t blocks, Queue& queue) {
  const Grid grid = {.x = static_cast<uint32_t>(blocks)};
  const auto launch = [&](void (*kernel)(GradParams), uint32_t threads) {
    LaunchKernel(queue, "rms_norm_grad", kernel, params, grid, threads);
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
  const int64_t rows = x.size() / n;
  const std::optional<int64_t> parts = PartsOf(*launch.attrs);
  const int64_t blocks = parts.value_or(SumBlocks(rows));
  const GradParams params = {
      .x = x.data,
      .gamma = launch.inputs[1].data,
      .rstd = launch.inputs[2].as<const float>(),
      .dy = launch.inputs[3].data,
      .dx = launch.outputs[0].data,
      .dgamma = parts ? launch.outputs[1].as<float>()
                      : reinterpret_cast<float*>(launch.workspace.data()),
      .rows = rows,
      .n = n,
      .inverse_n = 1.0f / static_cast<float>(n)};
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (PacksAreWhole<T>(n, params.x, params.gamma, params.dy, params.dx)) {
      LaunchGrad<T, true>(params, blocks, queue);
    } else {
      LaunchGrad<T, false>(params, blocks, queue);
    }
    if (parts) return;  // to a sum_partials
    const ColumnSum sums[] = {
        {params.dgamma, launch.outputs[1].data, n, blocks}};
    EnqueueColumnSums<T, 1>("rms_norm_grad of gamma", sums, queue);
  });
}

Bytes GradWorkspace(const OpArgs& args, std::span<const TensorType>) {
  if (PartsOf(args.attrs)) return 0;
  const int64_t n = args.shape(0).back();
  const int64_t blocks = SumBlocks(args.shape(0).num_elements() / n);
  return blocks * n * SizeOf(DType::kF32);
}

}  // namespace

namespace kernels {

constinit const GpuKernel RmsNorm = {.enqueue = EnqueueNorm};
constinit const GpuKernel RmsNormGrad = {.enqueue = EnqueueGrad,
                                         .workspace = GradWorkspace};

}  // namespace kernels
}  // namespace stowage::gpu
