// softmax, log_softmax and their gradients, along the last axis. Each row is
// read before it is written, so a result may lie over an operand.

#include <cmath>
#include <limits>
#include <utility>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/rows.h"
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
}  // namespace stowage::cpu
