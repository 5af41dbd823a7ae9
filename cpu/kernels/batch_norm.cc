// batch_norm and its gradient. A channel is the work of one thread, start to end, so
// that its later passes find it in the cache and sums have one order; within it,
// runs of neighbouring elements are summed in registers, and these sums in double
// precision. Where such a run is shorter than a register, a thread takes channels that
// are neighbours together: their elements of one example are a span, which is summed
// element by element over the examples.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/vec.h"
#include "ir/element_groups.h"
#include "ir/windows.h"

namespace stowage::cpu {

namespace {

// The places of a channel's elements: runs of `length`, one per example.
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
constexpr int64_t kMaxSpan = 256;

// Whether runs leave most of a register empty.
template <typename T>
bool AreShort(const Channels& channels) {
  return channels.length < Vec<T>::kLanes;
}

// Channels [first, end), whose elements of an example are adjacent.
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
  ParallelRanges(pool, channels.count, kMaxSpan / channels.length,
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

// Repeats each channel's value for all of its elements.
template <typename T>
struct OfElements {
  T values[kMaxSpan];

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
  double sums[kMaxSpan];
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
  double sums[kMaxSpan];     // of dy
  double centred[kMaxSpan];  // of dy (x - mean)
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

// local_response_norm and its gradient: a strip of neighbouring positions at a time, channel
// by channel. The values that later channels need of earlier ones are in the scratch, in rows
// of a strip, so results may overwrite operands.

namespace {

constexpr int64_t kStrip = 64;  // positions

// A ring of the rows of the last `size` channels, by number.
template <typename T>
class Rows {
 public:
  Rows(T* data, int64_t count) : data_(data), count_(count) {}
  T* Of(int64_t channel) const { return data_ + channel % count_ * kStrip; }
  T* end() const { return data_ + count_ * kStrip; }

  // The sum over channels [first, end), in order, at one place of the rows.
  template <typename Place>
  Vec<T> Sum(int64_t first, int64_t end, Place at) const {
    int64_t row = first % count_;
    Vec<T> sum = Vec<T>::Zero();
    for (int64_t channel = first; channel < end; ++channel) {
      sum += at.Load(data_ + row * kStrip);
      if (++row == count_) row = 0;
    }
    return sum;
  }

 private:
  T* data_;
  int64_t count_;
};

// b^-beta. At 0.75, as the nets of that time have it, by two roots.
template <typename T>
Vec<T> Power(Vec<T> b, double beta) {
  if (beta == 0.75) {
    const Vec<T> root = Sqrt(b);
    return Vec<T>(1) / (root * Sqrt(root));
  }
  return Exp(Log(b) * Vec<T>(-beta));
}

// A strip of `count` positions of one example, and the formula.
template <typename T>
struct Strip {
  ChannelWindow window;
  int64_t channels, inner, count;
  double scale, beta, bias;  // scale: alpha / size

  int64_t First(int64_t channel) const {
    return std::max<int64_t>(0, channel - window.before);
  }
  int64_t End(int64_t channel) const {
    return std::min(channels, channel + window.after + 1);
  }
  Vec<T> Base(Vec<T> sum) const {
    return MulAdd(sum, Vec<T>(scale), Vec<T>(bias));
  }
};

// y may be x: a channel is overwritten once its square is in the scratch.
template <typename T>
void Normalize(const Strip<T>& strip, const T* x, T* y, T* scratch) {
  const Rows<T> squares(scratch, strip.window.length());
  const int64_t ahead = strip.window.after;
  for (int64_t next = 0; next < strip.channels + ahead; ++next) {
    if (next < strip.channels) {
      ForEachVec<T>(strip.count, [&](auto at) {
        const Vec<T> v = at.Load(x + next * strip.inner);
        at.Store(squares.Of(next), v * v);
      });
    }
    const int64_t channel = next - ahead;
    if (channel < 0) continue;
    const int64_t offset = channel * strip.inner;
    ForEachVec<T>(strip.count, [&](auto at) {
      const Vec<T> base =
          strip.Base(squares.Sum(strip.First(channel), strip.End(channel), at));
      at.Store(y + offset, at.Load(x + offset) * Power(base, strip.beta));
    });
  }
}

// With b the base of each channel's power and u = dy b^-beta,
//   dx = u - 2 beta alpha / size x sum(u x / b),
// the sum over the channels whose windows have this one: the same window, turned
// round. dx may be x or dy: a channel is written when no base needs it any more.
template <typename T>
void NormalizeGrad(const Strip<T>& strip, const T* x, const T* dy, T* dx,
                   T* scratch) {
  const Rows<T> shares(scratch, strip.window.length());         // u x / b
  const Rows<T> scaled(shares.end(), strip.window.before + 1);  // u
  const Vec<T> factor(-2 * strip.beta * strip.scale);
  const int64_t ahead = strip.window.before;
  for (int64_t next = 0; next < strip.channels + ahead; ++next) {
    if (next < strip.channels) {
      const int64_t offset = next * strip.inner;
      ForEachVec<T>(strip.count, [&](auto at) {
        Vec<T> sum = Vec<T>::Zero();
        for (int64_t i = strip.First(next); i < strip.End(next); ++i) {
          const Vec<T> v = at.Load(x + i * strip.inner);
          sum = MulAdd(v, v, sum);
        }
        const Vec<T> base = strip.Base(sum);
        const Vec<T> u = at.Load(dy + offset) * Power(base, strip.beta);
        at.Store(scaled.Of(next), u);
        at.Store(shares.Of(next), u * at.Load(x + offset) / base);
      });
    }
    const int64_t channel = next - ahead;
    if (channel < 0) continue;
    const int64_t offset = channel * strip.inner;
    const int64_t first = std::max<int64_t>(0, channel - strip.window.after);
    const int64_t end = std::min(strip.channels, next + 1);
    ForEachVec<T>(strip.count, [&](auto at) {
      const Vec<T> v = at.Load(x + offset) * factor;
      at.Store(dx + offset, MulAdd(v, shares.Sum(first, end, at),
                                   at.Load(scaled.Of(channel))));
    });
  }
}

// Per thread.
Bytes ScratchBytes(int64_t rows, DType dtype) {
  return AlignUp(rows * kStrip * SizeOf(dtype), kWorkspaceAlignment);
}
ChannelWindow WindowOf(const Attrs& attrs, const Shape& x) {
  return ChannelWindow::Of(attrs.Int("size"), x[1]);
}
int64_t NormRows(ChannelWindow window) { return window.length(); }
int64_t GradRows(ChannelWindow window) {
  return window.length() + window.before + 1;
}

template <int64_t (*kRows)(ChannelWindow)>
Bytes Workspace(const OpArgs& args, std::span<const TensorType>, int threads) {
  const int64_t rows = kRows(WindowOf(args.attrs, args.shape(0)));
  return threads * ScratchBytes(rows, args.type(0).dtype);
}

// Calls f(strip, offset, scratch) for all strips, with the offset of the first
// element of each.
template <int64_t (*kRows)(ChannelWindow), typename F>
StepCode ForStrips(const Launch& launch, ThreadPool& pool, const F& f) {
  const TensorView& x = launch.inputs[0];
  const Attrs& attrs = *launch.attrs;
  const AxisLines lines = AxisLines::Along(x.shape(), 1);
  const ChannelWindow window = WindowOf(attrs, x.shape());
  const Bytes bytes = ScratchBytes(kRows(window), x.dtype());
  const int64_t strips = CeilDiv(lines.inner, kStrip);
  const int64_t all = lines.outer * strips;
  const int64_t piece =
      RowsPerChunk(lines.length * std::min(lines.inner, kStrip));
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Strip<T> formula = {
        .window = window,
        .channels = lines.length,
        .inner = lines.inner,
        .count = 0,
        .scale = attrs.Float("alpha") / static_cast<double>(attrs.Int("size")),
        .beta = attrs.Float("beta"),
        .bias = attrs.Float("bias")};
    pool.ParallelFor(CeilDiv(all, piece), [&](int64_t chunk, int thread) {
      T* scratch =
          reinterpret_cast<T*>(launch.workspace.data() + thread * bytes);
      Strip<T> strip = formula;
      const int64_t end = std::min(all, (chunk + 1) * piece);
      for (int64_t i = chunk * piece; i < end; ++i) {
        const int64_t first = i % strips * kStrip;
        strip.count = std::min(kStrip, lines.inner - first);
        f(strip, i / strips * lines.length * lines.inner + first, scratch);
      }
    });
  });
  return StepCode::kOk;
}

StepCode RunNorm(const Launch& launch, ThreadPool& pool) noexcept {
  return ForStrips<NormRows>(
      launch, pool,
      [&]<typename T>(const Strip<T>& strip, int64_t at, T* rows) {
        Normalize(strip, launch.inputs[0].as<const T>() + at,
                  launch.outputs[0].as<T>() + at, rows);
      });
}

StepCode RunNormGrad(const Launch& launch, ThreadPool& pool) noexcept {
  return ForStrips<GradRows>(
      launch, pool,
      [&]<typename T>(const Strip<T>& strip, int64_t at, T* rows) {
        NormalizeGrad(strip, launch.inputs[0].as<const T>() + at,
                      launch.inputs[1].as<const T>() + at,
                      launch.outputs[0].as<T>() + at, rows);
      });
}

}  // namespace

namespace kernels {

constinit const CpuKernel LocalResponseNorm = {
    .run = RunNorm, .workspace = Workspace<NormRows>};
constinit const CpuKernel LocalResponseNormGrad = {
    .run = RunNormGrad, .workspace = Workspace<GradRows>};

}  // namespace kernels

}  // namespace stowage::cpu
