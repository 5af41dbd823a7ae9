#ifndef STOWAGE_CPU_KERNELS_CONV_WALKS_H_
#define STOWAGE_CPU_KERNELS_CONV_WALKS_H_

// Maps the elements of a convolution's result to the source elements that they read (Walk), and
// rearranges source elements so that registers can load them (Slab). The CPU kernels of conv,
// conv_transpose and conv_weight_grad use both. A tap is an element of the kernel, and the source
// is the tensor that a convolution reads: x for conv and dy for conv_transpose.
//
// A Walk describes the mapping along one dimension. conv and conv_transpose are both loops over
// three Walks. If conv_transpose has a stride, its result is divided into phases. A phase consists
// of the elements whose indices have the same remainders modulo the stride. They all use the same
// kernel elements, and adjacent elements of a phase read adjacent source elements. A phase is
// therefore described by one Walk per dimension, whose step in the source is 1.
//
//   ForPhases(g, [&](const Walks& walks) { ... });

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/vec.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Maps elements of the result and taps to source indices, along one dimension. For tap t, element
/// i reads index first + i * step + t * tap_step if it is in [0, size). Other indices are padding.
struct Walk {
  int64_t count = 1, taps = 1;
  int64_t first = 0, step = 1, tap_step = 1, size = 1;
  // Element i of the walk has index to_first + i * to_step in the result, whose size is to_size.
  // Tap t has index kernel_first + t * kernel_step in the kernel.
  int64_t to_first = 0, to_step = 1, to_size = 1;
  int64_t kernel_first = 0, kernel_step = 1;
};
using Walks = std::array<Walk, kConvDims>;

inline int64_t Product(const Walks& walks, int64_t Walk::*size) {
  int64_t product = 1;
  for (const Walk& walk : walks) product *= walk.*size;
  return product;
}

/// Returns the geometry of a convolution with these shapes, which must satisfy the precondition of
/// ConvGeometry. If each element reads only the source element at its own index in two adjacent
/// dimensions, these are merged into one. Each channel of a 1 x 1 convolution without stride and
/// padding is therefore a single line.
inline ConvGeometry GeometryOf(const Shape& x, const Shape& w, const Shape& y,
                               const Attrs& attrs) {
  ConvGeometry g(x, w, y, attrs);
  const auto meets_itself = [](const ConvDim& dim) {
    return dim.kernel == 1 && dim.stride == 1 && dim.before == 0 &&
           dim.in == dim.out;
  };
  for (size_t i = g.dims.size() - 1; i > 0; --i) {
    ConvDim& outer = g.dims[i - 1];
    ConvDim& inner = g.dims[i];
    if (!meets_itself(outer) || !meets_itself(inner)) continue;
    inner.in = inner.out = inner.in * outer.in;
    outer.in = outer.out = 1;
  }
  return g;
}

/// Returns the walks that compute y from the source x.
inline Walks ForwardWalks(const ConvGeometry& g) {
  Walks walks;
  for (size_t i = 0; i < walks.size(); ++i) {
    const ConvDim& dim = g.dims[i];
    walks[i] = {.count = dim.out,
                .taps = dim.kernel,
                .first = -dim.before,
                .step = dim.stride,
                .tap_step = dim.dilation,
                .size = dim.in,
                .to_size = dim.out};
  }
  return walks;
}

/// Returns the walk that computes, from the source dy, the elements of x whose indices are equal to
/// `phase` modulo the stride. These elements use each kernel element k for which the stride divides
/// phase + before - k * dilation.
inline Walk BackwardWalk(const ConvDim& dim, int64_t phase) {
  const int64_t common = std::gcd(dim.dilation, dim.stride);
  const int64_t period = dim.stride / common;
  int64_t k = 0;
  while (k < std::min(period, dim.kernel) &&
         (phase + dim.before - k * dim.dilation) % dim.stride != 0) {
    ++k;
  }
  const bool met = k < std::min(period, dim.kernel);
  return {
      .count = CeilDiv(dim.in - phase, dim.stride),
      .taps = met ? CeilDiv(dim.kernel - k, period) : 0,
      .first = met ? (phase + dim.before - k * dim.dilation) / dim.stride : 0,
      .step = 1,
      .tap_step = -dim.dilation / common,
      .size = dim.out,
      .to_first = phase,
      .to_step = dim.stride,
      .to_size = dim.in,
      .kernel_first = k,
      .kernel_step = period};
}

/// Returns the number of phases with at least one element along a dimension.
inline int64_t Phases(const ConvDim& dim) {
  return std::min(dim.stride, dim.in);
}

