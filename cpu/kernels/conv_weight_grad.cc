#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/bf16_gemm.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/convolution.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"
#include "ir/tensor_type.h"
#include "math/small_floats.h"

#ifdef STOWAGE_CPU_BF16_PAIRS
#include <immintrin.h>
#endif

namespace stowage::cpu {
namespace {

constexpr int64_t kMaxSplits = 16;
constexpr int64_t kSlabRows = 288;      // of a task, about
constexpr int64_t kMaxStrips = 4;       // of filters, of a task
constexpr int64_t kBandElements = 256;  // at most

// The result of a task: channels [channel, channel + channels) and filters [filter,
// filter + filters) of a group, from images [begin, end).
struct Part {
  int64_t group, channel, channels, filter, filters, begin, end;
};

// The tasks of dw, (split of the images, group, chunk of channels, chunk of filters), with
// sums of T.
template <typename T>
struct Tasks {
  int64_t taps;
  int64_t channels, channel_chunks;
  int64_t strip;  // filters, in whole registers
  int64_t filters, filter_chunks;
  int64_t tasks;  // of one split
  int64_t splits;
  int64_t split_images;  // images of one split, the last has fewer

  explicit Tasks(const ConvGeometry& g)
      : taps(g.kernel_size()),
        channels(std::clamp<int64_t>(kSlabRows / taps, 1, g.channels)),
        channel_chunks(CeilDiv(g.channels, channels)),
        strip(Even(g.filters, kStripColumns<T>, Vec<T>::kLanes)),
        filters(Even(g.filters, kMaxStrips * strip, strip)),
        filter_chunks(CeilDiv(g.filters, filters)),
        tasks(g.groups * channel_chunks * filter_chunks),
        split_images(
            CeilDiv(g.images, std::min(g.images, CeilDiv(kMaxSplits, tasks)))) {
    splits = CeilDiv(g.images, split_images);
  }

  int64_t rows() const { return channels * taps; }
  int64_t strips() const { return CeilDiv(filters, strip); }

  Bands BandsOf(const ConvGeometry& g, int64_t images) const {
    return Bands(ForwardWalks(g), images, channels, kBandElements,
                 Vec<T>::kLanes);
  }

  Part PartOf(const ConvGeometry& g, int64_t task) const {
    Part part;
    part.begin = task / this->tasks * split_images;
    part.end = std::min(g.images, part.begin + split_images);
    task %= this->tasks;
    part.filter = task % filter_chunks * filters;
    part.filters = std::min(filters, g.filters - part.filter);
    task /= filter_chunks;
    part.channel = task % channel_chunks * channels;
    part.channels = std::min(channels, g.channels - part.channel);
    part.group = task / channel_chunks;
    return part;
  }

 private:
  // Multiples of `unit` that cut `all` into about equal parts of at most `most`.
  static int64_t Even(int64_t all, int64_t most, int64_t unit) {
    return CeilDiv(CeilDiv(all, CeilDiv(all, most)), unit) * unit;
  }
};

// Elements of a band, as places in a slab: `count` neighbours of each line.
struct Lines {
  int64_t first, count, lines, pitch;
};

// The scratch of a thread: rows as pointers into slabs; taps' places in a slab; sums
// (strip, row, filter); a strip of dy, transposed (element, filter), packed as DyT; slabs of
// x, with kBeyond elements that are read or written beyond them.
template <typename XT, typename SumT, typename DyT, int64_t kBeyond>
class Work {
 public:
  Work(const ConvGeometry& g, const Tasks<SumT>& tasks)
      : rows_(tasks.rows()), taps_(tasks.taps) {
    const Bands bands = tasks.BandsOf(g, tasks.split_images);
    sums_ = rows_ * tasks.strips() * tasks.strip;
    dy_ = bands.columns() * tasks.strip;
    slabs_ = tasks.channels * bands.SlabElements() + kBeyond;
  }

