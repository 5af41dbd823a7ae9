// cross_entropy and its gradient. The mean is taken over chunks of rows whose
// sums (in f64) are added in order, so it does not depend on threads.

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/cross_entropy_rows.h"
#include "cpu/kernels/dispatch.h"

namespace stowage::cpu {
namespace {

int64_t ChunksOfRows(const Shape& logits) {
  const int64_t n = logits.back();
  return CeilDiv(logits.num_elements() / n, RowsPerChunk(n));
}

template <typename T, typename Label>
void RunForward(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const TensorView& logits = launch.inputs[0];
  const int64_t n = logits.shape().back();
  const int64_t rows = logits.size() / n;
  const int64_t piece = RowsPerChunk(n);
  const T* x = logits.as<const T>();
  T* log_sum_exp = launch.outputs[1].as<T>();
  double* sums = reinterpret_cast<double*>(launch.workspace.data());
  ParallelRanges(pool, rows, piece, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t row = begin; row < end; ++row) {
      log_sum_exp[row] = LogSumExp(n, x + row * n);
      sum += double{log_sum_exp[row]} - double{x[row * n + labels[row]]};
    }
    sums[begin / piece] = sum;
  });
  double sum = 0;
  for (int64_t i = 0; i < CeilDiv(rows, piece); ++i) sum += sums[i];
  *launch.outputs[0].as<T>() = static_cast<T>(sum / static_cast<double>(rows));
}

// dlogits = (softmax - one at the label) dloss / rows
template <typename T, typename Label>
void RunGrad(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const TensorView& logits = launch.inputs[0];
  const int64_t n = logits.shape().back();
  const int64_t rows = logits.size() / n;
  const T* x = logits.as<const T>();
  const T* log_sum_exp = launch.inputs[2].as<const T>();
  const T factor = *launch.inputs[3].as<const T>() / static_cast<T>(rows);
  T* dx = launch.outputs[0].as<T>();
  ParallelRanges(pool, rows, RowsPerChunk(n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      LogitsGrad<T>(n, x + row * n, log_sum_exp[row], labels[row], factor,
                    dx + row * n);
    }
  });
}

// run(T zero, labels) when all labels are in range.
template <typename F>
StepCode WithLabels(const Launch& launch, F&& run) {
  const TensorView& logits = launch.inputs[0];
  const TensorView& labels = launch.inputs[1];
  return OnIndex(labels.dtype(), [&](auto label_zero) {
    const auto* values = labels.as<const decltype(label_zero)>();
    if (!InRange(values, labels.size(), logits.shape().back())) {
      return StepCode::kIndexOutOfRange;
    }
    OnFloat(logits.dtype(), [&](auto zero) { run(zero, values); });
    return StepCode::kOk;
  });
}

StepCode RunCrossEntropy(const Launch& launch, ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto zero, const auto* labels) {
    RunForward<decltype(zero)>(launch, labels, pool);
  });
}
StepCode RunCrossEntropyGrad(const Launch& launch, ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto zero, const auto* labels) {
    RunGrad<decltype(zero)>(launch, labels, pool);
  });
}

Bytes CrossEntropyWorkspace(const OpArgs& args, std::span<const TensorType>,
                            int) {
  return ChunksOfRows(args.shape(0)) * SizeOf(DType::kF64);
}

}  // namespace

namespace kernels {

constinit const CpuKernel CrossEntropy = {.run = RunCrossEntropy,
                                          .workspace = CrossEntropyWorkspace};
constinit const CpuKernel CrossEntropyGrad = {.run = RunCrossEntropyGrad};

}  // namespace kernels
}  // namespace stowage::cpu
