#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/bf16_gemm.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/convolution.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"
#include "ir/tensor_type.h"
#include "ir/windows.h"

#ifdef STOWAGE_CPU_BF16_PAIRS
#include <immintrin.h>
#endif

namespace stowage::cpu {
namespace {

// Rows of a task, and the least number of tasks.
constexpr int64_t kTaskRows = 16;
constexpr int64_t kMinTasks = 16;

template <typename T>
Bytes BytesOf(int64_t elements) {
  return AlignUp(elements * static_cast<Bytes>(sizeof(T)), kWorkspaceAlignment);
}

// Allocates consecutive aligned arrays from scratch.
class Scratch {
 public:
  explicit Scratch(std::byte* at) : at_(at) {}

  template <typename T>
  T* Take(int64_t elements) {
    T* const taken = reinterpret_cast<T*>(at_);
    at_ += BytesOf<T>(elements);
    return taken;
  }

 private:
  std::byte* at_;
};

// The sizes of a group's source and result.
struct Sides {
  Sides(const ConvGeometry& g, bool to_x)
      : depth(to_x ? g.filters : g.channels),
        rows(to_x ? g.channels : g.filters),
        from_places(to_x ? g.out_size() : g.in_size()),
        to_places(to_x ? g.in_size() : g.out_size()) {}

  int64_t depth, rows;             // channels of the source, of the result
  int64_t from_places, to_places;  // elements of a map
};

// Sets meetings[place * taps + tap] to the element of the source that element `place` of
// the result's map meets at `tap`, or -1.
void FindMeetings(const ConvGeometry& g, bool to_x, int64_t* meetings) {
  const auto [d, h, w] = g.dims;
  const int64_t taps = g.kernel_size();
  std::fill_n(meetings, Sides(g, to_x).to_places * taps, int64_t{-1});
  const auto place = [](const ConvDim& dim, int64_t out, int64_t tap) {
    const int64_t at = out * dim.stride - dim.before + tap * dim.dilation;
    return at < dim.in ? at : -1;
  };
  for (int64_t out = 0; out < g.out_size(); ++out) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t in_d =
          place(d, out / (h.out * w.out), tap / (h.kernel * w.kernel));
      const int64_t in_h =
          place(h, out / w.out % h.out, tap / w.kernel % h.kernel);
      const int64_t in_w = place(w, out % w.out, tap % w.kernel);
      if (in_d < 0 || in_h < 0 || in_w < 0) continue;
      const int64_t in = (in_d * h.in + in_h) * w.in + in_w;
      if (to_x) {
        meetings[in * taps + tap] = out;
      } else {
        meetings[out * taps + tap] = in;
      }
    }
  }
}

// Whether any element of the result meets the source at `tap`.
bool Meets(const int64_t* meetings, int64_t places, int64_t taps, int64_t tap) {
  for (int64_t i = 0; i < places; ++i) {
    if (meetings[i * taps + tap] >= 0) return true;
  }
  return false;
}

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

// The operands of a matmul, packed, and its result.
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
  // Each part packs the filters again.
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

// --- bf16 by pairs -----------------------------------------------------------

#ifdef STOWAGE_CPU_BF16_PAIRS

namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kPairTile = kTaskRows * kPairsColumns;

int64_t PaddedImages(int64_t images) {
  return CeilDiv(images, kLanes) * kLanes;
}

// Sums of a task, rounded.
void Round(int64_t n, const float* sums, uint16_t* rounded) {
  Narrow(DType::kBF16, n, sums, reinterpret_cast<std::byte*>(rounded));
}

// --- conv and conv_transpose of bf16 -----------------------------------------

