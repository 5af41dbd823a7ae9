// max_pool, avg_pool, resize and their gradients: a thread per element of the result reads
// the elements it depends on, in a fixed order. A plane is the spatial axes of one example
// and channel.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "ir/windows.h"
#include "math/resampling.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

struct Range {
  int32_t first, end;
};

// A WindowAxis whose places fit 32 bits (Excess).
struct Axis {
  explicit Axis(const WindowAxis& a)
      : in(static_cast<int32_t>(a.in)),
        out(static_cast<int32_t>(a.out)),
        kernel(static_cast<int32_t>(a.kernel)),
        stride(static_cast<int32_t>(a.stride)),
        dilation(static_cast<int32_t>(a.dilation)),
        before(static_cast<int32_t>(a.before)),
        after(static_cast<int32_t>(a.after)) {}

  STOWAGE_DEVICE int32_t Place(int32_t o, int32_t i) const {
    return o * stride - before + i * dilation;
  }
  // The elements of window o that are no padding.
  STOWAGE_DEVICE Range TapsOf(int32_t o) const {
    const int32_t start = Place(o, 0);
    const int32_t last = start + (kernel - 1) * dilation;
    if (start >= 0 && last < in) return {0, kernel};
    return {start >= 0 ? 0 : (dilation - 1 - start) / dilation,
            last < in ? kernel : (in - 1 - start) / dilation + 1};
  }
  // The windows that reach over an element: all that have it, and with a dilation
  // others.
  STOWAGE_DEVICE Range WindowsOver(int32_t at) const {
    const int32_t behind = at + before - (kernel - 1) * dilation;
    const int32_t end = (at + before) / stride + 1;
    return {behind <= 0 ? 0 : (behind - 1) / stride + 1, end < out ? end : out};
  }
  // The divisor of the mean of window o.
  STOWAGE_DEVICE int32_t Count(int32_t o, bool with_padding) const {
    const int32_t start = Place(o, 0);
    if (with_padding) {
      const int32_t end = start + kernel;
      return (end < in + after ? end : in + after) - start;
    }
    const Range taps = TapsOf(o);
    return taps.end - taps.first;
  }

  int32_t in, out, kernel, stride, dilation, before, after;
};

struct Spot {
  int32_t plane, z, y, x;
};

struct PoolParams {
  const std::byte* x;   // not of avg_pool_grad
  const std::byte* dy;  // of gradients
  std::byte* result;
  Axis z_axis, y_axis, x_axis;
  Divisor width, height, depth;  // of the result
  uint32_t count;                // elements of the result
  int32_t in_plane, out_plane;
  int32_t with_padding;
};

// The element of the result of this thread; false beyond the last.
template <typename Params>
STOWAGE_DEVICE bool Find(const Params& p, uint32_t* unit, Spot* spot) {
  *unit = static_cast<uint32_t>(BlockId()) * kThreads +
          static_cast<uint32_t>(ThreadId());
  if (*unit >= p.count) return false;
  const uint32_t row = p.width.Divide(*unit);
  const uint32_t slice = p.height.Divide(row);
  const uint32_t plane = p.depth.Divide(slice);
  *spot = {static_cast<int32_t>(plane),
           static_cast<int32_t>(slice - plane * p.depth.d),
           static_cast<int32_t>(row - slice * p.height.d),
           static_cast<int32_t>(*unit - row * p.width.d)};
  return true;
}

STOWAGE_DEVICE int32_t PlaceIn(const PoolParams& p, int32_t z, int32_t y,
                               int32_t x) {
  return (z * p.y_axis.in + y) * p.x_axis.in + x;
}
STOWAGE_DEVICE int32_t PlaceOut(const PoolParams& p, int32_t z, int32_t y,
                                int32_t x) {
  return (z * p.y_axis.out + y) * p.x_axis.out + x;
}

// Whether b takes the place of a, which comes first: larger, or the first NaN.
STOWAGE_DEVICE bool Beats(float b, float a) {
  return b > a || (b != b && a == a);
}

