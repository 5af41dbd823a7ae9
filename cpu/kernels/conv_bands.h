#ifndef STOWAGE_CPU_KERNELS_CONV_BANDS_H_
#define STOWAGE_CPU_KERNELS_CONV_BANDS_H_

// How the elements of a convolution's result are cut into what one task works on at a
// time: few enough that what they meet of a source fits a cache.
//
//   const Bands bands(walks, g.images, channels, /*most=*/128, /*unit=*/16);
//   for (int64_t i = 0; i < bands.count(); ++i) Work(bands.At(i));

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_walks.h"

namespace stowage::cpu {

/// What a task works on: some images, some lines of one, or part of a line.
struct Band {
  Walks walks;  // of its elements
  int64_t first_image, images;

  int64_t columns() const { return images * Product(walks, &Walk::count); }
  /// Where its first element lies in a channel of the result.
  int64_t to_first() const {
    return (walks[0].to_first * walks[1].to_size + walks[1].to_first) *
               walks[2].to_size +
           walks[2].to_first;
  }
  /// Whether its elements of one image are neighbours in the result.
  bool in_order() const {
    const bool lines_are_whole =
        walks[1].to_step == 1 && walks[2].count == walks[2].to_size;
    return Product(walks, &Walk::count) == Product(walks, &Walk::to_size) ||
           (walks[0].count == 1 && walks[2].to_step == 1 &&
            (walks[1].count == 1 || lines_are_whole));
  }
};

/// Cuts columns, the elements of all images in one run, into bands of at most `most`, a
/// multiple of `unit` where lines allow it.
class Bands {
 public:
  Bands(const Walks& walks, int64_t images, int64_t channels, int64_t most,
        int64_t unit)
      : walks_(walks), images_(images) {
    constexpr int64_t kMaxElements = 1 << 18;  // of slabs
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

  /// Columns of a band, at most.
  int64_t columns() const { return First().columns(); }
  /// Of one channel's slabs, at most.
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
  // Lines of a plane that are cut each by itself.
  int64_t Rows() const { return cut_ == Cut::kInLines ? walks_[1].count : 1; }
  // Elements of a walk from `begin` on, `count` at most.
  static void Keep(Walk* walk, int64_t begin, int64_t count) {
    walk->first += begin * walk->step;
    walk->to_first += begin * walk->to_step;
    walk->count = std::min(count, walk->count - begin);
  }

  Walks walks_;
  int64_t images_;
  Cut cut_;
  int64_t at_once_;     // images, lines or elements of a band
  int64_t pieces_ = 1;  // of what is cut
};

/// Fills the slabs of a band's images, for `channels` channels from `first` on, of `all`
/// there are: channel after channel, of each the images. Each slab is written a little
/// beyond its end. Finds the places of all taps.
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

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_BANDS_H_