// (images, channels, places) to (places, pairs of a group's channels, images), with zeros
// up to whole registers of images, and where a pair lacks its second channel.
void PutImagesLast(const ConvGeometry& g, const Sides& sides,
                   const uint16_t* from, uint32_t* to, ThreadPool& pool) {
  const int64_t pitch = PaddedImages(g.images);
  const int64_t pairs = Pairs(sides.depth);
  const int64_t places = sides.from_places;
  const int64_t size = g.groups * sides.depth * places;
  const int64_t piece = CeilDiv(RowsPerChunk(pitch), kLanes) * kLanes;
  ParallelRanges(pool, size, piece, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += kLanes) {
      const int64_t lines = std::min(kLanes, end - j);
      const auto first_lines = static_cast<__mmask16>((1 << lines) - 1);
      uint32_t* line[kLanes];
      __mmask32 halves[kLanes];
      for (int64_t i = 0; i < lines; ++i) {
        const int64_t channel = (j + i) / places;
        const int64_t k = channel % sides.depth;
        const int64_t pair = channel / sides.depth * pairs + k / 2;
        line[i] = to + ((j + i) % places * g.groups * pairs + pair) * pitch;
        halves[i] = k % 2 == 1             ? 0xAAAAAAAA
                    : k + 1 == sides.depth ? 0xFFFFFFFF
                                           : 0x55555555;
      }
      for (int64_t n = 0; n < g.images; n += kLanes) {
        __m512i square[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
          square[i] = n + i < g.images
                          ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(
                                first_lines, from + (n + i) * size + j))
                          : _mm512_setzero_si512();
        }
        Transpose16(square);
        for (int64_t i = 0; i < lines; ++i) {
          _mm512_mask_storeu_epi16(line[i] + n, halves[i],
                                   halves[i] == 0xAAAAAAAA
                                       ? _mm512_slli_epi32(square[i], 16)
                                       : square[i]);
        }
      }
    }
  });
}

struct PairOperands {
  const ConvGeometry& g;
  bool to_x;
  const int64_t* meetings;
  const uint32_t* source;  // (places, pairs of channels, images)
  const uint16_t* filters;
  uint16_t* to;
};

// 16 pairs of elements that are neighbours in memory, the first `count` of both.
__m512i PairsOf(const uint16_t* first, const uint16_t* second,
                __mmask16 count) {
  const __m512i low =
      _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(count, first));
  if (second == nullptr) return low;
  const __m512i high =
      _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(count, second));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// Filters of `rows` rows of a group as (tap, pairs of depth, kTaskRows), with zeros for
// missing rows. The taps of a filter are neighbours.
void PackFilters(const PairOperands& o, int64_t group, int64_t row,
                 int64_t rows, uint32_t* packed) {
  static_assert(kTaskRows == kLanes);
  const Sides sides(o.g, o.to_x);
  const int64_t taps = o.g.kernel_size();
  const int64_t pairs = Pairs(sides.depth);
  const int64_t to_row = (o.to_x ? 1 : sides.depth) * taps;
  const int64_t to_deeper = (o.to_x ? sides.rows : 1) * taps;
  const uint16_t* const from =
      o.filters + group * sides.rows * sides.depth * taps + row * to_row;
  // Distance of the prefetches: the places of pairs are too far apart for the hardware's.
  const int64_t ahead = o.to_x ? 32 : 16;
  for (int64_t q = 0; q < pairs; ++q) {
    const bool is_whole = 2 * q + 1 < sides.depth;
    for (int64_t tap = 0; tap < taps; tap += kLanes) {
      const int64_t count = std::min(kLanes, taps - tap);
      const auto first_taps = static_cast<__mmask16>((1 << count) - 1);
      __m512i square[kLanes];
      for (int64_t r = 0; r < kLanes; ++r) {
        const uint16_t* const at = from + r * to_row + 2 * q * to_deeper + tap;
        __builtin_prefetch(at + ahead * to_deeper);
        __builtin_prefetch(at + (ahead + 1) * to_deeper);
        square[r] = r < rows ? PairsOf(at, is_whole ? at + to_deeper : nullptr,
                                       first_taps)
                             : _mm512_setzero_si512();
      }
      Transpose16(square);
      for (int64_t t = 0; t < count; ++t) {
        _mm512_storeu_si512(packed + ((tap + t) * pairs + q) * kTaskRows,
                            square[t]);
      }
    }
  }
}

