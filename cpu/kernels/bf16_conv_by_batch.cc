#include "cpu/kernels/bf16_gemm.h"
#include "cpu/kernels/convolution.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/dispatch.h"
#include "ir/tensor_type.h"

namespace stowage::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kTile = kTaskRows * kPairsColumns;

int64_t PaddedImages(int64_t images) {
  return CeilDiv(images, kLanes) * kLanes;
}

// Sums of a task, rounded.
void Round(int64_t n, const float* sums, uint16_t* rounded) {
  Narrow(DType::kBF16, n, sums, reinterpret_cast<std::byte*>(rounded));
}

// --- conv and conv_transpose -------------------------------------------------

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

struct Operands {
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
// rows that there are not. The taps of a filter are neighbours.
void PackFilters(const Operands& o, int64_t group, int64_t row, int64_t rows,
                 uint32_t* packed) {
  static_assert(kTaskRows == kLanes);
  const Sides sides(o.g, o.to_x);
  const int64_t taps = o.g.kernel_size();
  const int64_t pairs = Pairs(sides.depth);
  const int64_t to_row = (o.to_x ? 1 : sides.depth) * taps;
  const int64_t to_deeper = (o.to_x ? sides.rows : 1) * taps;
  const uint16_t* const from =
      o.filters + group * sides.rows * sides.depth * taps + row * to_row;
  // Pairs that are on their way: their places are too far apart to be foreseen.
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
void MakeStrip(const Operands& o, int64_t group, int64_t row, int64_t rows,
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
      MultiplyPairs(
          rows, count, pairs, {filters, 2, 2 * kTaskRows, 2 * kPanelRows},
          {source, pitch}, {tile + place * kTile, kPairsColumns}, Chains(met));
      met = true;
    }
    if (!met) std::fill_n(tile + place * kTile, kTile, 0.0f);
    Round(rows * kPairsColumns, tile + place * kTile, rounded + place * kTile);
  }
  const int64_t all_rows = o.g.groups * sides.rows;
  for (int64_t n = 0; n < count; ++n) {
    uint16_t* to = o.to + ((image + n) * all_rows + group * sides.rows + row) *
                              sides.to_places;
    for (int64_t r = 0; r < rows; ++r) {
      const uint16_t* from = rounded + r * kPairsColumns + n;
      for (int64_t place = 0; place < sides.to_places; ++place) {
        *to++ = from[place * kTile];
      }
    }
  }
}

// Scratch of a thread of Bf16ConvByBatch, in elements: filters, sums, and these rounded.
struct ConvThread {
  ConvThread(const ConvGeometry& g, const Sides& sides)
      : filters(g.kernel_size() * Pairs(sides.depth) * kTaskRows),
        tile(sides.to_places * kTile) {}
  Bytes bytes() const {
    return BytesOf<uint32_t>(filters) + BytesOf<float>(tile) +
           BytesOf<uint16_t>(tile);
  }
  int64_t filters, tile;
};

// --- conv_weight_grad --------------------------------------------------------

// dy's channels in chunks of kTaskRows, x's in strips, of each group.
struct Cuts {
  explicit Cuts(const ConvGeometry& g)
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
// writes the zeros that stand for one that its pair lacks.
void PutChannelsLast(const ConvGeometry& g, int64_t channels, int64_t places,
                     int64_t piece, int64_t image, const uint16_t* from,
                     uint16_t* to) {
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

// A row of sums (tap, channel), where taps are kTile apart, to (channel, tap).
void PutTapsLast(int64_t channels, int64_t taps, const uint16_t* sums,
                 uint16_t* to) {
  if (taps > kLanes) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) *to++ = sums[tap * kTile + c];
    }
    return;
  }
  for (int64_t c = 0; c < channels; c += kLanes) {
    __m512i square[kLanes] = {};
    for (int64_t tap = 0; tap < taps; ++tap) {
      square[tap] = _mm512_cvtepu16_epi32(_mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(sums + tap * kTile + c)));
    }
    Transpose16(square);
    // Each channel's taps are written over what the one before has written beyond its own.
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
  explicit GradThread(const ConvGeometry& g) : tile(g.kernel_size() * kTile) {}
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
  const Operands operands = {g, to_x, meetings, source, filters, to};
  const ConvThread of_thread(g, sides);
  std::byte* const of_threads = shared.Take<std::byte>(0);

  const int64_t chunks = CeilDiv(sides.rows, kTaskRows);
  const int64_t strips = CeilDiv(g.images, kPairsColumns);
  // Each part packs the filters anew.
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
  const Cuts cuts(g);
  return BytesOf<int64_t>(g.out_size() * g.kernel_size()) +
         BytesOf<uint32_t>(cuts.of_dy(g)) + BytesOf<uint32_t>(cuts.of_x(g)) +
         threads * GradThread(g).bytes();
}

void Bf16WeightGradByBatch(const ConvGeometry& g, const uint16_t* x,
                           const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                           ThreadPool& pool) {
  const Cuts cuts(g);
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
    PutChannelsLast(g, g.filters, out, kTaskRows, image, dy, of_dy);
    PutChannelsLast(g, g.channels, in, kPairsColumns, image, x,
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
            {tile + tap * kTile, kPairsColumns}, Chains(met));
        met = true;
      }
      if (!met) std::fill_n(tile + tap * kTile, kTile, 0.0f);
      Round(rows * kPairsColumns, tile + tap * kTile, rounded + tap * kTile);
    }
    for (int64_t r = 0; r < rows; ++r) {
      PutTapsLast(
          columns, taps, rounded + r * kPairsColumns,
          dw + ((group * g.filters + row + r) * g.channels + column) * taps);
    }
  });
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS
