#ifndef STOWAGE_GPU_KERNELS_CONV_WALKS_H_
#define STOWAGE_GPU_KERNELS_CONV_WALKS_H_

// Maps the elements of a convolution's result to the source elements that they read, in device
// code. The source is x for conv and dy for conv_transpose.
//
// A tap is one element of the convolution kernel. Each element of the result reads one element of
// the source per tap. Along each dimension, the index in the source is linear in the element and in
// the tap. If conv_transpose has a stride, the elements of its result are divided into phases. The
// elements of a phase have indices with the same remainders modulo the stride. They use the same
// elements of the kernel, and adjacent elements of a phase read adjacent source elements. No
// multiplication is therefore spent on the zeros that a stride inserts.
//
//   const ConvPart<kTransposed> part(shapes, phase);
//   const Place element = part.walks.Element(i), tap = part.walks.Tap(t);
//   const int meet = part.walks.Meet(element, tap);
//   if (meet >= 0) sum += channel[meet] * ...

#include <cstdint>

#include "gpu/simt.h"
#include "ir/windows.h"

namespace stowage::gpu {

/// ConvAxis and ConvShapes have the fields of ConvDim and ConvGeometry (ir/windows.h), nearly all
/// as 32-bit integers.
struct ConvAxis {
  int in, out, kernel, stride, dilation, before;
};
struct ConvShapes {
  int64_t images;
  int groups, channels, filters;  // channels of x and of y in one group
  int in_size, kernel_size, out_size;
  ConvAxis d, h, w;
};

inline ConvAxis ToConvAxis(const ConvDim& dim) {
  return {.in = static_cast<int>(dim.in),
          .out = static_cast<int>(dim.out),
          .kernel = static_cast<int>(dim.kernel),
          .stride = static_cast<int>(dim.stride),
          .dilation = static_cast<int>(dim.dilation),
          .before = static_cast<int>(dim.before)};
}
inline ConvShapes ToConvShapes(const ConvGeometry& g) {
  return {.images = g.images,
          .groups = static_cast<int>(g.groups),
          .channels = static_cast<int>(g.channels),
          .filters = static_cast<int>(g.filters),
          .in_size = static_cast<int>(g.in_size()),
          .kernel_size = static_cast<int>(g.kernel_size()),
          .out_size = static_cast<int>(g.out_size()),
          .d = ToConvAxis(g.dims[0]),
          .h = ToConvAxis(g.dims[1]),
          .w = ToConvAxis(g.dims[2])};
}

/// Maps elements of the result and taps to source indices, along one dimension. For tap `t`,
/// element `i` reads index `first + i * step + t * tap_step` of the source if it is in [0, size).
/// Element `i` of the walk has index `to_first + i * to_step` in the result. Tap `t` is element
/// `kernel_first + t * kernel_step` of the convolution kernel.
struct Walk {
  int count, taps;
  int first, step, tap_step, size;
  int to_first, to_step;
  int kernel_first, kernel_step;

  STOWAGE_DEVICE int Place(int element, int tap) const {
    return first + element * step + tap * tap_step;
  }
  STOWAGE_DEVICE bool Has(int place) const {
    return place >= 0 && place < size;
  }
};

/// Returns the walk of conv along a dimension, in which elements of y read x.
STOWAGE_DEVICE Walk ForwardWalk(const ConvAxis& dim) {
  return {dim.out, dim.kernel, -dim.before, dim.stride, dim.dilation,
          dim.in,  0,          1,           0,          1};
}

/// Returns the walk of conv_transpose along a dimension, in which the elements of x in one phase
/// read dy. They use the elements `k` of the convolution kernel for which the stride divides `phase
/// + before - k * dilation`.
STOWAGE_DEVICE Walk BackwardWalk(const ConvAxis& dim, int phase) {
  int common = dim.dilation;
  for (int rest = dim.stride; rest != 0;) {
    const int next = common % rest;
    common = rest;
    rest = next;
  }
  const int period = dim.stride / common;
  const int limit = period < dim.kernel ? period : dim.kernel;
  int k = 0;
  while (k < limit &&
         (phase + dim.before - int64_t{k} * dim.dilation) % dim.stride != 0) {
    ++k;
  }
  const int64_t first =
      (phase + dim.before - int64_t{k} * dim.dilation) / dim.stride;
  return {(dim.in - phase + dim.stride - 1) / dim.stride,
          k < limit ? (dim.kernel - k + period - 1) / period : 0,
          static_cast<int>(first),
          1,
          -(dim.dilation / common),
          dim.out,
          phase,
          dim.stride,
          k,
          period};
}

/// A position in the three spatial dimensions.
struct Place {
  int d, h, w;
};
STOWAGE_DEVICE Place PlaceOf(int i, int h_size, int w_size) {
  return {i / (h_size * w_size), i / w_size % h_size, i % w_size};
}

struct Walks {
  Walk d, h, w;

