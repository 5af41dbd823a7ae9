// batch_norm and its gradient. A channel is the work of one thread, start to end, so
// that its later passes find it in the cache and sums have one order; within it,
// runs of neighbouring elements are summed in registers, and these sums in double
// precision.

#include <cmath>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

// Where the elements of a channel are: runs of `length`, one an example.
struct Channels {
  explicit Channels(const Shape& x)
      : count(x[1]),
        runs(x[0]),
        length(x.num_elements() / (x[0] * x[1])),
        size(static_cast<double>(runs * length)) {}

  /// f(offset of the run) for each.
  template <typename F>
  void ForRuns(int64_t channel, F&& f) const {
    for (int64_t i = 0; i < runs; ++i) f((i * count + channel) * length);
  }

  int64_t count;   // of channels
  int64_t runs;    // of each
  int64_t length;  // of each of these
  double size;     // elements of a channel
};

template <typename F>
void ForChannels(const Channels& channels, ThreadPool& pool, F&& f) {
  ParallelRanges(pool, channels.count,
                 RowsPerChunk(channels.runs * channels.length),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t c = begin; c < end; ++c) f(c);
                 });
}

template <typename T>
void RunForward(const Launch& launch, ThreadPool& pool) {
  const Channels channels(launch.inputs[0].shape());
  const int64_t n = channels.length;
  const T* x = launch.inputs[0].as<const T>();
  T* y = launch.outputs[0].as<T>();
  const double eps = launch.attrs->Float("eps");
  ForChannels(channels, pool, [&](int64_t c) {
    double sum = 0;
    channels.ForRuns(c, [&](int64_t at_run) {
      sum += RowSum<T>(n, [&](auto at) { return at.Load(x + at_run); });
    });
    const T mean = static_cast<T>(sum / channels.size);
    const Vec<T> shift = Vec<T>::All(mean);
    double squares = 0;
    channels.ForRuns(c, [&](int64_t at_run) {
      squares += RowSum<T>(n, [&](auto at) {
        const Vec<T> centred = at.Load(x + at_run, mean) - shift;
        return centred * centred;
      });
    });
    const double variance = squares / channels.size;
    const T gamma = launch.inputs[1].as<const T>()[c];
    const Vec<T> factor =
        Vec<T>::All(static_cast<T>(gamma / std::sqrt(variance + eps)));
    const Vec<T> beta = Vec<T>::All(launch.inputs[2].as<const T>()[c]);
    channels.ForRuns(c, [&](int64_t at_run) {
      ForEachVec<T>(n, [&](auto at) {
        at.Store(y + at_run, MulAdd(at.Load(x + at_run) - shift, factor, beta));
      });
    });
    launch.outputs[1].as<T>()[c] = mean;
    launch.outputs[2].as<T>()[c] = static_cast<T>(variance);
  });
}

// With h = (x - mean) rstd, and means over the channel:
//   dx = gamma rstd (dy - mean(dy) - h mean(dy h)),
//   dgamma = sum(dy h), dbeta = sum(dy)
template <typename T>
void RunGrad(const Launch& launch, ThreadPool& pool) {
  const Channels channels(launch.inputs[0].shape());
  const int64_t n = channels.length;
  const T* x = launch.inputs[0].as<const T>();
  const T* dy = launch.inputs[4].as<const T>();
  T* dx = launch.outputs[0].as<T>();
  const double eps = launch.attrs->Float("eps");
  ForChannels(channels, pool, [&](int64_t c) {
    const double gamma = launch.inputs[1].as<const T>()[c];
    const Vec<T> mean = Vec<T>::All(launch.inputs[2].as<const T>()[c]);
    const double variance = launch.inputs[3].as<const T>()[c];
    const double rstd = 1 / std::sqrt(variance + eps);
    double sum = 0;      // of dy
    double centred = 0;  // of dy (x - mean)
    channels.ForRuns(c, [&](int64_t at_run) {
      Vec<T> products = Vec<T>::Zero();
      sum += RowSum<T>(n, [&](auto at) {
        const Vec<T> d = at.Load(dy + at_run);
        products = MulAdd(d, at.Load(x + at_run) - mean, products);
        return d;
      });
      centred += SumLanes(products);
    });
    // dx = a dy + b (x - mean) + shift
    const Vec<T> a = Vec<T>::All(static_cast<T>(gamma * rstd));
    const Vec<T> b = Vec<T>::All(
        static_cast<T>(-gamma * rstd * rstd * rstd * centred / channels.size));
    const Vec<T> shift =
        Vec<T>::All(static_cast<T>(-gamma * rstd * sum / channels.size));
    channels.ForRuns(c, [&](int64_t at_run) {
      ForEachVec<T>(n, [&](auto at) {
        const Vec<T> from_x = MulAdd(at.Load(x + at_run) - mean, b, shift);
        at.Store(dx + at_run, MulAdd(at.Load(dy + at_run), a, from_x));
      });
    });
    launch.outputs[1].as<T>()[c] = static_cast<T>(centred * rstd);
    launch.outputs[2].as<T>()[c] = static_cast<T>(sum);
  });
}

StepCode RunBatchNorm(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunForward<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunBatchNormGrad(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunGrad<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel BatchNorm = {.run = RunBatchNorm};
constinit const CpuKernel BatchNormGrad = {.run = RunBatchNormGrad};

}  // namespace kernels
}  // namespace stowage::cpu
