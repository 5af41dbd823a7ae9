// resize and its gradient: a thread for each element of the result, which adds up
// what it is made of, in a fixed order. A plane is what the spatial axes span, for
// one example and channel.

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"
#include "math/resampling.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

struct ResizeParams {
  const std::byte* from;
  std::byte* to;
  math::ResampledAxis z_axis, y_axis, x_axis;
  Divisor width, height, depth;  // of the result
  uint32_t count;                // elements of the result
  int64_t from_plane;            // elements
  float z_rate, y_rate, x_rate;  // 1 / den
};

// Of an axis of dy.
struct Range {
  int32_t first, end;
};

struct Spot {
  int32_t plane, z, y, x;
};

STOWAGE_DEVICE bool Find(const ResizeParams& p, uint32_t* unit, Spot* spot) {
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

// The weight of the first neighbour or of the second.
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

// One loop over what would be three: threads that leave nested loops at different
// times cost more registers than there are.
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
  // As many at a time as 32 bits can number the elements of.
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

// Places in a plane are 32-bit numbers, on either side.
std::string Excess(const OpArgs& args) {
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

constinit const GpuKernel Resize = {.enqueue = Enqueue<false>,
                                    .excess = Excess};
constinit const GpuKernel ResizeGrad = {.enqueue = Enqueue<true>,
                                        .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