/// Calls f(walks) for each phase of x.
template <typename F>
void ForPhases(const ConvGeometry& g, F&& f) {
  Walks walks;
  for (int64_t d = 0; d < Phases(g.dims[0]); ++d) {
    walks[0] = BackwardWalk(g.dims[0], d);
    for (int64_t h = 0; h < Phases(g.dims[1]); ++h) {
      walks[1] = BackwardWalk(g.dims[1], h);
      for (int64_t w = 0; w < Phases(g.dims[2]); ++w) {
        walks[2] = BackwardWalk(g.dims[2], w);
        f(walks);
      }
    }
  }
}

/// Returns whether, in every dimension, element i reads only element i of the source.
inline bool MeetThemselves(const Walks& walks) {
  return std::all_of(walks.begin(), walks.end(), [](const Walk& walk) {
    return walk.taps == 1 && walk.step == 1 && walk.first == 0 &&
           walk.count == walk.size;
  });
}

/// Returns whether each channel of the source is a single line (see GeometryOf), and each result
/// element reads only the source element at its own index.
inline bool AreLongLines(const Walks& walks) {
  return MeetThemselves(walks) && walks[0].count == 1 && walks[1].count == 1;
}

/// The indices of an element along the three walks, and its image.
struct Cursor {
  int64_t image, d, h, w;

  Cursor(const Walks& walks, int64_t element)
      : image(element / Product(walks, &Walk::count)),
        d(element / (walks[1].count * walks[2].count) % walks[0].count),
        h(element / walks[2].count % walks[1].count),
        w(element % walks[2].count) {}

  // Moves to the start of the next line.
  void NextLine(const Walks& walks) {
    w = 0;
    if (++h < walks[1].count) return;
    h = 0;
    if (++d < walks[0].count) return;
    d = 0;
    ++image;
  }
};

/// The indices of a tap along the three walks.
struct Tap {
  int64_t d, h, w;

  Tap(const Walks& walks, int64_t tap)
      : d(tap / (walks[1].taps * walks[2].taps)),
        h(tap / walks[2].taps % walks[1].taps),
        w(tap % walks[2].taps) {}

  void Next(const Walks& walks) {
    if (++w < walks[2].taps) return;
    w = 0;
    if (++h < walks[1].taps) return;
    h = 0;
    ++d;
  }
};

/// Returns the index in the kernel of a tap of the walks.
inline int64_t KernelPlace(const ConvGeometry& g, const Walks& walks,
                           const Tap& tap) {
  const int64_t at[] = {tap.d, tap.h, tap.w};
  int64_t place = 0;
  for (size_t i = 0; i < walks.size(); ++i) {
    place = place * g.dims[i].kernel + walks[i].kernel_first +
            at[i] * walks[i].kernel_step;
  }
  return place;
}

/// The size of a register in bytes.
inline constexpr int64_t kRegisterBytes = Vec<float>::kLanes * sizeof(float);

/// Copies n elements from `from` to `to`. May write unspecified elements after them, up to one
/// register. Does not read at or beyond `end`.
template <typename T>
void CopyBeyond(const T* from, const T* end, int64_t n, T* to) {
  constexpr int64_t kCount = kRegisterBytes / sizeof(T);
  int64_t i = 0;
  for (; i < n && from + i + kCount <= end; i += kCount) {
    std::memcpy(to + i, from + i, kRegisterBytes);
  }
  for (; i < n; ++i) to[i] = from[i];
}

/// Copies `count` elements of a line to `to`. They start at index `place` of the line and are
/// `step` apart. Elements at indices outside [0, size) are 0. May write unspecified elements after
/// them, up to one register, and does not read at or beyond `end`.
template <typename T>
void GatherLine(const T* line, const T* end, int64_t place, int64_t step,
                int64_t size, int64_t count, T* to) {
  // The indices [begin, stop) of the copy are inside the line.
  int64_t begin = 0;
  int64_t stop = count;
  if (place < 0) begin = std::min(count, CeilDiv(-place, step));
  if (place + (count - 1) * step >= size) {
    stop = std::max(begin, place < size ? CeilDiv(size - place, step) : 0);
  }
  for (int64_t i = 0; i < begin; ++i) to[i] = T(0);
  const T* from = line + place;
  if (step == 1) {
    CopyBeyond(from + begin, end, stop - begin, to + begin);
  } else if (step == 2) {
    for (int64_t i = begin; i < stop; ++i) to[i] = from[2 * i];
  } else {
    for (int64_t i = begin; i < stop; ++i) to[i] = from[i * step];
  }
  for (int64_t i = stop; i < count; ++i) to[i] = T(0);
}