// Rows [row, row + rows) of a group for images [image, image + count), of all elements
// of a map: in `tile` (places, kTaskRows, kPairsColumns), and from there in their places.
void MakeStrip(const PairOperands& o, int64_t group, int64_t row, int64_t rows,
               int64_t image, int64_t count, const uint32_t* packed,
               float* tile, uint16_t* rounded) {
  const Sides sides(o.g, o.to_x);
  const int64_t taps = o.g.kernel_size();
  const int64_t pitch = PaddedImages(o.g.images);
  const int64_t pairs = Pairs(sides.depth);
  for (int64_t place = 0; place < sides.to_places; ++place) {
    bool met = false;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t from = o.meetings[place * taps + tap];
      if (from < 0) continue;
      const uint32_t* const source =
          o.source + (from * o.g.groups + group) * pairs * pitch + image;
      const auto* const filters =
          reinterpret_cast<const uint16_t*>(packed + tap * pairs * kTaskRows);
      MultiplyPairs(rows, count, pairs,
                    {filters, 2, 2 * kTaskRows, 2 * kPanelRows},
                    {source, pitch}, {tile + place * kPairTile, kPairsColumns},
                    Chains(met));
      met = true;
    }
    if (!met) std::fill_n(tile + place * kPairTile, kPairTile, 0.0f);
    Round(rows * kPairsColumns, tile + place * kPairTile,
          rounded + place * kPairTile);
  }
  const int64_t all_rows = o.g.groups * sides.rows;
  for (int64_t n = 0; n < count; ++n) {
    uint16_t* to = o.to + ((image + n) * all_rows + group * sides.rows + row) *
                              sides.to_places;
    for (int64_t r = 0; r < rows; ++r) {
      const uint16_t* from = rounded + r * kPairsColumns + n;
      for (int64_t place = 0; place < sides.to_places; ++place) {
        *to++ = from[place * kPairTile];
      }
    }
  }
}

// Scratch of a thread of Bf16ConvByBatch, in elements: filters, sums, and these rounded.
struct ConvThread {
  ConvThread(const ConvGeometry& g, const Sides& sides)
      : filters(g.kernel_size() * Pairs(sides.depth) * kTaskRows),
        tile(sides.to_places * kPairTile) {}
  Bytes bytes() const {
    return BytesOf<uint32_t>(filters) + BytesOf<float>(tile) +
           BytesOf<uint16_t>(tile);
  }
  int64_t filters, tile;
};

// --- conv_weight_grad of bf16 ------------------------------------------------

// dy's channels in chunks of kTaskRows, x's in strips, of each group.
struct PairCuts {
  explicit PairCuts(const ConvGeometry& g)
      : chunks(CeilDiv(g.filters, kTaskRows)),
        strips(CeilDiv(g.channels, kPairsColumns)),
        pairs(Pairs(g.images)) {}

  int64_t of_dy(const ConvGeometry& g) const {
    return g.groups * chunks * g.out_size() * pairs * kTaskRows;
  }
  int64_t of_x(const ConvGeometry& g) const {
    return g.groups * strips * g.in_size() * pairs * kPairsColumns;
  }

  int64_t chunks, strips;
  int64_t pairs;  // of images
};

// One image's (groups, channels, places) as pieces of `piece` channels, where a place's
// pairs of images follow each other: (groups, pieces, places, pairs, piece). The last image
// writes zeros if its pair has no second image.
void PutChannelPairsLast(const ConvGeometry& g, int64_t channels,
                         int64_t places, int64_t piece, int64_t image,
                         const uint16_t* from, uint16_t* to) {
  const int64_t pieces = CeilDiv(channels, piece);
  const int64_t pairs = Pairs(g.images);
  const bool is_alone = image % 2 == 0 && image + 1 == g.images;
  from += image * g.groups * channels * places;
  for (int64_t i = 0; i < g.groups * pieces; ++i) {
    const int64_t first = i % pieces * piece;
    const int64_t count = std::min(piece, channels - first);
    const uint16_t* const maps =
        from + (i / pieces * channels + first) * places;
    for (int64_t place = 0; place < places; ++place) {
      uint16_t* const line =
          to + ((i * places + place) * pairs + image / 2) * piece * 2 +
          image % 2;
      for (int64_t c = 0; c < count; ++c)
        line[2 * c] = maps[c * places + place];
      for (int64_t c = count; c < piece; ++c) line[2 * c] = 0;
      if (!is_alone) continue;
      for (int64_t c = 0; c < piece; ++c) line[2 * c + 1] = 0;
    }
  }
}

