#include <algorithm>
#include <array>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/convolution.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

// --- conv and conv_transpose -------------------------------------------------

// Columns of one strip: all are about as wide, in whole registers.
template <typename T>
int64_t ImagesOfStrip(int64_t images) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const int64_t strips = CeilDiv(images, kStripColumns<T>);
  return CeilDiv(CeilDiv(images, strips), kLanes) * kLanes;
}

template <typename T>
int64_t PaddedImages(int64_t images) {
  return CeilDiv(images, Vec<T>::kLanes) * Vec<T>::kLanes;
}

// (images, channels, places) to (places, channels, images), with zeros up to whole
// registers of images.
template <typename T>
void PutImagesLast(int64_t images, int64_t channels, int64_t places,
                   const T* from, T* to, ThreadPool& pool) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const int64_t pitch = PaddedImages<T>(images);
  const int64_t size = channels * places;
  const int64_t piece = CeilDiv(RowsPerChunk(pitch), kLanes) * kLanes;
  ParallelRanges(pool, size, piece, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += kLanes) {
      const int64_t lines = std::min(kLanes, end - j);
      for (int64_t n = 0; n < images; n += kLanes) {
        const int64_t count = std::min(kLanes, images - n);
        T square[kLanes * kLanes] = {};
        if (lines == kLanes && count == kLanes) {
          TransposeSquare(from + n * size + j, size, square, kLanes);
        } else {
          for (int64_t i = 0; i < lines; ++i) {
            for (int64_t k = 0; k < count; ++k) {
              square[i * kLanes + k] = from[(n + k) * size + j + i];
            }
          }
        }
        for (int64_t i = 0; i < lines; ++i) {
          const int64_t line = (j + i) % places * channels + (j + i) / places;
          Vec<T>::Load(square + i * kLanes).Store(to + line * pitch + n);
        }
      }
    }
  });
}

// A product's operands, in order, and its result.
template <typename T>
struct Operands {
  const ConvGeometry& g;
  bool to_x;
  const int64_t* meetings;
  const T* source;  // (places, channels, images)
  const T* filters;
  T* to;
};

// Filters of `rows` rows of a group as (tap, depth, kTaskRows), those of taps that meet
// something.
template <typename T>
void PackFilters(const Operands<T>& o, int64_t group, int64_t row, int64_t rows,
                 T* packed) {
  constexpr int64_t kBlock =
      64;  // of depth: what it is written to fits a cache
  const Sides sides(o.g, o.to_x);
  const int64_t taps = o.g.kernel_size();
  const int64_t to_row = (o.to_x ? 1 : sides.depth) * taps;
  const int64_t to_deeper = (o.to_x ? sides.rows : 1) * taps;
  const T* const from =
      o.filters + group * sides.rows * sides.depth * taps + row * to_row;
  for (int64_t begin = 0; begin < sides.depth; begin += kBlock) {
    const int64_t end = std::min(sides.depth, begin + kBlock);
    for (int64_t tap = 0; tap < taps; ++tap) {
      if (!Meets(o.meetings, sides.to_places, taps, tap)) continue;
      for (int64_t k = begin; k < end; ++k) {
        T* const to = packed + (tap * sides.depth + k) * kTaskRows;
        for (int64_t r = 0; r < rows; ++r) {
          to[r] = from[r * to_row + k * to_deeper + tap];
        }
      }
    }
  }
}

// Rows [row, row + rows) of a group for images [image, image + count), of all elements
// of a map: in `tile` (places, kTaskRows, kStripColumns), and from there in their places.
template <typename T>
void MakeStrip(const Operands<T>& o, int64_t group, int64_t row, int64_t rows,
               int64_t image, int64_t count, const T* packed, T* tile) {
  const Sides sides(o.g, o.to_x);
  const int64_t taps = o.g.kernel_size();
  const int64_t pitch = PaddedImages<T>(o.g.images);
  const int64_t all_depth = o.g.groups * sides.depth;
  constexpr int64_t kTile = kTaskRows * kStripColumns<T>;
  for (int64_t place = 0; place < sides.to_places; ++place) {
    bool met = false;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t from = o.meetings[place * taps + tap];
      if (from < 0) continue;
      const T* const source =
          o.source + (from * all_depth + group * sides.depth) * pitch + image;
      MultiplyStrip<T>(rows, count, sides.depth,
                       {packed + tap * sides.depth * kTaskRows, 1, kTaskRows},
                       {source, pitch, /*padded=*/true},
                       {tile + place * kTile, kStripColumns<T>}, Chains(met));
      met = true;
    }
    if (!met) std::fill_n(tile + place * kTile, kTile, T(0));
  }
  const int64_t all_rows = o.g.groups * sides.rows;
  for (int64_t n = 0; n < count; ++n) {
    T* to = o.to + ((image + n) * all_rows + group * sides.rows + row) *
                       sides.to_places;
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = tile + r * kStripColumns<T> + n;
      for (int64_t place = 0; place < sides.to_places; ++place) {
        *to++ = from[place * kTile];
      }
    }
  }
}