  Bytes bytes() const {
    return AlignUp(rows_ * static_cast<Bytes>(sizeof(XT*)) +
                       taps_ * static_cast<Bytes>(sizeof(int64_t)) +
                       sums_ * static_cast<Bytes>(sizeof(SumT)) +
                       dy_ * static_cast<Bytes>(sizeof(DyT)) +
                       slabs_ * static_cast<Bytes>(sizeof(XT)),
                   kWorkspaceAlignment);
  }
  const XT** row_pointers(std::byte* scratch) const {
    return reinterpret_cast<const XT**>(scratch);
  }
  int64_t* offsets(std::byte* scratch) const {
    return reinterpret_cast<int64_t*>(row_pointers(scratch) + rows_);
  }
  SumT* sums(std::byte* scratch) const {
    return reinterpret_cast<SumT*>(offsets(scratch) + taps_);
  }
  DyT* dy(std::byte* scratch) const {
    return reinterpret_cast<DyT*>(sums(scratch) + sums_);
  }
  XT* slabs(std::byte* scratch) const {
    return reinterpret_cast<XT*>(dy(scratch) + dy_);
  }

 private:
  int64_t rows_, taps_, sums_, dy_, slabs_;
};

// A strip of filters of some images of a band, whose rows of x are at row_pointers().
struct Strip {
  const Band& band;
  const Slab& slab;
  int64_t image, images;  // of the band
  int64_t number, filters;
  bool
      accumulate;  // whether the sums go on from what earlier strips have added
};

// f(strip) for every strip of `part`, bands and images in order. With `joins_images`,
// images whose elements are neighbours in a slab are one strip.
template <typename XT, typename SumT, typename WorkT, typename F>
void ForStrips(const ConvGeometry& g, const Tasks<SumT>& tasks,
               const WorkT& work, const Part& part, const XT* x,
               std::byte* scratch, bool joins_images, const F& f) {
  const int64_t all_channels = g.groups * g.channels;
  const XT* const x_end = x + g.images * all_channels * g.in_size();
  const Bands bands = tasks.BandsOf(g, part.end - part.begin);
  const int64_t rows = part.channels * tasks.taps;
  const int64_t strips = CeilDiv(part.filters, tasks.strip);
  const XT** const a = work.row_pointers(scratch);
  int64_t* const offsets = work.offsets(scratch);
  XT* const slabs = work.slabs(scratch);
  bool accumulate = false;
  for (int64_t i = 0; i < bands.count(); ++i) {
    Band band = bands.At(i);
    band.first_image += part.begin;
    const Slab slab(band.walks);
    FillSlabs(band, slab, x, x_end, part.group * g.channels + part.channel,
              part.channels, all_channels, offsets, slabs);
    const int64_t at_once =
        joins_images && AreLongLines(band.walks) ? band.images : 1;
    for (int64_t image = 0; image < band.images; image += at_once) {
      for (int64_t row = 0; row < rows; ++row) {
        a[row] = slabs +
                 (row / tasks.taps * band.images + image) * slab.size() +
                 offsets[row % tasks.taps];
      }
      for (int64_t s = 0; s < strips; ++s) {
        f(Strip{band, slab, image, at_once, s,
                std::min(tasks.strip, part.filters - s * tasks.strip),
                accumulate});
      }
      accumulate = true;
    }
  }
}

// The elements of dy for image `image` of a strip, as (element, filter).
template <typename T>
Strided<T> DyOf(const ConvGeometry& g, int64_t strip_filters, const Part& part,
                const Strip& strip, int64_t image, const T* dy) {
  const int64_t first_filter =
      ((strip.band.first_image + strip.image + image) * g.groups + part.group) *
          g.filters +
      part.filter + strip.number * strip_filters;
  return {dy + first_filter * g.out_size() + strip.band.to_first(), 1,
          g.out_size()};
}

// f(std::integral_constant<int, k>, row) for m rows in blocks of kM rows, then of ever
// smaller ones.
template <int kM, typename F>
void ForBlocks(int64_t row, int64_t m, const F& f) {
  for (; row + kM <= m; row += kM) f(std::integral_constant<int, kM>(), row);
  if constexpr (kM > 1) {
    if (row < m) ForBlocks<kM / 2>(row, m, f);
  }
}

// to[filter, channel, tap] = round(sum) for all sums of a task, whose strips have width(n)
// columns for n filters.
template <typename SumT, typename To, typename Width, typename Round>
void StoreSums(const ConvGeometry& g, const Tasks<SumT>& tasks,
               const Part& part, const SumT* sums, const Width& width,
               const Round& round, To* to) {
  const int64_t rows = part.channels * tasks.taps;
  for (int64_t filter = 0; filter < part.filters; ++filter) {
    const int64_t first = filter / tasks.strip * tasks.strip;
    const int64_t pitch = width(std::min(tasks.strip, part.filters - first));
    const SumT* const from = sums + first * rows + filter - first;
    To* const line =
        to + ((part.group * g.filters + part.filter + filter) * g.channels +
              part.channel) *
                 tasks.taps;
    for (int64_t row = 0; row < rows; ++row) {
      line[row] = round(from[row * pitch]);
    }
  }
}

// to[i] = the sum of element i of all splits, in order, for i in [begin, begin + count).
template <typename T>
void AddSplits(int64_t splits, int64_t size, const T* of_splits, int64_t begin,
               int64_t count, T* to) {
  ForEachVec<T>(count, [&](auto at) {
    Vec<T> sum = at.Load(of_splits + begin);
    for (int64_t split = 1; split < splits; ++split) {
      sum += at.Load(of_splits + split * size + begin);
    }
    at.Store(to, sum);
  });
}

int64_t SizeOfFilters(const ConvGeometry& g) {
  return g.groups * g.filters * g.channels * g.kernel_size();
}

// Bytes of the sums of splits, which are none for a single split.
template <typename T>
Bytes SplitsBytes(const ConvGeometry& g, const Tasks<T>& tasks) {
  if (tasks.splits == 1) return 0;
  return AlignUp(
      tasks.splits * SizeOfFilters(g) * static_cast<Bytes>(sizeof(T)),
      kWorkspaceAlignment);
}

// --- f32 and f64 -------------------------------------------------------------

template <typename T>
using FloatWork = Work<T, T, T, Vec<T>::kLanes>;

// sums (kM, kVecs registers) of a[i][element] times b (element, kVecs registers), added
// to the previous sums with `accumulate`.
template <typename T, int kM, int kVecs>
void AddBlock(const T* const* a, const Lines& lines, const T* b, T* sums,
              bool accumulate) {
  using V = Vec<T>;
  constexpr int64_t kWidth = kVecs * V::kLanes;
  V sum[kM][kVecs];
  const T* row[kM];
  for (int i = 0; i < kM; ++i) {
    row[i] = a[i];
    for (int j = 0; j < kVecs; ++j) {
      sum[i][j] =
          accumulate ? V::Load(sums + i * kWidth + j * V::kLanes) : V::Zero();
    }
  }
  for (int64_t line = 0; line < lines.lines; ++line) {
    const int64_t begin = lines.first + line * lines.pitch;
    for (int64_t at = begin; at < begin + lines.count; ++at) {
      V b_vec[kVecs];
      for (int j = 0; j < kVecs; ++j) b_vec[j] = V::Load(b + j * V::kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kM; ++i) {
        const V a_all = V::All(row[i][at]);
#pragma GCC unroll 3
        for (int j = 0; j < kVecs; ++j) {
          sum[i][j] = MulAdd(a_all, b_vec[j], sum[i][j]);
        }
      }
      b += kWidth;
    }
  }
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kVecs; ++j) {
      sum[i][j].Store(sums + i * kWidth + j * V::kLanes);
    }
  }
}

