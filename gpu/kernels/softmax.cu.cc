// softmax, log_softmax, cross_entropy and their gradients, along the last axis. A row is
// read twice, the second time from the cache. Each thread reads its elements before it
// writes them, so a result may overwrite an operand. cross_entropy writes the losses of the
// rows to the workspace, where one block sums them.

#include "gpu/kernels/softmax.h"

#include <cmath>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
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
  // The constants of a row, and the result for one element.
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

// --- cross_entropy -----------------------------------------------------------

struct Labels {
  const void* data;
  int bytes;  // of one: 8 for i64, 4 for i32
  int64_t limit;
  FaultSlot fault;

  // The label of a row, or -1 where it is out of range.
  STOWAGE_DEVICE int64_t Of(int64_t row) const {
    const int64_t label = bytes == 8 ? static_cast<const int64_t*>(data)[row]
                                     : static_cast<const int32_t*>(data)[row];
    return label >= 0 && label < limit ? label : -1;
  }
};

struct LossParams {
  const void* x;
  void* dx;
  int64_t rows;
  int64_t n;
  int64_t stride;
  Labels labels;
  float* log_sum_exp;
  float* losses;
  float* unweighted;     // or null
  const float* weights;  // or null
  const float* dloss;
  float scale;
};

// dx = (exp(x - log_sum_exp) - onehot(label)) factor; dx may be x.
template <bool kPacked, typename T>
STOWAGE_DEVICE void RowGradient(const T* x, T* dx, int64_t n, int64_t label,
                                float log_sum_exp, float factor,
                                const RowPlace& at) {
  constexpr int kWidth = kPackSize<T>;
  for (int64_t i = at.thread * kWidth; i < n; i += at.threads * kWidth) {
    Pack<T> pack = LoadOfRow<kPacked>(x, i, n, T{});
    for (int j = 0; j < kWidth; ++j) {
      const float softmax = FastExp(ToFloat(pack.value[j]) - log_sum_exp);
      const float target = i + j == label ? 1.0f : 0.0f;
      pack.value[j] = FromFloat<T>((softmax - target) * factor);
    }
    StoreOfRow<kPacked>(dx, i, n, pack);
  }
}

template <typename T, bool kPacked>
STOWAGE_KERNEL(kRowThreads)
RowLosses(STOWAGE_PARAMS(LossParams) p) {
  STOWAGE_SHARED(float, scratch, kWarpSize);
  const RowPlace at(p.n);
  if (at.row >= p.rows) return;  // of all of a warp
  const T* x = static_cast<const T*>(p.x) + at.row * p.stride;
  const int64_t label = p.labels.Of(at.row);
  // Read before any thread writes the row's gradient over it.
  const float target = label >= 0 ? ToFloat(x[label]) : 0.0f;
  const SoftmaxSums own = OwnSums<kPacked>(x, p.n, at.thread, at.threads);
  const SoftmaxSums sums =
      at.of_block ? OverBlock(own, &scratch[0]) : OverWarp(own);
  const float log_sum_exp = sums.LogSumExp();
  const float weight = p.weights == nullptr ? 1.0f : p.weights[at.row];
  if (at.thread == 0) {
    if (label < 0) ReportFault(p.labels.fault);
    const float loss = label >= 0 ? log_sum_exp - target : 0.0f;
    p.losses[at.row] = loss * weight;
    if (p.unweighted != nullptr) p.unweighted[at.row] = loss;
    if (p.log_sum_exp != nullptr) p.log_sum_exp[at.row] = log_sum_exp;
  }
  if (p.dloss == nullptr) return;
  SyncWarp();  // the logit at the label has been read, in a block before a barrier
  RowGradient<kPacked>(x, static_cast<T*>(p.dx) + at.row * p.stride, p.n, label,
                       log_sum_exp, *p.dloss * p.scale * weight, at);
}

template <typename T, bool kPacked>
STOWAGE_KERNEL(kRowThreads)
RowGradients(STOWAGE_PARAMS(LossParams) p) {
  const RowPlace at(p.n);
  if (at.row >= p.rows) return;  // of all of a warp
  const int64_t label = p.labels.Of(at.row);
  if (label < 0 && at.thread == 0) ReportFault(p.labels.fault);
  RowGradient<kPacked>(static_cast<const T*>(p.x) + at.row * p.stride,
                       static_cast<T*>(p.dx) + at.row * p.stride, p.n, label,
                       p.log_sum_exp[at.row], *p.dloss * p.scale, at);
}

struct MeanParams {
  const float* values;
  int64_t count;
  float* mean;
};

inline constexpr int kMeanThreads = 1024;