/// The layout of one channel of a source as lines that are padded with zeros. In each dimension,
/// the elements are divided into phases by their index modulo the walk's step, so that the elements
/// that a tap reads for adjacent results are adjacent. If taps are so far apart that the phases
/// would have more elements than the taps read, each tap has its own phase with only the elements
/// that it reads. For result (d, h, w), tap t reads the element at Position(d, h, w) + Offset(t).
/// Lines of the slab may be longer than lines of the result. A loop over all positions then also
/// computes elements that belong to no result.
class Slab {
 public:
  explicit Slab(const Walks& walks) : walks_(walks) {
    for (size_t i = 0; i < walks.size(); ++i) {
      const Walk& walk = walks[i];
      const int64_t reach =
          std::max<int64_t>(0, walk.taps - 1) * std::abs(walk.tap_step);
      lowest_[i] = walk.tap_step < 0 ? -reach : 0;
      phases_[i] = std::min(walk.step, reach + 1);
      length_[i] = walk.count + reach / walk.step;
      by_tap_[i] =
          walk.taps > 1 && walk.taps * walk.count < phases_[i] * length_[i];
      if (by_tap_[i]) {
        phases_[i] = walk.taps;
        length_[i] = walk.count;
      }
    }
  }

  /// Returns the number of elements of all phases. One more register must be allocated, because
  /// Fill writes, and registers of the last results read, beyond the end.
  int64_t size() const {
    return phases_[0] * phases_[1] * phases_[2] * phase_size();
  }
  int64_t Position(int64_t d, int64_t h, int64_t w) const {
    return (d * length_[1] + h) * length_[2] + w;
  }
  /// Returns 1 + the Position of the last result.
  int64_t positions() const {
    return Position(walks_[0].count - 1, walks_[1].count - 1,
                    walks_[2].count - 1) +
           1;
  }
  int64_t Offset(const Tap& tap) const {
    const int64_t taps[] = {tap.d, tap.h, tap.w};
    int64_t phase = 0;
    int64_t place = 0;
    for (size_t i = 0; i < walks_.size(); ++i) {
      const int64_t at = taps[i] * walks_[i].tap_step - lowest_[i];
      phase = phase * phases_[i] + (by_tap_[i] ? taps[i] : at % walks_[i].step);
      place = place * length_[i] + (by_tap_[i] ? 0 : at / walks_[i].step);
    }
    return phase * phase_size() + place;
  }

  /// Fills the slab from the channel at `source`, which is part of a tensor that ends at `end`.
  template <typename T>
  void Fill(const T* source, const T* end, T* slab) const {
    for (int64_t phase_d = 0; phase_d < phases_[0]; ++phase_d) {
      for (int64_t phase_h = 0; phase_h < phases_[1]; ++phase_h) {
        for (int64_t phase_w = 0; phase_w < phases_[2]; ++phase_w) {
          FillPhase(source, end, phase_d, phase_h, phase_w, slab);
          slab += phase_size();
        }
      }
    }
  }

 private:
  int64_t phase_size() const { return length_[0] * length_[1] * length_[2]; }
  int64_t Place(size_t i, int64_t phase, int64_t at) const {
    const int64_t start =
        by_tap_[i] ? phase * walks_[i].tap_step : lowest_[i] + phase;
    return walks_[i].first + start + at * walks_[i].step;
  }

  template <typename T>
  void FillPhase(const T* source, const T* end, int64_t phase_d,
                 int64_t phase_h, int64_t phase_w, T* to) const {
    for (int64_t i = 0; i < length_[0]; ++i) {
      const int64_t d = Place(0, phase_d, i);
      for (int64_t j = 0; j < length_[1]; ++j) {
        const int64_t h = Place(1, phase_h, j);
        if (d < 0 || d >= walks_[0].size || h < 0 || h >= walks_[1].size) {
          std::fill_n(to, length_[2], T(0));
        } else {
          GatherLine(source + (d * walks_[1].size + h) * walks_[2].size, end,
                     Place(2, phase_w, 0), walks_[2].step, walks_[2].size,
                     length_[2], to);
        }
        to += length_[2];
      }
    }
  }

  Walks walks_;
  std::array<int64_t, kConvDims> lowest_, phases_, length_;
  std::array<bool, kConvDims> by_tap_;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_WALKS_H_