  STOWAGE_DEVICE int elements() const { return d.count * h.count * w.count; }
  STOWAGE_DEVICE int taps() const { return d.taps * h.taps * w.taps; }
  STOWAGE_DEVICE Place Element(int i) const {
    return PlaceOf(i, h.count, w.count);
  }
  STOWAGE_DEVICE Place Tap(int t) const { return PlaceOf(t, h.taps, w.taps); }

  // Returns the index, in a channel of the source, that `element` reads for `tap`, or a negative
  // number if the index is outside the source.
  STOWAGE_DEVICE int Meet(const Place& element, const Place& tap) const {
    const int at_d = d.Place(element.d, tap.d);
    const int at_h = h.Place(element.h, tap.h);
    const int at_w = w.Place(element.w, tap.w);
    if (!d.Has(at_d) || !h.Has(at_h) || !w.Has(at_w)) return -1;
    return (at_d * h.size + at_h) * w.size + at_w;
  }
};

STOWAGE_DEVICE Walks ForwardWalks(const ConvShapes& s) {
  return {ForwardWalk(s.d), ForwardWalk(s.h), ForwardWalk(s.w)};
}

/// One phase of a conv_transpose, or a whole conv, which counts as phase 0. A block computes part
/// of one phase. One kernel launch computes all phases.
template <bool kTransposed>
struct ConvPart {
  ConvPart() = default;
  Walks walks;
  // The numbers of channels per group, in the result and in the source.
  int rows, depth_channels;
  int to_size, source_size;  // elements of a channel

  STOWAGE_DEVICE ConvPart(const ConvShapes& s, int phase)
      : walks(kTransposed ? WalksOf(s, phase) : ForwardWalks(s)),
        rows(kTransposed ? s.channels : s.filters),
        depth_channels(kTransposed ? s.filters : s.channels),
        to_size(kTransposed ? s.in_size : s.out_size),
        source_size(kTransposed ? s.out_size : s.in_size) {}

  static STOWAGE_DEVICE int PhasesOf(const ConvAxis& dim) {
    return dim.stride < dim.in ? dim.stride : dim.in;
  }
  static STOWAGE_DEVICE Walks WalksOf(const ConvShapes& s, int phase) {
    const Place at = PlaceOf(phase, PhasesOf(s.h), PhasesOf(s.w));
    return {BackwardWalk(s.d, at.d), BackwardWalk(s.h, at.h),
            BackwardWalk(s.w, at.w)};
  }

  // Returns the index of a result element in its channel.
  STOWAGE_DEVICE int ToPlace(const ConvShapes& s, int element) const {
    const Place at = walks.Element(element);
    const int h_size = kTransposed ? s.h.in : s.h.out;
    const int w_size = kTransposed ? s.w.in : s.w.out;
    return ((walks.d.to_first + at.d * walks.d.to_step) * h_size +
            walks.h.to_first + at.h * walks.h.to_step) *
               w_size +
           walks.w.to_first + at.w * walks.w.to_step;
  }