template <typename T>
STOWAGE_KERNEL(kThreads)
MaxPoolKernel(STOWAGE_PARAMS(PoolParams) p) {
  uint32_t unit;
  Spot at;
  if (!Find(p, &unit, &at)) return;
  const Range z = p.z_axis.TapsOf(at.z);
  const Range y = p.y_axis.TapsOf(at.y);
  const Range x = p.x_axis.TapsOf(at.x);
  const T* plane = reinterpret_cast<const T*>(p.x) + at.plane * p.in_plane;
  float best = -std::numeric_limits<float>::infinity();
  for (int32_t i = z.first; i < z.end; ++i) {
    for (int32_t j = y.first; j < y.end; ++j) {
      for (int32_t k = x.first; k < x.end; ++k) {
        const float value = ToFloat(
            plane[PlaceIn(p, p.z_axis.Place(at.z, i), p.y_axis.Place(at.y, j),
                          p.x_axis.Place(at.x, k))]);
        if (Beats(value, best)) best = value;
      }
    }
  }
  reinterpret_cast<T*>(p.result)[unit] = FromFloat<T>(best);
}

// Advances (i, j, k) in row-major order. Nested loops over the axes of windows and of their
// elements, which threads leave at different times, would take too many registers.
STOWAGE_DEVICE void Advance(Range y, Range x, int32_t* i, int32_t* j,
                            int32_t* k) {
  const bool ends_row = ++*k == x.end;
  *k = ends_row ? x.first : *k;
  *j += ends_row ? 1 : 0;
  const bool ends_slice = *j == y.end;
  *j = ends_slice ? y.first : *j;
  *i += ends_slice ? 1 : 0;
}

// The place in its plane of the first of the largest elements of window o.
template <typename T>
STOWAGE_DEVICE int32_t PlaceOfLargest(const PoolParams& p, const T* plane,
                                      int32_t of_z, int32_t of_y,
                                      int32_t of_x) {
  const Range z = p.z_axis.TapsOf(of_z);
  const Range y = p.y_axis.TapsOf(of_y);
  const Range x = p.x_axis.TapsOf(of_x);
  float best = 0;
  int32_t found = -1;
  int32_t i = z.first;
  int32_t j = y.first;
  int32_t k = x.first;
  while (i < z.end) {
    const int32_t place =
        PlaceIn(p, p.z_axis.Place(of_z, i), p.y_axis.Place(of_y, j),
                p.x_axis.Place(of_x, k));
    const float value = ToFloat(plane[place]);
    const bool takes = found < 0 || Beats(value, best);
    best = takes ? value : best;
    found = takes ? place : found;
    Advance(y, x, &i, &j, &k);
  }
  return found;
}

template <typename T>
STOWAGE_KERNEL(kThreads)
MaxPoolGradKernel(STOWAGE_PARAMS(PoolParams) p) {
  uint32_t unit;
  Spot at;
  if (!Find(p, &unit, &at)) return;
  const Range z = p.z_axis.WindowsOver(at.z);
  const Range y = p.y_axis.WindowsOver(at.y);
  const Range x = p.x_axis.WindowsOver(at.x);
  const T* plane = reinterpret_cast<const T*>(p.x) + at.plane * p.in_plane;
  const T* dy = reinterpret_cast<const T*>(p.dy) + at.plane * p.out_plane;
  const int32_t mine = PlaceIn(p, at.z, at.y, at.x);
  float sum = 0;
  const bool none = y.first >= y.end || x.first >= x.end;
  int32_t i = none ? z.end : z.first;
  int32_t j = y.first;
  int32_t k = x.first;
  while (i < z.end) {
    const int32_t place = PlaceOfLargest(p, plane, i, j, k);
    sum += place == mine ? ToFloat(dy[PlaceOut(p, i, j, k)]) : 0.0f;
    Advance(y, x, &i, &j, &k);
  }
  reinterpret_cast<T*>(p.result)[unit] = FromFloat<T>(sum);
}

STOWAGE_DEVICE float CountOf(const PoolParams& p, int32_t z, int32_t y,
                             int32_t x) {
  const bool with_padding = p.with_padding != 0;
  return static_cast<float>(p.z_axis.Count(z, with_padding)) *
         static_cast<float>(p.y_axis.Count(y, with_padding)) *
         static_cast<float>(p.x_axis.Count(x, with_padding));
}

template <typename T>
STOWAGE_KERNEL(kThreads)
AvgPoolKernel(STOWAGE_PARAMS(PoolParams) p) {
  uint32_t unit;
  Spot at;
  if (!Find(p, &unit, &at)) return;
  const Range z = p.z_axis.TapsOf(at.z);
  const Range y = p.y_axis.TapsOf(at.y);
  const Range x = p.x_axis.TapsOf(at.x);
  const T* plane = reinterpret_cast<const T*>(p.x) + at.plane * p.in_plane;
  float sum = 0;
  for (int32_t i = z.first; i < z.end; ++i) {
    for (int32_t j = y.first; j < y.end; ++j) {
      for (int32_t k = x.first; k < x.end; ++k) {
        sum += ToFloat(
            plane[PlaceIn(p, p.z_axis.Place(at.z, i), p.y_axis.Place(at.y, j),
                          p.x_axis.Place(at.x, k))]);
      }
    }
  }
  reinterpret_cast<T*>(p.result)[unit] =
      FromFloat<T>(sum / CountOf(p, at.z, at.y, at.x));
}

