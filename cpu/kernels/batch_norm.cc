// batch_norm and its gradient. A channel is the work of one thread, start to end, so
// that its later passes find it in the cache and sums have one order; within it,
// runs of neighbouring elements are summed in registers, and these sums in double
// precision. Where such a run is shorter than a register, a thread takes channels that
// are neighbours together: their elements of one example are a span, which is summed
// element by element over the examples.

#include <algorithm>
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

// --- Channels as spans -------------------------------------------------------

// Elements of a span, at most.
constexpr int64_t kMostSpan = 256;

// Whether runs leave most of a register empty.
template <typename T>
bool AreShort(const Channels& channels) {
  return channels.length < Vec<T>::kLanes;
}

// Channels [first, end), whose elements of an example lie side by side.
struct Span {
  const Channels& channels;
  int64_t first, end;

  int64_t size() const { return (end - first) * channels.length; }
  int64_t Offset(int64_t example) const {
    return (example * channels.count + first) * channels.length;
  }
  int64_t ChannelOf(int64_t i) const { return first + i / channels.length; }
};

template <typename F>
void ForSpans(const Channels& channels, ThreadPool& pool, F&& f) {
  ParallelRanges(pool, channels.count, kMostSpan / channels.length,
                 [&](int64_t begin, int64_t end) {
                   f(Span{channels, begin, end});
                 });
}

// sums[c - first] = the sum of term(place in the span, offset of the example) over
// channel c: of 64 examples in a register's lane, of these in double precision.
template <typename T, typename F>
void SumSpan(const Span& span, double* sums, F&& term) {
  constexpr int64_t kBlock = 64;
  const int64_t examples = span.channels.runs;
  std::fill_n(sums, span.end - span.first, 0.0);
  ForEachVec<T>(span.size(), [&](auto at) {
    for (int64_t begin = 0; begin < examples; begin += kBlock) {
      Vec<T> sum = Vec<T>::Zero();
      const int64_t end = std::min(examples, begin + kBlock);
      for (int64_t i = begin; i < end; ++i) sum += term(at, span.Offset(i));
      T lanes[Vec<T>::kLanes];
      sum.Store(lanes);
      for (int64_t i = 0; i < Vec<T>::kLanes; ++i) {
        if (at.index + i >= span.size()) break;
        sums[span.ChannelOf(at.index + i) - span.first] += lanes[i];
      }
    }
  });
}

// Each element's of what belongs to its channel.
template <typename T>
struct OfElements {
  T values[kMostSpan];

  template <typename F>
  OfElements(const Span& span, F&& of_channel) {
    for (int64_t i = 0; i < span.size(); ++i) {
      values[i] = static_cast<T>(of_channel(span.ChannelOf(i)));
    }
  }
};

// f(place in the span, offset of the example) for all elements.
template <typename T, typename F>
void ForElements(const Span& span, F&& f) {
  for (int64_t i = 0; i < span.channels.runs; ++i) {
    ForEachVec<T>(span.size(), [&](auto at) { f(at, span.Offset(i)); });
  }
}

template <typename T>
void ForwardOfSpan(const Launch& launch, const Span& span) {
  const T* x = launch.inputs[0].as<const T>();
  T* y = launch.outputs[0].as<T>();
  T* means = launch.outputs[1].as<T>();
  T* variances = launch.outputs[2].as<T>();
  const double eps = launch.attrs->Float("eps");
  const double size = span.channels.size;
  double sums[kMostSpan];
  SumSpan<T>(span, sums,
             [&](auto at, int64_t offset) { return at.Load(x + offset); });
  for (int64_t c = span.first; c < span.end; ++c) {
    means[c] = static_cast<T>(sums[c - span.first] / size);
  }
  const OfElements<T> mean(span, [&](int64_t c) { return means[c]; });
  SumSpan<T>(span, sums, [&](auto at, int64_t offset) {
    const Vec<T> centred = at.Load(x + offset) - at.Load(mean.values);
    return centred * centred;
  });
  const OfElements<T> factor(span, [&](int64_t c) {
    const double variance = sums[c - span.first] / size;
    variances[c] = static_cast<T>(variance);
    return launch.inputs[1].as<const T>()[c] / std::sqrt(variance + eps);
  });
  const OfElements<T> beta(
      span, [&](int64_t c) { return launch.inputs[2].as<const T>()[c]; });
  ForElements<T>(span, [&](auto at, int64_t offset) {
    const Vec<T> centred = at.Load(x + offset) - at.Load(mean.values);
    at.Store(y + offset,
             MulAdd(centred, at.Load(factor.values), at.Load(beta.values)));
  });
}

template <typename T>
void GradOfSpan(const Launch& launch, const Span& span) {
  const T* x = launch.inputs[0].as<const T>();
  const T* gamma = launch.inputs[1].as<const T>();
  const T* dy = launch.inputs[4].as<const T>();
  T* dx = launch.outputs[0].as<T>();
  const double eps = launch.attrs->Float("eps");
  const double size = span.channels.size;
  const OfElements<T> mean(
      span, [&](int64_t c) { return launch.inputs[2].as<const T>()[c]; });
  double sums[kMostSpan];     // of dy
  double centred[kMostSpan];  // of dy (x - mean)
  SumSpan<T>(span, sums,
             [&](auto at, int64_t offset) { return at.Load(dy + offset); });
  SumSpan<T>(span, centred, [&](auto at, int64_t offset) {
    return at.Load(dy + offset) * (at.Load(x + offset) - at.Load(mean.values));
  });
  const auto rstd = [&](int64_t c) {
    const double variance = launch.inputs[3].as<const T>()[c];
    return 1 / std::sqrt(variance + eps);
  };
  // dx = a dy + b (x - mean) + shift, as below.
  const OfElements<T> a(span, [&](int64_t c) { return gamma[c] * rstd(c); });
  const OfElements<T> b(span, [&](int64_t c) {
    const double r = rstd(c);
    return -gamma[c] * r * r * r * centred[c - span.first] / size;
  });
  const OfElements<T> shift(span, [&](int64_t c) {
    return -gamma[c] * rstd(c) * sums[c - span.first] / size;
  });
  ForElements<T>(span, [&](auto at, int64_t offset) {
    const Vec<T> from_x = MulAdd(at.Load(x + offset) - at.Load(mean.values),
                                 at.Load(b.values), at.Load(shift.values));
    at.Store(dx + offset,
             MulAdd(at.Load(dy + offset), at.Load(a.values), from_x));
  });
  for (int64_t c = span.first; c < span.end; ++c) {
    launch.outputs[1].as<T>()[c] =
        static_cast<T>(centred[c - span.first] * rstd(c));
    launch.outputs[2].as<T>()[c] = static_cast<T>(sums[c - span.first]);
  }
}

// --- Channel by channel ------------------------------------------------------

template <typename T>
void RunForward(const Launch& launch, ThreadPool& pool) {
  const Channels channels(launch.inputs[0].shape());
  if (AreShort<T>(channels)) {
    return ForSpans(channels, pool,
                    [&](const Span& span) { ForwardOfSpan<T>(launch, span); });
  }
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
  if (AreShort<T>(channels)) {
    return ForSpans(channels, pool,
                    [&](const Span& span) { GradOfSpan<T>(launch, span); });
  }
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
