#ifndef STOWAGE_GPU_KERNELS_CONV_MEETINGS_H_
#define STOWAGE_GPU_KERNELS_CONV_MEETINGS_H_

// The same as ConvPart's walks (gpu/kernels/conv_walks.h), worked out in advance, so
// that an element of the source takes an addition and a test for its address.
//
// A place in the source is the sum of what the element of the result says and what the
// tap says. Whether it is inside is told by bits, one for each tap along each
// dimension: an element has those set along which it would be outside, a tap has its
// three.
//
//   const ElementPlace element = PlaceOfElement(walks, i);
//   const TapPlace tap = PlaceOfTap(walks, t);
//   if ((element.outside & tap.bits) == 0) sum += channel[element.at + tap.at] * ...

#include <cstdint>

#include "gpu/kernels/conv_walks.h"
#include "gpu/simt.h"

namespace stowage::gpu {

/// The bit that every element has set: a tap with it is met by none.
inline constexpr uint32_t kNowhere = uint32_t{1} << 31;

struct ElementPlace {
  int64_t at;
  uint32_t outside;
};
struct TapPlace {
  int at;
  uint32_t bits;
};

/// Whether bits and places have room for a convolution. Host code.
inline bool HasPlaces(const ConvGeometry& g) {
  int64_t taps = 0;
  double farthest = 0;
  double in = 1, out = 1;  // elements of the dimensions behind
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
  // nvcc 13.0 marks a step that only the loop uses as a load's unused bytes.
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

#endif  // STOWAGE_GPU_KERNELS_CONV_MEETINGS_H_