STOWAGE_KERNEL(kMeanThreads) Mean(STOWAGE_PARAMS(MeanParams) p) {
  STOWAGE_SHARED(float, scratch, kWarpSize);
  constexpr int64_t kRun = 64;  // values added before they join the total
  float total = 0;
  for (int64_t run = ThreadId(); run < p.count; run += kRun * kMeanThreads) {
    const int64_t end = run + kRun * kMeanThreads;
    float sum = 0;
    for (int64_t i = run; i < (end < p.count ? end : p.count);
         i += kMeanThreads) {
      sum += p.values[i];
    }
    total += sum;
  }
  total = BlockSum(total, &scratch[0]);
  if (ThreadId() == 0) *p.mean = total / static_cast<float>(p.count);
}

LossParams ParamsOf(const LossRows& rows, Queue& queue) {
  return {.x = rows.logits,
          .dx = rows.logits,
          .rows = rows.rows,
          .n = rows.n,
          .stride = rows.stride,
          .labels = {rows.labels, static_cast<int>(SizeOf(rows.label_dtype)),
                     rows.n, queue.fault()},
          .log_sum_exp = rows.log_sum_exp,
          .losses = rows.losses,
          .unweighted = rows.unweighted,
          .weights = rows.weights,
          .dloss = rows.dloss,
          .scale = rows.scale};
}

void LaunchRows(const char* name, void (*kernel)(LossParams),
                const LossParams& params, Queue& queue) {
  LaunchKernel(queue, name, kernel, params, RowGrid(params.rows, params.n),
               kRowThreads);
}

LossRows RowsOf(const Launch& launch) {
  const TensorView& logits = launch.inputs[0];
  const TensorView& labels = launch.inputs[1];
  const int64_t n = logits.shape().back();
  return {.dtype = logits.dtype(),
          .logits = logits.data,
          .rows = logits.size() / n,
          .n = n,
          .stride = n,
          .labels = labels.data,
          .label_dtype = labels.dtype()};
}

void EnqueueCrossEntropy(const Launch& launch, Queue& queue) {
  LossRows rows = RowsOf(launch);
  rows.log_sum_exp = launch.outputs[1].as<float>();
  rows.losses = reinterpret_cast<float*>(launch.workspace.data());
  EnqueueRowLosses(rows, queue);
  EnqueueMean(rows.losses, rows.rows, launch.outputs[0].as<float>(), queue);
}

void EnqueueCrossEntropyGrad(const Launch& launch, Queue& queue) {
  LossRows rows = RowsOf(launch);
  rows.log_sum_exp = launch.inputs[2].as<float>();
  rows.dloss = launch.inputs[3].as<const float>();
  rows.scale = 1.0f / static_cast<float>(rows.rows);
  LossParams params = ParamsOf(rows, queue);
  params.dx = launch.outputs[0].data;
  OnFloat(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool packed = RowsArePacked<T>(rows.rows, rows.n, rows.logits,
                                         launch.outputs[0].data);
    LaunchRows("cross_entropy_grad",
               packed ? RowGradients<T, true> : RowGradients<T, false>, params,
               queue);
  });
}

Bytes CrossEntropyWorkspace(const OpArgs&,
                            std::span<const TensorType> results) {
  return results[1].shape.num_elements() * SizeOf(DType::kF32);
}

}  // namespace

void EnqueueRowLosses(const LossRows& rows, Queue& queue) {
  const LossParams params = ParamsOf(rows, queue);
  OnFloat(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool packed = RowsArePacked<T>(rows.rows, rows.stride, rows.logits);
    LaunchRows("cross_entropy",
               packed ? RowLosses<T, true> : RowLosses<T, false>, params,
               queue);
  });
}

void EnqueueMean(const float* values, int64_t count, float* mean,
                 Queue& queue) {
  LaunchKernel(queue, "mean", Mean, {values, count, mean}, {}, kMeanThreads);
}

namespace kernels {

constinit const GpuKernel Softmax = {.enqueue = EnqueueSoftmax<SoftmaxFn>};
constinit const GpuKernel SoftmaxGrad = {.enqueue =
                                             EnqueueSoftmaxGrad<SoftmaxGradFn>};
constinit const GpuKernel LogSoftmax = {.enqueue =
                                            EnqueueSoftmax<LogSoftmaxFn>};
constinit const GpuKernel LogSoftmaxGrad = {
    .enqueue = EnqueueSoftmaxGrad<LogSoftmaxGradFn>};

constinit const GpuKernel CrossEntropy = {.enqueue = EnqueueCrossEntropy,
                                          .workspace = CrossEntropyWorkspace};
constinit const GpuKernel CrossEntropyGrad = {.enqueue =
                                                  EnqueueCrossEntropyGrad};

}  // namespace kernels
}  // namespace stowage::gpu