// --- conv_weight_grad --------------------------------------------------------

// dy's channels in chunks of kTaskRows, x's in strips, of each group.
template <typename T>
struct Cuts {
  explicit Cuts(const ConvGeometry& g)
      : chunks(CeilDiv(g.filters, kTaskRows)),
        strips(CeilDiv(g.channels, kStripColumns<T>)) {}

  int64_t chunks, strips;
};

// One image's (groups, channels, places) as pieces of `piece` channels, where a place's
// images follow each other: (groups, pieces, places, images, piece).
template <typename T>
void PutChannelsLast(const ConvGeometry& g, int64_t channels, int64_t places,
                     int64_t piece, int64_t image, const T* from, T* to) {
  const int64_t pieces = CeilDiv(channels, piece);
  from += image * g.groups * channels * places;
  for (int64_t i = 0; i < g.groups * pieces; ++i) {
    const int64_t first = i % pieces * piece;
    const int64_t count = std::min(piece, channels - first);
    const T* const maps = from + (i / pieces * channels + first) * places;
    for (int64_t place = 0; place < places; ++place) {
      T* const line = to + ((i * places + place) * g.images + image) * piece;
      for (int64_t c = 0; c < count; ++c) line[c] = maps[c * places + place];
      std::fill(line + count, line + piece, T(0));
    }
  }
}

}  // namespace

template <typename T>
bool TakesByBatch(const ConvGeometry& g) {
  // Larger maps have lines enough, and as rows of elements need less scratch.
  constexpr int64_t kMaxPlaces = 256;
  constexpr int64_t kMaxPlacesOfOne = 64;
  constexpr int64_t kMinChannels = 8;
  const auto [fewer, more] = std::minmax({g.in_size(), g.out_size()});
  return fewer <= kMaxPlacesOfOne && more <= kMaxPlaces &&
         g.images >= Vec<T>::kLanes && g.channels >= kMinChannels &&
         g.filters >= kMinChannels;
}

template <typename T>
Bytes ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads) {
  const Sides sides(g, to_x);
  const int64_t taps = g.kernel_size();
  return BytesOf<int64_t>(sides.to_places * taps) +
         BytesOf<T>(sides.from_places * g.groups * sides.depth *
                    PaddedImages<T>(g.images)) +
         threads * (BytesOf<T>(taps * sides.depth * kTaskRows) +
                    BytesOf<T>(sides.to_places * kTaskRows * kStripColumns<T>));
}

template <typename T>
void ConvByBatch(const ConvGeometry& g, bool to_x, const T* from,
                 const T* filters, T* to, std::byte* scratch,
                 ThreadPool& pool) {
  const Sides sides(g, to_x);
  const int64_t taps = g.kernel_size();
  Scratch shared(scratch);
  auto* const meetings = shared.Take<int64_t>(sides.to_places * taps);
  FindMeetings(g, to_x, meetings);
  T* const source = shared.Take<T>(sides.from_places * g.groups * sides.depth *
                                   PaddedImages<T>(g.images));
  PutImagesLast(g.images, g.groups * sides.depth, sides.from_places, from,
                source, pool);
  const Operands<T> operands = {g, to_x, meetings, source, filters, to};
  const int64_t of_filters = taps * sides.depth * kTaskRows;
  const int64_t of_tile = sides.to_places * kTaskRows * kStripColumns<T>;
  std::byte* const of_threads = shared.Take<std::byte>(0);

  const int64_t chunks = CeilDiv(sides.rows, kTaskRows);
  const int64_t width = ImagesOfStrip<T>(g.images);
  const int64_t strips = CeilDiv(g.images, width);
  // Each part packs the filters anew.
  const int64_t parts = std::min(strips, CeilDiv(kMinTasks, g.groups * chunks));
  const int64_t part_strips = CeilDiv(strips, parts);
  pool.ParallelFor(g.groups * chunks * parts, [&](int64_t task, int thread) {
    Scratch own(of_threads +
                thread * (BytesOf<T>(of_filters) + BytesOf<T>(of_tile)));
    T* const packed = own.Take<T>(of_filters);
    T* const tile = own.Take<T>(of_tile);
    const int64_t part = task % parts;
    const int64_t row = task / parts % chunks * kTaskRows;
    const int64_t group = task / parts / chunks;
    const int64_t rows = std::min(kTaskRows, sides.rows - row);
    PackFilters(operands, group, row, rows, packed);
    const int64_t end = std::min(g.images, (part + 1) * part_strips * width);
    for (int64_t n = part * part_strips * width; n < end; n += width) {
      MakeStrip(operands, group, row, rows, n, std::min(width, end - n), packed,
                tile);
    }
  });
}

