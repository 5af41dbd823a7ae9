// local_response_norm and its gradient: a strip of neighbouring positions at a time,
// channel after channel. What later channels need of earlier ones is in the scratch,
// in rows of a strip, so that results may lie over the operands.

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/vec.h"
#include "ir/channel_window.h"
#include "ir/lines.h"

namespace stowage::cpu {
namespace {

constexpr int64_t kStrip = 64;  // positions

// The rows of so many channels, the last that there have been, by their number.
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

// Of one thread.
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
  const Lines lines = Lines::Along(x.shape(), 1);
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