// A row of sums (tap, channel), where taps are kPairTile apart, to (channel, tap).
void PutTapsLast(int64_t channels, int64_t taps, const uint16_t* sums,
                 uint16_t* to) {
  if (taps > kLanes) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap)
        *to++ = sums[tap * kPairTile + c];
    }
    return;
  }
  for (int64_t c = 0; c < channels; c += kLanes) {
    __m512i square[kLanes] = {};
    for (int64_t tap = 0; tap < taps; ++tap) {
      square[tap] = _mm512_cvtepu16_epi32(_mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(sums + tap * kPairTile + c)));
    }
    Transpose16(square);
    // The taps of each channel overwrite what the previous channel wrote beyond its own.
    const int64_t count = std::min(kLanes, channels - c);
    uint16_t line[kLanes * kLanes];
    for (int64_t i = 0; i < count; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(line + i * taps),
                          _mm512_cvtepi32_epi16(square[i]));
    }
    to = std::copy_n(line, count * taps, to);
  }
}

// Scratch of a thread of Bf16WeightGradByBatch, in elements: sums, and these rounded.
struct GradThread {
  explicit GradThread(const ConvGeometry& g)
      : tile(g.kernel_size() * kPairTile) {}
  Bytes bytes() const { return BytesOf<float>(tile) + BytesOf<uint16_t>(tile); }
  int64_t tile;
};

}  // namespace

Bytes Bf16ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads) {
  const Sides sides(g, to_x);
  return BytesOf<int64_t>(sides.to_places * g.kernel_size()) +
         BytesOf<uint32_t>(sides.from_places * g.groups * Pairs(sides.depth) *
                           PaddedImages(g.images)) +
         threads * ConvThread(g, sides).bytes();
}

void Bf16ConvByBatch(const ConvGeometry& g, bool to_x, const uint16_t* from,
                     const uint16_t* filters, uint16_t* to, std::byte* scratch,
                     ThreadPool& pool) {
  const Sides sides(g, to_x);
  Scratch shared(scratch);
  auto* const meetings =
      shared.Take<int64_t>(sides.to_places * g.kernel_size());
  FindMeetings(g, to_x, meetings);
  auto* const source =
      shared.Take<uint32_t>(sides.from_places * g.groups * Pairs(sides.depth) *
                            PaddedImages(g.images));
  PutImagesLast(g, sides, from, source, pool);
  const PairOperands operands = {g, to_x, meetings, source, filters, to};
  const ConvThread of_thread(g, sides);
  std::byte* const of_threads = shared.Take<std::byte>(0);

  const int64_t chunks = CeilDiv(sides.rows, kTaskRows);
  const int64_t strips = CeilDiv(g.images, kPairsColumns);
  // Each part packs the filters again.
  const int64_t parts = std::min(strips, CeilDiv(kMinTasks, g.groups * chunks));
  const int64_t part_images = CeilDiv(strips, parts) * kPairsColumns;
  pool.ParallelFor(g.groups * chunks * parts, [&](int64_t task, int thread) {
    Scratch own(of_threads + thread * of_thread.bytes());
    auto* const packed = own.Take<uint32_t>(of_thread.filters);
    auto* const tile = own.Take<float>(of_thread.tile);
    auto* const rounded = own.Take<uint16_t>(of_thread.tile);
    const int64_t part = task % parts;
    const int64_t row = task / parts % chunks * kTaskRows;
    const int64_t group = task / parts / chunks;
    const int64_t rows = std::min(kTaskRows, sides.rows - row);
    PackFilters(operands, group, row, rows, packed);
    const int64_t end = std::min(g.images, (part + 1) * part_images);
    for (int64_t n = part * part_images; n < end; n += kPairsColumns) {
      MakeStrip(operands, group, row, rows, n, std::min(kPairsColumns, end - n),
                packed, tile, rounded);
    }
  });
}

