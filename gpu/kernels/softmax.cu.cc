// softmax, log_softmax and their gradients, along the last axis. A row is read
// twice, the second time from the cache. Each thread reads its elements before it
// writes them, so a result may lie over an operand.

#include <cmath>

#include "gpu/block_reduce.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/online_softmax.h"
#include "gpu/kernels/rows.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

struct RowParams {
  const void* a;  // x, or y for gradients
  const void* b;  // dy
  void* to;
  int64_t rows;
  int64_t n;
};

// --- softmax, log_softmax ----------------------------------------------------

struct SoftmaxFn {
  // What is the same for all elements of a row, and the result for one.
  static STOWAGE_DEVICE float OfRow(const SoftmaxSums& row) {
    return 1 / row.sum;
  }
  static STOWAGE_DEVICE float Result(float x, float largest, float of_row) {
    return FastExp(x - largest) * of_row;
  }
};
struct LogSoftmaxFn {
  static STOWAGE_DEVICE float OfRow(const SoftmaxSums& row) {
    return logf(row.sum);
  }
  static STOWAGE_DEVICE float Result(float x, float largest, float of_row) {
    return x - largest - of_row;
  }
};

template <typename F, typename T>
STOWAGE_DEVICE Pack<T> Results(const Pack<T>& x, const SoftmaxSums& row,
                               float of_row) {
  Pack<T> y;
  for (int j = 0; j < kPackSize<T>; ++j) {
    y.value[j] =
        FromFloat<T>(F::Result(ToFloat(x.value[j]), row.largest, of_row));
  }
  return y;
}

template <typename F, typename T, bool kPacked>
STOWAGE_KERNEL(kRowThreads)
SoftmaxRows(STOWAGE_PARAMS(RowParams) p) {
  constexpr int kWidth = kPackSize<T>;
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const RowPlace at(p.n);
  if (at.row >= p.rows) return;  // of all of a warp
  const T* x = static_cast<const T*>(p.a) + at.row * p.n;
  T* y = static_cast<T*>(p.to) + at.row * p.n;
  const SoftmaxSums own = OwnSums<kPacked>(x, p.n, at.thread, at.threads);
  const SoftmaxSums sums =
      at.of_block ? OverBlock(own, &scratch[0]) : OverWarp(own);
  const float of_row = F::OfRow(sums);
  for (int64_t i = at.thread * kWidth; i < p.n; i += at.threads * kWidth) {
    const Pack<T> pack = LoadOfRow<kPacked>(x, i, p.n, T{});
    StoreOfRow<kPacked>(y, i, p.n, Results<F>(pack, sums, of_row));
  }
}

// --- Gradients ---------------------------------------------------------------

// dx = y (dy - sum(y dy))
struct SoftmaxGradFn {
  static STOWAGE_DEVICE float Add(float sum, float y, float dy) {
    return fmaf(y, dy, sum);
  }
  static STOWAGE_DEVICE float Result(float y, float dy, float sum) {
    return y * (dy - sum);
  }
};
// dx = dy - exp(y) sum(dy)
struct LogSoftmaxGradFn {
  static STOWAGE_DEVICE float Add(float sum, float, float dy) {
    return sum + dy;
  }
  static STOWAGE_DEVICE float Result(float y, float dy, float sum) {
    return fmaf(-FastExp(y), sum, dy);
  }
};

template <typename F, typename T>
STOWAGE_DEVICE float SumOfTerms(const Pack<T>& y, const Pack<T>& dy) {
  float sum = 0;
  for (int j = 0; j < kPackSize<T>; ++j) {
    sum = F::Add(sum, ToFloat(y.value[j]), ToFloat(dy.value[j]));
  }
  return sum;
}
template <typename F, typename T>
STOWAGE_DEVICE Pack<T> GradResults(const Pack<T>& y, const Pack<T>& dy,
                                   float sum) {
  Pack<T> dx;
  for (int j = 0; j < kPackSize<T>; ++j) {
    dx.value[j] =
        FromFloat<T>(F::Result(ToFloat(y.value[j]), ToFloat(dy.value[j]), sum));
  }
  return dx;
}

template <typename F, typename T, bool kPacked>
STOWAGE_KERNEL(kRowThreads)
SoftmaxGradRows(STOWAGE_PARAMS(RowParams) p) {
  constexpr int kWidth = kPackSize<T>;
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const RowPlace at(p.n);
  if (at.row >= p.rows) return;  // of all of a warp
  const T* y = static_cast<const T*>(p.a) + at.row * p.n;
  const T* dy = static_cast<const T*>(p.b) + at.row * p.n;
  T* dx = static_cast<T*>(p.to) + at.row * p.n;
  float sum = 0;
  for (int64_t i = at.thread * kWidth; i < p.n; i += at.threads * kWidth) {
    sum += SumOfTerms<F>(LoadOfRow<kPacked>(y, i, p.n, T{}),
                         LoadOfRow<kPacked>(dy, i, p.n, T{}));
  }
  sum = at.of_block ? BlockSum(sum, &scratch[0]) : WarpSum(sum);
  for (int64_t i = at.thread * kWidth; i < p.n; i += at.threads * kWidth) {
    const Pack<T> of_y = LoadOfRow<kPacked>(y, i, p.n, T{});
    const Pack<T> of_dy = LoadOfRow<kPacked>(dy, i, p.n, T{});
    StoreOfRow<kPacked>(dx, i, p.n, GradResults<F>(of_y, of_dy, sum));
  }
}

// --- Launches ----------------------------------------------------------------

void LaunchRows(const char* name, void (*kernel)(RowParams),
                const RowParams& params, Queue& queue) {
  LaunchKernel(queue, name, kernel, params, RowGrid(params.rows, params.n),
               kRowThreads);
}

template <typename F>
void EnqueueSoftmax(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const int64_t n = x.shape().back();
  const RowParams params = {x.data, nullptr, y.data, x.size() / n, n};
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const bool packed = RowsArePacked<T>(params.rows, n, x.data, y.data);
    LaunchRows("softmax",
               packed ? SoftmaxRows<F, T, true> : SoftmaxRows<F, T, false>,
               params, queue);
  });
}

template <typename F>
void EnqueueSoftmaxGrad(const Launch& launch, Queue& queue) {
  const TensorView& y = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const TensorView& dx = launch.outputs[0];
  const int64_t n = y.shape().back();
  const RowParams params = {y.data, dy.data, dx.data, y.size() / n, n};
  OnFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const bool packed =
        RowsArePacked<T>(params.rows, n, y.data, dy.data, dx.data);
    LaunchRows(
        "softmax_grad",
        packed ? SoftmaxGradRows<F, T, true> : SoftmaxGradRows<F, T, false>,
        params, queue);
  });
}

}  // namespace

namespace kernels {

constinit const GpuKernel Softmax = {.enqueue = EnqueueSoftmax<SoftmaxFn>};
constinit const GpuKernel SoftmaxGrad = {.enqueue =
                                             EnqueueSoftmaxGrad<SoftmaxGradFn>};
constinit const GpuKernel LogSoftmax = {.enqueue =
                                            EnqueueSoftmax<LogSoftmaxFn>};
constinit const GpuKernel LogSoftmaxGrad = {
    .enqueue = EnqueueSoftmaxGrad<LogSoftmaxGradFn>};

}  // namespace kernels
}  // namespace stowage::gpu