template <typename T, int kVecs>
void AddRows(int64_t m, const T* const* a, const Lines& lines, const T* b,
             T* sums, bool accumulate) {
  ForBlocks<internal::kBlockRows>(0, m, [&](auto rows, int64_t row) {
    AddBlock<T, rows(), kVecs>(a + row, lines, b,
                               sums + row * kVecs * Vec<T>::kLanes, accumulate);
  });
}

template <typename T>
void AddStrip(int64_t strip, int64_t m, const T* const* a, const Lines& lines,
              const T* b, T* sums, bool accumulate) {
  switch (strip / Vec<T>::kLanes) {
    case 1:
      return AddRows<T, 1>(m, a, lines, b, sums, accumulate);
    case 2:
      return AddRows<T, 2>(m, a, lines, b, sums, accumulate);
    default:
      return AddRows<T, 3>(m, a, lines, b, sums, accumulate);
  }
}

template <typename T>
void AddPart(const ConvGeometry& g, const Tasks<T>& tasks,
             const FloatWork<T>& work, const Part& part, const T* x,
             const T* dy, std::byte* scratch) {
  const int64_t rows = part.channels * tasks.taps;
  T* const of_dy = work.dy(scratch);
  const auto add = [&](const Strip& strip) {
    const Walks& walks = strip.band.walks;
    const int64_t elements = strip.band.columns() / strip.band.images;
    for (int64_t i = 0; i < strip.images; ++i) {
      Pack<T>(elements, strip.filters, DyOf(g, tasks.strip, part, strip, i, dy),
              of_dy + i * elements * tasks.strip, tasks.strip);
    }
    for (int64_t d = 0; d < walks[0].count; ++d) {
      const Lines lines = {strip.slab.Position(d, 0, 0),
                           strip.images * walks[2].count, walks[1].count,
                           strip.slab.Position(0, 1, 0)};
      AddStrip(tasks.strip, rows, work.row_pointers(scratch), lines,
               of_dy + d * (elements / walks[0].count) * tasks.strip,
               work.sums(scratch) + strip.number * rows * tasks.strip,
               strip.accumulate || d > 0);
    }
  };
  ForStrips(g, tasks, work, part, x, scratch, /*joins_images=*/true, add);
}

}  // namespace

