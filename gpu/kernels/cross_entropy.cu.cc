// cross_entropy and its gradient. The losses of the rows go to the workspace, and
// one block adds them up.

#include "gpu/kernels/cross_entropy.h"

#include "gpu/block_reduce.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/online_softmax.h"
#include "gpu/kernels/rows.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

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

struct RowParams {
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

// dx = (exp(x - log_sum_exp) - one at the label) factor; over x, perhaps.
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
RowLosses(STOWAGE_PARAMS(RowParams) p) {
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
RowGradients(STOWAGE_PARAMS(RowParams) p) {
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

RowParams ParamsOf(const LossRows& rows, Queue& queue) {
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

void LaunchRows(const char* name, void (*kernel)(RowParams),
                const RowParams& params, Queue& queue) {
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
  RowParams params = ParamsOf(rows, queue);
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
  const RowParams params = ParamsOf(rows, queue);
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

constinit const GpuKernel CrossEntropy = {.enqueue = EnqueueCrossEntropy,
                                          .workspace = CrossEntropyWorkspace};
constinit const GpuKernel CrossEntropyGrad = {.enqueue =
                                                  EnqueueCrossEntropyGrad};

}  // namespace kernels
}  // namespace stowage::gpu
