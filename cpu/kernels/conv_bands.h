#ifndef STOWAGE_CPU_KERNELS_CONV_BANDS_H_
#define STOWAGE_CPU_KERNELS_CONV_BANDS_H_

// Divides the result of a convolution into bands. Also provides the steps that conv and
// conv_transpose share when they are computed as a matmul whose right operand is gathered from the
// source, one band at a time. conv_walks.h explains walks, slabs and taps.
//
// A band is a set of elements of the result that a task computes together. It is small enough that
// the source elements that its elements read fit a cache.
//
//   const Bands bands = GatherBands(g, walks, channels, /*strip=*/32);
//   for (int64_t i = 0; i < bands.count(); ++i) Work(bands.At(i));

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/gemm.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// A band: one or more whole images, one or more lines of an image, or a segment of a line.
struct Band {
  Walks walks;  // The walks of the band's elements.
  int64_t first_image, images;

  int64_t columns() const { return images * Product(walks, &Walk::count); }
  /// Returns the index of the band's first element in a channel of the result.
  int64_t to_first() const {
    return (walks[0].to_first * walks[1].to_size + walks[1].to_first) *
               walks[2].to_size +
           walks[2].to_first;
  }
  /// Returns whether the elements of one image in the band are contiguous in a channel of the
  /// result.
  bool in_order() const {
    const bool lines_are_whole =
        walks[1].to_step == 1 && walks[2].count == walks[2].to_size;
    return Product(walks, &Walk::count) == Product(walks, &Walk::to_size) ||
           (walks[0].count == 1 && walks[2].to_step == 1 &&
            (walks[1].count == 1 || lines_are_whole));
  }
};

/// Divides the columns of the matmul into bands. A column is an element of the result in all
/// channels. Columns are ordered by image, and then by element. A band has at most `most` columns,
/// and fewer if its slabs in `channels` channels would otherwise have more than 2^18 elements. The
/// number of columns is a multiple of `unit` if the lengths of lines and this limit allow it.
class Bands {
 public:
  Bands(const Walks& walks, int64_t images, int64_t channels, int64_t most,
        int64_t unit)
      : walks_(walks), images_(images) {
    // The maximum number of elements in the slabs of a band, which hold the source elements that it
    // reads.
    constexpr int64_t kMaxElements = 1 << 18;
    const auto fit = [&](int64_t size, int64_t there_are) {
      int64_t fitting = std::min(there_are, most / size);
      const int64_t whole = unit / std::gcd(unit, size);
      if (fitting > whole) fitting -= fitting % whole;
      return std::max<int64_t>(1, fitting);
    };
    const int64_t elements = Product(walks, &Walk::count);
    if (elements <= most) {
      cut_ = Cut::kImages;
      at_once_ = fit(elements, images);
    } else if (walks[2].count <= most) {
      cut_ = Cut::kLines;
      at_once_ = fit(walks[2].count, walks[1].count);
    } else {
      cut_ = Cut::kInLines;
      at_once_ = fit(1, walks[2].count);
    }
    while (at_once_ > 1 && channels * SlabElements() > kMaxElements) {
      at_once_ = CeilDiv(at_once_, 2);
    }
    if (cut_ != Cut::kImages) {
      pieces_ = CeilDiv(walks[cut_ == Cut::kLines ? 1 : 2].count, at_once_);
    }
  }

  /// Returns the maximum number of columns in a band.
  int64_t columns() const { return First().columns(); }
  /// Returns the maximum number of elements in one channel's slabs.
  int64_t SlabElements() const {
    const Band first = First();
    return first.images * Slab(first.walks).size();
  }

  int64_t count() const {
    if (cut_ == Cut::kImages) return CeilDiv(images_, at_once_);
    return images_ * walks_[0].count * Rows() * pieces_;
  }
  Band At(int64_t i) const {
    if (cut_ == Cut::kImages) {
      const int64_t first = i * at_once_;
      return {walks_, first, std::min(at_once_, images_ - first)};
    }
    const int64_t begin = i % pieces_ * at_once_;
    i /= pieces_;
    Band band = {walks_, i / Rows() / walks_[0].count, 1};
    Keep(&band.walks[0], i / Rows() % walks_[0].count, 1);
    if (cut_ == Cut::kLines) {
      Keep(&band.walks[1], begin, at_once_);
    } else {
      Keep(&band.walks[1], i % Rows(), 1);
      Keep(&band.walks[2], begin, at_once_);
    }
    return band;
  }