template <typename T>
STOWAGE_KERNEL(kThreads)
AvgPoolGradKernel(STOWAGE_PARAMS(PoolParams) p) {
  uint32_t unit;
  Spot at;
  if (!Find(p, &unit, &at)) return;
  const Range z = p.z_axis.WindowsOver(at.z);
  const Range y = p.y_axis.WindowsOver(at.y);
  const Range x = p.x_axis.WindowsOver(at.x);
  const T* dy = reinterpret_cast<const T*>(p.dy) + at.plane * p.out_plane;
  float sum = 0;
  for (int32_t i = z.first; i < z.end; ++i) {
    for (int32_t j = y.first; j < y.end; ++j) {
      for (int32_t k = x.first; k < x.end; ++k) {
        sum += ToFloat(dy[PlaceOut(p, i, j, k)]) / CountOf(p, i, j, k);
      }
    }
  }
  reinterpret_cast<T*>(p.result)[unit] = FromFloat<T>(sum);
}

enum class Kind { kMax, kMaxGrad, kAvg, kAvgGrad };

template <Kind kKind, typename T>
constexpr auto KernelOf() {
  if constexpr (kKind == Kind::kMax) return MaxPoolKernel<T>;
  if constexpr (kKind == Kind::kMaxGrad) return MaxPoolGradKernel<T>;
  if constexpr (kKind == Kind::kAvg) return AvgPoolKernel<T>;
  if constexpr (kKind == Kind::kAvgGrad) return AvgPoolGradKernel<T>;
}

int64_t Plane(const WindowAxes& axes, int64_t WindowAxis::*size) {
  return axes[0].*size * (axes[1].*size) * (axes[2].*size);
}

template <Kind kKind>
void Enqueue(const Launch& launch, Queue& queue) {
  constexpr bool kIsGrad = kKind == Kind::kMaxGrad || kKind == Kind::kAvgGrad;
  const TensorView& result = launch.outputs[0];
  const TensorView& last = launch.inputs.back();
  const WindowAxes axes =
      WindowAxesOf(*launch.attrs, kIsGrad ? result.shape() : last.shape(),
                   kIsGrad ? last.shape() : result.shape());
  constexpr auto kSize = kIsGrad ? &WindowAxis::in : &WindowAxis::out;
  const int64_t in_plane = Plane(axes, &WindowAxis::in);
  const int64_t out_plane = Plane(axes, &WindowAxis::out);
  const int64_t plane = kIsGrad ? in_plane : out_plane;
  const int64_t planes = result.size() / plane;
  // As many planes at a time as 32-bit element numbers allow.
  const int64_t at_once = (kMaxReach - 1) / std::max(in_plane, out_plane);
  const auto bytes = SizeOf(result.dtype());
  for (int64_t first = 0; first < planes; first += at_once) {
    PoolParams p = {
        .x = nullptr,
        .dy = nullptr,
        .result = result.data + first * plane * bytes,
        .z_axis = Axis(axes[0]),
        .y_axis = Axis(axes[1]),
        .x_axis = Axis(axes[2]),
        .width = Divisor::Of(static_cast<uint32_t>(axes[2].*kSize)),
        .height = Divisor::Of(static_cast<uint32_t>(axes[1].*kSize)),
        .depth = Divisor::Of(static_cast<uint32_t>(axes[0].*kSize)),
        .count =
            static_cast<uint32_t>(std::min(at_once, planes - first) * plane),
        .in_plane = static_cast<int32_t>(in_plane),
        .out_plane = static_cast<int32_t>(out_plane),
        .with_padding = 0};
    if constexpr (kKind != Kind::kAvgGrad) {
      p.x = launch.inputs[0].data + first * in_plane * bytes;
    }
    if constexpr (kIsGrad) p.dy = last.data + first * out_plane * bytes;
    if constexpr (kKind == Kind::kAvg || kKind == Kind::kAvgGrad) {
      p.with_padding =
          static_cast<int32_t>(launch.attrs->Int("count_include_pad"));
    }
    OnFloat(result.dtype(), [&](auto zero) {
      LaunchKernel(queue, OpName(launch.op).data(),
                   KernelOf<kKind, decltype(zero)>(), p,
                   {.x = BlocksFor(p.count, kThreads)}, kThreads);
    });
  }
}