  // Returns the index in the filters of the weight for channel `row` of the result, channel
  // `channel` of the source and `tap`. The channels are counted within the group.
  STOWAGE_DEVICE int64_t Filter(const ConvShapes& s, int group, int row,
                                int channel, const Place& tap) const {
    const int filter = kTransposed ? channel : row;
    const int of_x = kTransposed ? row : channel;
    const int d = walks.d.kernel_first + tap.d * walks.d.kernel_step;
    const int h = walks.h.kernel_first + tap.h * walks.h.kernel_step;
    const int w = walks.w.kernel_first + tap.w * walks.w.kernel_step;
    return ((int64_t{group} * s.filters + filter) * s.channels + of_x) *
               s.kernel_size +
           (d * s.h.kernel + h) * s.w.kernel + w;
  }
};

// ElementPlace and TapPlace are precomputed source indices of a ConvPart. With them, a kernel finds
// the source element for a result element and a tap with one addition and one bit test.
//
// The index in the source is the sum of an offset that depends on the result element and an offset
// that depends on the tap. Two bit masks test whether it is inside the source. A mask has one bit
// for each index that a tap can have along each dimension. The mask of an element has the bits of
// the tap indices for which it would read outside the source. The mask of a tap has three bits, one
// per dimension.
//
//   const ElementPlace element = PlaceOfElement(walks, i);
//   const TapPlace tap = PlaceOfTap(walks, t);
//   if ((element.outside & tap.bits) == 0) sum += channel[element.at + tap.at] * ...

/// The bit that the masks of all elements have. If the mask of a tap has it, every element reads
/// outside the source for the tap.
inline constexpr uint32_t kNowhere = uint32_t{1} << 31;

struct ElementPlace {
  int64_t at;
  uint32_t outside;
};
struct TapPlace {
  int at;
  uint32_t bits;
};

/// Returns whether the bits of a mask and 32-bit offsets are sufficient for a convolution. Called
/// by host code.
inline bool HasPlaces(const ConvGeometry& g) {
  int64_t taps = 0;
  double farthest = 0;
  double in = 1, out = 1;  // the elements of the inner dimensions
  for (int i = kConvDims - 1; i >= 0; --i) {
    const ConvDim& dim = g.dims[static_cast<size_t>(i)];
    taps += dim.kernel;
    const double reach =
        static_cast<double>(dim.kernel) * static_cast<double>(dim.dilation);
    farthest += reach * (in > out ? in : out);
    in *= static_cast<double>(dim.in);
    out *= static_cast<double>(dim.out);
  }
  return taps <= 31 && farthest < 1 << 29;
}

namespace internal {

STOWAGE_DEVICE uint32_t OutsideAlong(const Walk& walk, int element) {
  uint32_t outside = 0;
  // If only the loop uses the step, nvcc 13.0 reports unused bytes of a load.
  const int step = NotInAdvance(walk.tap_step);
  int at = walk.Place(element, 0);
  for (int tap = 0; tap < walk.taps; ++tap) {
    if (!walk.Has(at)) outside |= uint32_t{1} << tap;
    at += step;
  }
  return outside;
}

}  // namespace internal

STOWAGE_DEVICE ElementPlace PlaceOfElement(const Walks& walks, int element) {
  const Place at = walks.Element(element);
  return {(int64_t{walks.d.Place(at.d, 0)} * walks.h.size +
           walks.h.Place(at.h, 0)) *
                  walks.w.size +
              walks.w.Place(at.w, 0),
          internal::OutsideAlong(walks.d, at.d) |
              internal::OutsideAlong(walks.h, at.h) << walks.d.taps |
              internal::OutsideAlong(walks.w, at.w)
                  << (walks.d.taps + walks.h.taps) |
              kNowhere};
}

STOWAGE_DEVICE TapPlace PlaceOfTap(const Walks& walks, int tap) {
  const Place at = walks.Tap(tap);
  return {(at.d * walks.d.tap_step * walks.h.size + at.h * walks.h.tap_step) *
                  walks.w.size +
              at.w * walks.w.tap_step,
          uint32_t{1} << at.d | uint32_t{1} << (walks.d.taps + at.h) |
              uint32_t{1} << (walks.d.taps + walks.h.taps + at.w)};
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_CONV_WALKS_H_
