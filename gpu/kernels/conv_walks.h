#ifndef STOWAGE_GPU_KERNELS_CONV_WALKS_H_
#define STOWAGE_GPU_KERNELS_CONV_WALKS_H_

// Where the elements of a convolution's result meet those of its source, on the device.
//
// A result's element meets the source in taps, one for each element of the kernel that
// it is multiplied by. Along a dimension places are linear in element and tap. With a
// stride, the result of conv_transpose falls into phases, elements whose place leaves
// the same rest by the stride: these meet the same elements of the kernel, at
// neighbouring places of the source, so that none of their products is with a zero
// between.
//
//   const ConvPart<kTransposed> part(shapes, phase);
//   const Place element = part.walks.Element(i), tap = part.walks.Tap(t);
//   const int meet = part.walks.Meet(element, tap);
//   if (meet >= 0) sum += channel[meet] * ...

#include <cstdint>

#include "gpu/simt.h"
#include "ir/windows.h"

namespace stowage::gpu {

/// A ConvDim and a ConvGeometry, in numbers of 32 bits.
struct ConvAxis {
  int in, out, kernel, stride, dilation, before;
};
struct ConvShapes {
  int64_t images;
  int groups, channels, filters;  // of one group: of x, of y
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

/// How the elements of a result, along one dimension, meet those of a source:
// element i and tap t meet at first + i * step + t * tap_step, if that is in
// [0, size). The element lies at to_first + i * to_step, the tap is element
// kernel_first + t * kernel_step of the kernel.
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

/// y's elements over x.
STOWAGE_DEVICE Walk ForwardWalk(const ConvAxis& dim) {
  return {dim.out, dim.kernel, -dim.before, dim.stride, dim.dilation,
          dim.in,  0,          1,           0,          1};
}

/// x's elements of a phase over dy: they meet the kernel's elements k for which
// phase + before - k * dilation divides by the stride.
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

/// A place along the three dimensions.
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

  // Where an element and a tap meet, in a channel of the source; below 0 where
  // they do not.
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

/// What a block has to do: a phase of a conv_transpose, or a conv.
template <bool kTransposed>
struct ConvPart {
  ConvPart() = default;
  Walks walks;
  int rows, depth_channels;  // of a group: of the result, of the source
  int to_size, source_size;  // of a channel

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

  // Of the result, the element in its channel.
  STOWAGE_DEVICE int ToPlace(const ConvShapes& s, int element) const {
    const Place at = walks.Element(element);
    const int h_size = kTransposed ? s.h.in : s.h.out;
    const int w_size = kTransposed ? s.w.in : s.w.out;
    return ((walks.d.to_first + at.d * walks.d.to_step) * h_size +
            walks.h.to_first + at.h * walks.h.to_step) *
               w_size +
           walks.w.to_first + at.w * walks.w.to_step;
  }

  // The filter between row `row` of a group and channel `channel` of the source.
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

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_CONV_WALKS_H_