Bytes Bf16WeightGradByBatchScratch(const ConvGeometry& g, int threads) {
  const PairCuts cuts(g);
  return BytesOf<int64_t>(g.out_size() * g.kernel_size()) +
         BytesOf<uint32_t>(cuts.of_dy(g)) + BytesOf<uint32_t>(cuts.of_x(g)) +
         threads * GradThread(g).bytes();
}

void Bf16WeightGradByBatch(const ConvGeometry& g, const uint16_t* x,
                           const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                           ThreadPool& pool) {
  const PairCuts cuts(g);
  const GradThread of_thread(g);
  const int64_t taps = g.kernel_size();
  const int64_t out = g.out_size();
  const int64_t in = g.in_size();
  Scratch shared(scratch);
  auto* const meetings = shared.Take<int64_t>(out * taps);
  FindMeetings(g, /*to_x=*/false, meetings);
  auto* const of_dy =
      reinterpret_cast<uint16_t*>(shared.Take<uint32_t>(cuts.of_dy(g)));
  auto* const of_x = shared.Take<uint32_t>(cuts.of_x(g));
  std::byte* const of_threads = shared.Take<std::byte>(0);
  pool.ParallelFor(g.images, [&](int64_t image, int) {
    PutChannelPairsLast(g, g.filters, out, kTaskRows, image, dy, of_dy);
    PutChannelPairsLast(g, g.channels, in, kPairsColumns, image, x,
                        reinterpret_cast<uint16_t*>(of_x));
  });
  pool.ParallelFor(g.groups * cuts.chunks * cuts.strips, [&](int64_t task,
                                                             int thread) {
    Scratch own(of_threads + thread * of_thread.bytes());
    auto* const tile = own.Take<float>(of_thread.tile);
    auto* const rounded = own.Take<uint16_t>(of_thread.tile);
    const int64_t strip = task % cuts.strips;
    const int64_t chunk = task / cuts.strips;  // of all groups
    const int64_t group = chunk / cuts.chunks;
    const int64_t row = chunk % cuts.chunks * kTaskRows;
    const int64_t rows = std::min(kTaskRows, g.filters - row);
    const int64_t column = strip * kPairsColumns;
    const int64_t columns = std::min(kPairsColumns, g.channels - column);
    for (int64_t tap = 0; tap < taps; ++tap) {
      bool met = false;
      for (int64_t place = 0; place < out; ++place) {
        const int64_t from = meetings[place * taps + tap];
        if (from < 0) continue;
        const int64_t of_strip = (group * cuts.strips + strip) * in + from;
        MultiplyPairs(
            rows, columns, cuts.pairs,
            {of_dy + (chunk * out + place) * cuts.pairs * kTaskRows * 2, 2,
             2 * kTaskRows, 2 * kPanelRows},
            {of_x + of_strip * cuts.pairs * kPairsColumns, kPairsColumns},
            {tile + tap * kPairTile, kPairsColumns}, Chains(met));
        met = true;
      }
      if (!met) std::fill_n(tile + tap * kPairTile, kPairTile, 0.0f);
      Round(rows * kPairsColumns, tile + tap * kPairTile,
            rounded + tap * kPairTile);
    }
    for (int64_t r = 0; r < rows; ++r) {
      PutTapsLast(
          columns, taps, rounded + r * kPairsColumns,
          dw + ((group * g.filters + row + r) * g.channels + column) * taps);
    }
  });
}

#endif  // STOWAGE_CPU_BF16_PAIRS

}  // namespace stowage::cpu
