// softmax, log_softmax, cross_entropy and their gradients, along the last axis. Each row is
// read before it is written, so a result may overwrite an operand.

#include <cmath>
#include <limits>
#include <utility>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/strided.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {

namespace {

// Calls F::Row(n, y, operands...) on every row; F takes `k...` operands.
template <typename F, size_t... k>
void RunRows(const Launch& launch, ThreadPool& pool,
             std::index_sequence<k...>) {
  const TensorView& y = launch.outputs[0];
  const int64_t n = y.shape().back();
  OnFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ParallelRanges(
        pool, y.size() / n, RowsPerChunk(n), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            F::Row(n, y.as<T>() + row * n,
                   launch.inputs[k].template as<const T>() + row * n...);
          }
        });
  });
}
template <typename F, size_t kOperands>
StepCode Run(const Launch& launch, ThreadPool& pool) noexcept {
  RunRows<F>(launch, pool, std::make_index_sequence<kOperands>{});
  return StepCode::kOk;
}

struct SoftmaxFn {
  template <typename T>
  static void Row(int64_t n, T* y, const T* x) {
    constexpr T kLowest = -std::numeric_limits<T>::infinity();
    const Vec<T> shift = Vec<T>::All(RowMax(n, x));
    const T total = RowSum<T>(n, [&](auto at) {
      const Vec<T> weight = Exp(at.Load(x, kLowest) - shift);
      at.Store(y, weight);
      return weight;
    });
    const Vec<T> factor = Vec<T>::All(1 / total);
    ForEachVec<T>(n, [&](auto at) { at.Store(y, at.Load(y) * factor); });
  }
};

struct LogSoftmaxFn {
  template <typename T>
  static void Row(int64_t n, T* y, const T* x) {
    constexpr T kLowest = -std::numeric_limits<T>::infinity();
    const T largest = RowMax(n, x);
    const Vec<T> shift = Vec<T>::All(largest);
    const T total =
        RowSum<T>(n, [&](auto at) { return Exp(at.Load(x, kLowest) - shift); });
    const Vec<T> log_total = Vec<T>::All(std::log(total));
    ForEachVec<T>(
        n, [&](auto at) { at.Store(y, at.Load(x) - shift - log_total); });
  }
};

// dx = y (dy - sum(y dy))
struct SoftmaxGradFn {
  template <typename T>
  static void Row(int64_t n, T* dx, const T* y, const T* dy) {
    const Vec<T> dot = Vec<T>::All(
        RowSum<T>(n, [&](auto at) { return at.Load(y) * at.Load(dy); }));
    ForEachVec<T>(
        n, [&](auto at) { at.Store(dx, at.Load(y) * (at.Load(dy) - dot)); });
  }
};

// dx = dy - exp(y) sum(dy)
struct LogSoftmaxGradFn {
  template <typename T>
  static void Row(int64_t n, T* dx, const T* y, const T* dy) {
    const Vec<T> sum =
        Vec<T>::All(RowSum<T>(n, [&](auto at) { return at.Load(dy); }));
    ForEachVec<T>(
        n, [&](auto at) { at.Store(dx, at.Load(dy) - Exp(at.Load(y)) * sum); });
  }
};

}  // namespace

namespace kernels {

constinit const CpuKernel Softmax = {.run = Run<SoftmaxFn, 1>};
constinit const CpuKernel SoftmaxGrad = {.run = Run<SoftmaxGradFn, 2>};
constinit const CpuKernel LogSoftmax = {.run = Run<LogSoftmaxFn, 1>};
constinit const CpuKernel LogSoftmaxGrad = {.run = Run<LogSoftmaxGradFn, 2>};

}  // namespace kernels

// cross_entropy and its gradient. The mean is taken over chunks of rows whose
// sums (in f64) are added in order, so it does not depend on threads.

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