template <typename T>
Bytes WeightGradScratch(const ConvGeometry& g, int threads) {
  const Tasks<T> tasks(g);
  return SplitsBytes(g, tasks) + threads * FloatWork<T>(g, tasks).bytes();
}

template <typename T>
void WeightGrad(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                std::byte* scratch, ThreadPool& pool) {
  const Tasks<T> tasks(g);
  const FloatWork<T> work(g, tasks);
  const int64_t size = SizeOfFilters(g);
  T* const of_splits = reinterpret_cast<T*>(scratch);
  scratch += SplitsBytes(g, tasks);
  pool.ParallelFor(tasks.splits * tasks.tasks, [&](int64_t task, int thread) {
    const Part part = tasks.PartOf(g, task);
    std::byte* const own = scratch + thread * work.bytes();
    AddPart(g, tasks, work, part, x, dy, own);
    StoreSums(
        g, tasks, part, work.sums(own), [&](int64_t) { return tasks.strip; },
        [](T sum) { return sum; },
        tasks.splits > 1 ? of_splits + task / tasks.tasks * size : dw);
  });
  if (tasks.splits == 1) return;
  ParallelRanges(pool, size, RowsPerChunk(tasks.splits),
                 [&](int64_t begin, int64_t end) {
                   AddSplits(tasks.splits, size, of_splits, begin, end - begin,
                             dw + begin);
                 });
}

template Bytes WeightGradScratch<float>(const ConvGeometry&, int);
template Bytes WeightGradScratch<double>(const ConvGeometry&, int);
template void WeightGrad(const ConvGeometry&, const float*, const float*,
                         float*, std::byte*, ThreadPool&);
template void WeightGrad(const ConvGeometry&, const double*, const double*,
                         double*, std::byte*, ThreadPool&);

// --- bf16 by pairs -----------------------------------------------------------

#ifdef STOWAGE_CPU_BF16_PAIRS

namespace {

constexpr int64_t kLanes = 16;

using Bf16Work = Work<uint16_t, float, uint32_t, 2 * kLanes>;

// sums (kM, kVecs registers) of a[i][element] times b (pair, kVecs registers), added to the
// previous sums with `accumulate`.
template <int kM, int kVecs>
[[gnu::target("avx512bf16")]] void AddPairs(const uint16_t* const* a,
                                            const Lines& lines,
                                            const uint32_t* b, float* sums,
                                            bool accumulate) {
  constexpr int64_t kWidth = kVecs * kLanes;
  __m512 sum[kM][kVecs];
  const uint16_t* row[kM];
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
    row[i] = a[i] + lines.first;
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      sum[i][j] = accumulate ? _mm512_loadu_ps(sums + i * kWidth + j * kLanes)
                             : _mm512_setzero_ps();
    }
  }
  for (int64_t line = 0; line < lines.lines; ++line) {
    const int64_t begin = line * lines.pitch;
    for (int64_t at = 0; at < lines.count; at += 2) {
      const bool is_alone = at + 1 == lines.count;
      __m512i b_vec[kVecs];
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) {
        b_vec[j] = _mm512_loadu_si512(b + j * kLanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kM; ++i) {
        uint32_t pair;
        std::memcpy(&pair, row[i] + begin + at, sizeof(pair));
        if (is_alone) pair &= 0xFFFF;
        const __m512i a_all = _mm512_set1_epi32(static_cast<int32_t>(pair));
#pragma GCC unroll 2
        for (int j = 0; j < kVecs; ++j) {
          sum[i][j] =
              _mm512_dpbf16_ps(sum[i][j], (__m512bh)a_all, (__m512bh)b_vec[j]);
        }
      }
      b += kWidth;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      _mm512_storeu_ps(sums + i * kWidth + j * kLanes, sum[i][j]);
    }
  }
}