 private:
  enum class Cut { kImages, kLines, kInLines };

  Band First() const {
    Band band = {walks_, 0, 1};
    if (cut_ == Cut::kImages) {
      band.images = at_once_;
      return band;
    }
    band.walks[0].count = 1;
    if (cut_ == Cut::kInLines) band.walks[1].count = 1;
    band.walks[cut_ == Cut::kLines ? 1 : 2].count = at_once_;
    return band;
  }
  // Returns the number of lines of a plane that are divided separately, which is 1 if lines are not
  // divided.
  int64_t Rows() const { return cut_ == Cut::kInLines ? walks_[1].count : 1; }
  // Restricts a walk to at most `count` elements, starting at element `begin`.
  static void Keep(Walk* walk, int64_t begin, int64_t count) {
    walk->first += begin * walk->step;
    walk->to_first += begin * walk->to_step;
    walk->count = std::min(count, walk->count - begin);
  }

  Walks walks_;
  int64_t images_;
  Cut cut_;
  int64_t at_once_;     // Images, lines or elements per band.
  int64_t pieces_ = 1;  // Bands per plane or line.
};

/// Fills the slabs of a band for channels [first, first + channels) of the source, which has `all`
/// channels. Slabs are ordered by channel, and then by image. Filling a slab may write up to one
/// register beyond its end. Sets `offsets` to the offset of each tap in a slab.
template <typename T>
void FillSlabs(const Band& band, const Slab& slab, const T* source,
               const T* source_end, int64_t first, int64_t channels,
               int64_t all, int64_t* offsets, T* slabs) {
  const int64_t taps = Product(band.walks, &Walk::taps);
  if (taps == 0) return;
  Tap tap(band.walks, 0);
  for (int64_t t = 0; t < taps; ++t) {
    offsets[t] = slab.Offset(tap);
    tap.Next(band.walks);
  }
  const int64_t size = Product(band.walks, &Walk::size);
  const bool is_copy = MeetThemselves(band.walks);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t image = 0; image < band.images; ++image) {
      const T* from =
          source + ((band.first_image + image) * all + first + c) * size;
      if (is_copy) {
        CopyBeyond(from, source_end, size, slabs);
      } else {
        slab.Fill(from, source_end, slabs);
      }
      slabs += slab.size();
    }
  }
}

/// The maximum number of rows in a task of a GatheredProduct.
inline constexpr int64_t kMaxConvRows = 256;

/// A convolution as a matmul with a gathered operand. For each group, `to` (rows, elements) is the
/// matmul of `filters` (rows, channels * taps) and the gathered source elements (channels * taps,
/// elements).
template <typename T>
struct GatheredProduct {
  const ConvGeometry& g;
  Walks walks;
  const T* source;
  const T* source_end;
  int64_t channels, rows;  // The source's channels and the result's, per group.
  Strided<T> filters;      // The filters of group 0.
  int64_t filters_stride;  // The distance between the filters of two groups.
  T* to;

  int64_t taps() const { return Product(walks, &Walk::taps); }
  int64_t depth() const { return channels * taps(); }
};

/// Divides the columns of a GatheredProduct into bands of up to eight strips. A strip has `strip`
/// columns.
inline Bands GatherBands(const ConvGeometry& g, const Walks& walks,
                         int64_t channels, int64_t strip) {
  return Bands(walks, g.images, channels, 8 * strip, strip);
}

/// A range of `count` columns of a strip, starting at column `to`, whose source elements for a tap
/// are adjacent in the slabs. They start at index `from` plus the offset of the tap.
struct Run {
  int64_t from, to, count;
};

/// Divides columns [column, column + n) of a band into runs. The slabs of two images are
/// `image_size` elements apart. Writes the runs to `runs`, at most n, with `to` counted from
/// `column`. Returns their number.
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

/// Copies the results of a strip to `product.to`. The strip has columns [column, column + n) of the
/// band and `rows` channels from `first_channel` on. `results` has a row for each channel, and rows
/// are `pitch` elements apart.
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

/// Packs the filters that a phase of conv_transpose uses, group by group, as matrices whose rows
/// are the channels of x and whose columns are (filter, tap) pairs. Small blocks of rows and
/// columns are packed one after another, to use the cache well. Sets `places`, which has one
/// element per tap, to the indices of the taps in the kernel.
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

#endif  // STOWAGE_CPU_KERNELS_CONV_BANDS_H_