template <typename T>
Bytes WeightGradByBatchScratch(const ConvGeometry& g, int threads) {
  const Cuts<T> cuts(g);
  const int64_t taps = g.kernel_size();
  return BytesOf<int64_t>(g.out_size() * taps) +
         BytesOf<T>(g.groups * cuts.chunks * g.out_size() * g.images *
                    kTaskRows) +
         BytesOf<T>(g.groups * cuts.strips * g.in_size() * g.images *
                    kStripColumns<T>) +
         threads * BytesOf<T>(taps * kTaskRows * kStripColumns<T>);
}

template <typename T>
void WeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                       std::byte* scratch, ThreadPool& pool) {
  constexpr int64_t kTile = kTaskRows * kStripColumns<T>;
  const Cuts<T> cuts(g);
  const int64_t taps = g.kernel_size();
  const int64_t out = g.out_size();
  const int64_t in = g.in_size();
  Scratch shared(scratch);
  auto* const meetings = shared.Take<int64_t>(out * taps);
  FindMeetings(g, /*to_x=*/false, meetings);
  T* const of_dy =
      shared.Take<T>(g.groups * cuts.chunks * out * g.images * kTaskRows);
  T* const of_x =
      shared.Take<T>(g.groups * cuts.strips * in * g.images * kStripColumns<T>);
  T* const tiles = shared.Take<T>(0);
  pool.ParallelFor(g.images, [&](int64_t image, int) {
    PutChannelsLast(g, g.filters, out, kTaskRows, image, dy, of_dy);
    PutChannelsLast(g, g.channels, in, kStripColumns<T>, image, x, of_x);
  });
  pool.ParallelFor(g.groups * cuts.chunks * cuts.strips, [&](int64_t task,
                                                             int thread) {
    T* const tile = tiles + thread * taps * kTile;
    const int64_t strip = task % cuts.strips;
    const int64_t chunk = task / cuts.strips;  // of all groups
    const int64_t group = chunk / cuts.chunks;
    const int64_t row = chunk % cuts.chunks * kTaskRows;
    const int64_t column = strip * kStripColumns<T>;
    const int64_t rows = std::min(kTaskRows, g.filters - row);
    const int64_t columns = std::min(kStripColumns<T>, g.channels - column);
    for (int64_t tap = 0; tap < taps; ++tap) {
      bool met = false;
      for (int64_t place = 0; place < out; ++place) {
        const int64_t from = meetings[place * taps + tap];
        if (from < 0) continue;
        const int64_t of_strip = (group * cuts.strips + strip) * in + from;
        MultiplyStrip<T>(rows, columns, g.images,
                         {of_dy + (chunk * out + place) * g.images * kTaskRows,
                          1, kTaskRows},
                         {of_x + of_strip * g.images * kStripColumns<T>,
                          kStripColumns<T>, /*padded=*/true},
                         {tile + tap * kTile, kStripColumns<T>}, Chains(met));
        met = true;
      }
      if (!met) std::fill_n(tile + tap * kTile, kTile, T(0));
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* to = dw + ((group * g.filters + row + r) * g.channels + column) * taps;
      for (int64_t c = 0; c < columns; ++c) {
        const T* from = tile + r * kStripColumns<T> + c;
        for (int64_t tap = 0; tap < taps; ++tap) *to++ = from[tap * kTile];
      }
    }
  });
}

template bool TakesByBatch<float>(const ConvGeometry&);
template bool TakesByBatch<double>(const ConvGeometry&);
template Bytes ConvByBatchScratch<float>(const ConvGeometry&, bool, int);
template Bytes ConvByBatchScratch<double>(const ConvGeometry&, bool, int);
template void ConvByBatch(const ConvGeometry&, bool, const float*, const float*,
                          float*, std::byte*, ThreadPool&);
template void ConvByBatch(const ConvGeometry&, bool, const double*,
                          const double*, double*, std::byte*, ThreadPool&);
template Bytes WeightGradByBatchScratch<float>(const ConvGeometry&, int);
template Bytes WeightGradByBatchScratch<double>(const ConvGeometry&, int);
template void WeightGradByBatch(const ConvGeometry&, const float*, const float*,
                                float*, std::byte*, ThreadPool&);
template void WeightGradByBatch(const ConvGeometry&, const double*,
                                const double*, double*, std::byte*,
                                ThreadPool&);

}  // namespace stowage::cpu