// Places in a plane and in its padding are 32-bit numbers.
std::string Excess(const OpArgs& args) {
  // x, or the result of a gradient.
  const AttrValue* attr = args.attrs.Find("shape");
  const Shape x =
      attr == nullptr ? args.shape(0) : Shape(args.attrs.Ints("shape"));
  int64_t elements = 1;
  for (int i = 2; i < x.rank(); ++i) {
    const auto at = static_cast<size_t>(i) - 2;
    const int64_t padded = x[i] + args.attrs.Ints("pad_before")[at] +
                           args.attrs.Ints("pad_after")[at];
    if (padded > (kMaxReach - 1) / elements) {
      return StrCat("the spatial axes of ", x.ToString(), ", padded, have ",
                    kMaxReach, " elements or more; expected fewer");
    }
    elements *= padded;
  }
  return "";
}

// --- resize ------------------------------------------------------------------

struct ResizeParams {
  const std::byte* from;
  std::byte* to;
  math::ResampledAxis z_axis, y_axis, x_axis;
  Divisor width, height, depth;  // of the result
  uint32_t count;                // elements of the result
  int64_t from_plane;            // elements
  float z_rate, y_rate, x_rate;  // 1 / den
};

// The weight of the first (0) or the second (1) neighbour.
STOWAGE_DEVICE float WeightOf(const math::Neighbours& from, int which) {
  return static_cast<float>(which == 0 ? 1 - from.weight : from.weight);
}
STOWAGE_DEVICE int CountOf(const math::Neighbours& from) {
  return from.weight == 0 ? 1 : 2;
}

template <typename T>
STOWAGE_KERNEL(kThreads)
ResizeKernel(STOWAGE_PARAMS(ResizeParams) p) {
  uint32_t unit;
  Spot at;
  if (!Find(p, &unit, &at)) return;
  const math::Neighbours z = p.z_axis.At(at.z);
  const math::Neighbours y = p.y_axis.At(at.y);
  const math::Neighbours x = p.x_axis.At(at.x);
  const T* plane = reinterpret_cast<const T*>(p.from) + at.plane * p.from_plane;
  float sum = 0;
  for (int i = 0; i < CountOf(z); ++i) {
    for (int j = 0; j < CountOf(y); ++j) {
      const T* row =
          plane + ((z.low + i) * p.y_axis.in + y.low + j) * p.x_axis.in;
      const float weight = WeightOf(z, i) * WeightOf(y, j);
      for (int k = 0; k < CountOf(x); ++k) {
        sum += weight * WeightOf(x, k) * ToFloat(row[x.low + k]);
      }
    }
  }
  reinterpret_cast<T*>(p.to)[unit] = FromFloat<T>(sum);
}

STOWAGE_DEVICE Range RangeOf(const math::ResampledAxis& axis, int32_t i) {
  return {static_cast<int32_t>(axis.First(i)),
          static_cast<int32_t>(axis.End(i))};
}

// One loop in place of three: nested loops that threads leave at different times would take
// too many registers.
template <typename T>
STOWAGE_KERNEL(kThreads)
ResizeGradKernel(STOWAGE_PARAMS(ResizeParams) p) {
  uint32_t unit;
  Spot at;
  if (!Find(p, &unit, &at)) return;
  const T* plane = reinterpret_cast<const T*>(p.from) + at.plane * p.from_plane;
  const Range z = RangeOf(p.z_axis, at.z);
  const Range y = RangeOf(p.y_axis, at.y);
  const Range x = RangeOf(p.x_axis, at.x);
  const auto height = static_cast<int32_t>(p.y_axis.out);
  const auto width = static_cast<int32_t>(p.x_axis.out);
  const int32_t turns =
      (z.end - z.first) * (y.end - y.first) * (x.end - x.first);
  int32_t i = z.first;
  int32_t j = y.first;
  int32_t k = x.first;
  float sum = 0;
  for (int32_t turn = 0; turn < turns; ++turn) {
    const float weight =
        static_cast<float>(p.z_axis.Share(at.z, i)) * p.z_rate *
        (static_cast<float>(p.y_axis.Share(at.y, j)) * p.y_rate) *
        (static_cast<float>(p.x_axis.Share(at.x, k)) * p.x_rate);
    const float dy = ToFloat(plane[(i * height + j) * width + k]);
    if (weight != 0) sum += weight * dy;
    const bool ends_row = ++k == x.end;
    k = ends_row ? x.first : k;
    j += ends_row ? 1 : 0;
    const bool ends_slice = j == y.end;
    j = ends_slice ? y.first : j;
    i += ends_slice ? 1 : 0;
  }
  reinterpret_cast<T*>(p.to)[unit] = FromFloat<T>(sum);
}

