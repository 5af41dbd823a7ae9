#ifndef STOWAGE_CPU_KERNELS_CONV_GATHER_H_
#define STOWAGE_CPU_KERNELS_CONV_GATHER_H_

// conv and conv_transpose as a matmul of which one operand is gathered from an image
// (convolution.cc): its shape, where columns that are neighbours lie, and where results go.
//
//   const Bands bands = GatherBands(g, walks, channels, /*strip=*/32);
//   const int64_t count = FindRuns(band, slab, slab.size(), column, n, runs);

#include <algorithm>
#include <cstdint>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/gemm.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Rows of a task.
inline constexpr int64_t kMaxConvRows = 256;

/// A matmul whose columns are gathered: for every group,
/// to (rows, elements) = filters (rows, channels * taps) times the gathered.
template <typename T>
struct GatheredProduct {
  const ConvGeometry& g;
  Walks walks;
  const T* source;
  const T* source_end;
  int64_t channels, rows;  // of a group
  Strided<T> filters;      // of group 0
  int64_t filters_stride;  // to the next group's
  T* to;

  int64_t taps() const { return Product(walks, &Walk::taps); }
  int64_t depth() const { return channels * taps(); }
};

/// Its columns, cut into bands of up to eight strips of so many columns.
inline Bands GatherBands(const ConvGeometry& g, const Walks& walks,
                         int64_t channels, int64_t strip) {
  return Bands(walks, g.images, channels, 8 * strip, strip);
}

/// Neighbours among columns that are neighbours in a slab.
struct Run {
  int64_t from, to, count;
};

/// Those of columns [column, column + n) of a band, where an image's slab lies
/// `image_size` behind the one before; their number.
inline int64_t FindRuns(const Band& band, const Slab& slab, int64_t image_size,
                        int64_t column, int64_t n, Run* runs) {
  const Run* const first = runs;
  Cursor at(band.walks, column);
  for (int64_t done = 0; done < n; at.NextLine(band.walks)) {
    const int64_t count = std::min(n - done, band.walks[2].count - at.w);
    *runs++ = {at.image * image_size + slab.Position(at.d, at.h, at.w), done,
               count};
    done += count;
  }
  return runs - first;
}

/// From a strip of results, in rows of `pitch`, to their places.
template <typename T>
void Scatter(const GatheredProduct<T>& product, const Band& band,
             int64_t first_channel, int64_t rows, int64_t column, int64_t n,
             const T* results, int64_t pitch) {
  const Walks& walks = band.walks;
  const int64_t channel_size = Product(walks, &Walk::to_size);
  Cursor at(walks, column);
  for (int64_t done = 0; done < n; at.NextLine(walks)) {
    const int64_t count = std::min(n - done, walks[2].count - at.w);
    const int64_t d = walks[0].to_first + at.d * walks[0].to_step;
    const int64_t h = walks[1].to_first + at.h * walks[1].to_step;
    const int64_t w = walks[2].to_first + at.w * walks[2].to_step;
    const int64_t step = walks[2].to_step;
    const int64_t all_channels = product.g.groups * product.rows;
    T* to = product.to +
            ((band.first_image + at.image) * all_channels + first_channel) *
                channel_size +
            (d * walks[1].to_size + h) * walks[2].to_size + w;
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = results + row * pitch + done;
      T* line = to + row * channel_size;
      if (step == 1) {
        std::copy_n(from, count, line);
      } else {
        for (int64_t i = 0; i < count; ++i) line[i * step] = from[i];
      }
    }
    done += count;
  }
}

/// The filters that a phase needs, for group after group: rows are x's channels,
/// columns (filter, tap). Both are taken a few at a time, so that lines of the
/// cache are used while they are there. `places`, which it fills, has room for all taps.
template <typename T>
void PackFilters(const ConvGeometry& g, const Walks& walks, const T* w,
                 int64_t* places, T* packed, ThreadPool& pool) {
  constexpr int64_t kBlock = 16;
  const int64_t taps = Product(walks, &Walk::taps);
  const int64_t kernel = g.kernel_size();
  const int64_t blocks = CeilDiv(g.channels, kBlock);
  Tap tap(walks, 0);
  for (int64_t t = 0; t < taps; ++t) {
    places[t] = KernelPlace(g, walks, tap);
    tap.Next(walks);
  }
  pool.ParallelFor(g.groups * blocks, [&](int64_t task, int) {
    const int64_t group = task / blocks;
    const int64_t begin = task % blocks * kBlock;
    const int64_t end = std::min(g.channels, begin + kBlock);
    const T* from = w + group * g.filters * g.channels * kernel;
    T* to = packed + group * g.channels * g.filters * taps;
    for (int64_t first = 0; first < g.filters; first += kBlock) {
      const int64_t last = std::min(g.filters, first + kBlock);
      for (int64_t c = begin; c < end; ++c) {
        T* line = to + (c * g.filters + first) * taps;
        for (int64_t f = first; f < last; ++f) {
          const T* filter = from + (f * g.channels + c) * kernel;
          for (int64_t t = 0; t < taps; ++t) *line++ = filter[places[t]];
        }
      }
    }
  });
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_GATHER_H_