template <int kVecs>
void AddPairRows(int64_t m, const uint16_t* const* a, const Lines& lines,
                 const uint32_t* b, float* sums, bool accumulate) {
  ForBlocks<kPanelRows>(0, m, [&](auto rows, int64_t row) {
    AddPairs<rows(), kVecs>(a + row, lines, b, sums + row * kVecs * kLanes,
                            accumulate);
  });
}

// dy (element, filter) as pairs of the elements of each line.
PairColumns PackLines(int64_t lines, int64_t count, int64_t n,
                      Strided<const uint16_t> dy, uint32_t* packed) {
  if (count % 2 == 0) return PackColumns(lines * count, n, dy, packed);
  PairColumns columns = {};
  for (int64_t line = 0; line < lines; ++line) {
    columns = PackColumns(count, n, dy.At(line * count, 0),
                          packed + line * Pairs(count) * columns.row);
  }
  return {packed, columns.row};
}

// Columns of a strip of n filters, in whole registers.
int64_t WidthOf(int64_t n) { return CeilDiv(n, kLanes) * kLanes; }

void AddPart(const ConvGeometry& g, const Tasks<float>& tasks,
             const Bf16Work& work, const Part& part, const uint16_t* x,
             const uint16_t* dy, std::byte* scratch) {
  const int64_t rows = part.channels * tasks.taps;
  const auto add = [&](const Strip& strip) {
    const Walks& walks = strip.band.walks;
    const int64_t lines = walks[1].count;
    const int64_t count = walks[2].count;
    const PairColumns columns =
        PackLines(walks[0].count * lines, count, strip.filters,
                  DyOf<const uint16_t>(g, tasks.strip, part, strip, 0, dy),
                  work.dy(scratch));
    for (int64_t d = 0; d < walks[0].count; ++d) {
      const Lines of_plane = {strip.slab.Position(d, 0, 0), count, lines,
                              strip.slab.Position(0, 1, 0)};
      const auto add_rows =
          strip.filters > kLanes ? AddPairRows<2> : AddPairRows<1>;
      add_rows(rows, work.row_pointers(scratch), of_plane,
               columns.data + d * lines * Pairs(count) * columns.row,
               work.sums(scratch) + strip.number * rows * tasks.strip,
               strip.accumulate || d > 0);
    }
  };
  ForStrips(g, tasks, work, part, x, scratch, /*joins_images=*/false, add);
}

}  // namespace

Bytes Bf16WeightGradScratch(const ConvGeometry& g, int threads) {
  const Tasks<float> tasks(g);
  return SplitsBytes(g, tasks) + threads * Bf16Work(g, tasks).bytes();
}

void Bf16WeightGrad(const ConvGeometry& g, const uint16_t* x,
                    const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                    ThreadPool& pool) {
  const Tasks<float> tasks(g);
  const Bf16Work work(g, tasks);
  const int64_t size = SizeOfFilters(g);
  auto* const of_splits = reinterpret_cast<float*>(scratch);
  scratch += SplitsBytes(g, tasks);
  pool.ParallelFor(tasks.splits * tasks.tasks, [&](int64_t task, int thread) {
    const Part part = tasks.PartOf(g, task);
    std::byte* const own = scratch + thread * work.bytes();
    AddPart(g, tasks, work, part, x, dy, own);
    if (tasks.splits == 1) {
      StoreSums(g, tasks, part, work.sums(own), WidthOf, math::FloatToBFloat16,
                dw);
    } else {
      StoreSums(
          g, tasks, part, work.sums(own), WidthOf,
          [](float sum) { return sum; }, of_splits + task / tasks.tasks * size);
    }
  });
  if (tasks.splits == 1) return;
  ParallelRanges(
      pool, size, RowsPerChunk(tasks.splits), [&](int64_t begin, int64_t end) {
        constexpr int64_t kBlock = 256;
        float block[kBlock];
        for (int64_t first = begin; first < end; first += kBlock) {
          const int64_t count = std::min(kBlock, end - first);
          AddSplits(tasks.splits, size, of_splits, first, count, block);
          Narrow(DType::kBF16, count, block,
                 reinterpret_cast<std::byte*>(dw + first));
        }
      });
}

#endif  // STOWAGE_CPU_BF16_PAIRS

}  // namespace stowage::cpu