math::ResampledAxis AxisOf(const Attrs& attrs, const Shape& x, const Shape& y,
                           int from_last) {
  const int i = x.rank() - 1 - from_last;
  if (i < 2) return {};
  if (attrs.Int("mode") == 0) return math::ResampledAxis::Nearest(x[i], y[i]);
  return math::ResampledAxis::Linear(x[i], y[i],
                                     attrs.Int("align_corners") == 1);
}

int64_t PlaneOf(const Shape& shape) {
  return shape.num_elements() / (shape[0] * shape[1]);
}

template <bool kIsGrad>
void Enqueue(const Launch& launch, Queue& queue) {
  const TensorView& from = launch.inputs[0];
  const TensorView& to = launch.outputs[0];
  const Shape& x = kIsGrad ? to.shape() : from.shape();
  const Shape& y = kIsGrad ? from.shape() : to.shape();
  ResizeParams p = {};
  p.z_axis = AxisOf(*launch.attrs, x, y, 2);
  p.y_axis = AxisOf(*launch.attrs, x, y, 1);
  p.x_axis = AxisOf(*launch.attrs, x, y, 0);
  const auto divisor = [](const math::ResampledAxis& axis) {
    return Divisor::Of(static_cast<uint32_t>(kIsGrad ? axis.in : axis.out));
  };
  p.width = divisor(p.x_axis);
  p.height = divisor(p.y_axis);
  p.depth = divisor(p.z_axis);
  p.z_rate = 1 / static_cast<float>(p.z_axis.den);
  p.y_rate = 1 / static_cast<float>(p.y_axis.den);
  p.x_rate = 1 / static_cast<float>(p.x_axis.den);
  const int64_t from_plane = PlaneOf(from.shape());
  const int64_t to_plane = PlaneOf(to.shape());
  p.from_plane = from_plane;
  const int64_t planes = to.size() / to_plane;
  // As many planes at a time as 32-bit element numbers allow.
  const int64_t at_once = (kMaxReach - 1) / std::max(from_plane, to_plane);
  const auto bytes = SizeOf(to.dtype());
  for (int64_t first = 0; first < planes; first += at_once) {
    p.from = from.data + first * from_plane * bytes;
    p.to = to.data + first * to_plane * bytes;
    p.count =
        static_cast<uint32_t>(std::min(at_once, planes - first) * to_plane);
    OnFloat(to.dtype(), [&](auto zero) {
      using T = decltype(zero);
      LaunchKernel(queue, OpName(launch.op).data(),
                   kIsGrad ? ResizeGradKernel<T> : ResizeKernel<T>, p,
                   {.x = BlocksFor(p.count, kThreads)}, kThreads);
    });
  }
}

// Places in the planes of operand and result are 32-bit numbers.
std::string ResizeExcess(const OpArgs& args) {
  const AttrValue* shape = args.attrs.Find("shape");
  Shape other = args.shape(0);
  for (int i = 2; i < other.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    other[i] = shape == nullptr ? args.attrs.Ints("sizes")[at - 2]
                                : args.attrs.Ints("shape")[at];
  }
  for (const Shape& side : {args.shape(0), other}) {
    const int64_t plane = PlaneOf(side);
    if (plane >= kMaxReach) {
      return StrCat("the spatial axes of ", side.ToString(), " have ", plane,
                    " elements; expected fewer than ", kMaxReach);
    }
  }
  return "";
}

}  // namespace

namespace kernels {

constinit const GpuKernel MaxPool = {.enqueue = Enqueue<Kind::kMax>,
                                     .excess = Excess};
constinit const GpuKernel MaxPoolGrad = {.enqueue = Enqueue<Kind::kMaxGrad>,
                                         .excess = Excess};
constinit const GpuKernel AvgPool = {.enqueue = Enqueue<Kind::kAvg>,
                                     .excess = Excess};
constinit const GpuKernel AvgPoolGrad = {.enqueue = Enqueue<Kind::kAvgGrad>,
                                         .excess = Excess};

constinit const GpuKernel Resize = {.enqueue = Enqueue<false>,
                                    .excess = ResizeExcess};
constinit const GpuKernel ResizeGrad = {.enqueue = Enqueue<true>,
                                        .excess = ResizeExcess};

}  // namespace kernels
}  // namespace stowage::gpu
