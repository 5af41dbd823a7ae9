#include "cpu/kernels/bf16_conv_weight_grad.h"

#include "cpu/kernels/bf16_gemm.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/conv_weight_tasks.h"
#include "cpu/kernels/half_floats.h"
#include "cpu/kernels/vec.h"
#include "ir/tensor_type.h"
#include "math/small_floats.h"

namespace stowage::cpu {
namespace {

constexpr int64_t kLanes = 16;

using SumTasks = Tasks<float>;

// Scratch of a thread: rows as pointers into slabs; taps' places in a slab; sums (strip,
// row, filter); pairs of a strip of dy; slabs, with what is written and read beyond.
class Work {
 public:
  Work(const ConvGeometry& g, const SumTasks& tasks)
      : rows_(tasks.rows()), taps_(tasks.taps) {
    const Bands bands = tasks.BandsOf(g, tasks.split_images);
    sums_ = rows_ * tasks.strips() * tasks.strip;
    dy_ = bands.columns() * tasks.strip;
    slabs_ = tasks.channels * bands.SlabElements() + 2 * kLanes;
  }

  Bytes bytes() const {
    return AlignUp(8 * (rows_ + taps_) + 4 * (sums_ + dy_) + 2 * slabs_,
                   kWorkspaceAlignment);
  }
  const uint16_t** row_pointers(std::byte* scratch) const {
    return reinterpret_cast<const uint16_t**>(scratch);
  }
  int64_t* offsets(std::byte* scratch) const {
    return reinterpret_cast<int64_t*>(row_pointers(scratch) + rows_);
  }
  float* sums(std::byte* scratch) const {
    return reinterpret_cast<float*>(offsets(scratch) + taps_);
  }
  uint32_t* dy(std::byte* scratch) const {
    return reinterpret_cast<uint32_t*>(sums(scratch) + sums_);
  }
  uint16_t* slabs(std::byte* scratch) const {
    return reinterpret_cast<uint16_t*>(dy(scratch) + dy_);
  }

 private:
  int64_t rows_, taps_, sums_, dy_, slabs_;
};

// sums (kM, kVecs registers) of a[i][element] times b (pair, kVecs registers), added to what
// is there with `accumulate`.
template <int kM, int kVecs>
[[gnu::target("avx512bf16")]] void AddBlock(const uint16_t* const* a,
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

// The same for any number of rows, by ever smaller blocks.
template <int kM, int kVecs>
void AddRows(int64_t m, const uint16_t* const* a, const Lines& lines,
             const uint32_t* b, float* sums, bool accumulate) {
  constexpr int64_t kWidth = kVecs * kLanes;
  int64_t i = 0;
  for (; i + kM <= m; i += kM) {
    AddBlock<kM, kVecs>(a + i, lines, b, sums + i * kWidth, accumulate);
  }
  if constexpr (kM > 1) {
    if (i < m) {
      AddRows<kM / 2, kVecs>(m - i, a + i, lines, b, sums + i * kWidth,
                             accumulate);
    }
  }
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

void AddPart(const ConvGeometry& g, const SumTasks& tasks, const Work& work,
             const Part& part, const uint16_t* x, const uint16_t* dy,
             std::byte* scratch) {
  const int64_t all_channels = g.groups * g.channels;
  const uint16_t* const x_end = x + g.images * all_channels * g.in_size();
  const Bands bands = tasks.BandsOf(g, part.end - part.begin);
  const int64_t rows = part.channels * tasks.taps;
  const int64_t strips = CeilDiv(part.filters, tasks.strip);
  const uint16_t** const a = work.row_pointers(scratch);
  int64_t* const offsets = work.offsets(scratch);
  bool accumulate = false;
  for (int64_t i = 0; i < bands.count(); ++i) {
    Band band = bands.At(i);
    band.first_image += part.begin;
    const Slab slab(band.walks);
    uint16_t* const slabs = work.slabs(scratch);
    FillSlabs(band, slab, x, x_end, part.group * g.channels + part.channel,
              part.channels, all_channels, offsets, slabs);
    const int64_t planes = band.walks[0].count;
    const int64_t lines = band.walks[1].count;
    const int64_t count = band.walks[2].count;
    for (int64_t image = 0; image < band.images; ++image) {
      const int64_t first_filter =
          ((band.first_image + image) * g.groups + part.group) * g.filters +
          part.filter;
      for (int64_t row = 0; row < rows; ++row) {
        a[row] = slabs +
                 (row / tasks.taps * band.images + image) * slab.size() +
                 offsets[row % tasks.taps];
      }
      for (int64_t s = 0; s < strips; ++s) {
        const int64_t n = std::min(tasks.strip, part.filters - s * tasks.strip);
        const PairColumns columns =
            PackLines(planes * lines, count, n,
                      {dy + (first_filter + s * tasks.strip) * g.out_size() +
                           band.to_first(),
                       1, g.out_size()},
                      work.dy(scratch));
        float* const sums = work.sums(scratch) + s * rows * tasks.strip;
        for (int64_t d = 0; d < planes; ++d) {
          const Lines of_plane = {slab.Position(d, 0, 0), count, lines,
                                  slab.Position(0, 1, 0)};
          const uint32_t* const b =
              columns.data + d * lines * Pairs(count) * columns.row;
          const auto add =
              n > kLanes ? AddRows<kPanelRows, 2> : AddRows<kPanelRows, 1>;
          add(rows, a, of_plane, b, sums, accumulate || d > 0);
        }
      }
      accumulate = true;
    }
  }
}

// f(filter, row, sum) for all that a task has made.
template <typename F>
void ForSums(const SumTasks& tasks, const Part& part, const float* sums,
             const F& f) {
  const int64_t rows = part.channels * tasks.taps;
  for (int64_t filter = 0; filter < part.filters; ++filter) {
    const int64_t first = filter / tasks.strip * tasks.strip;
    const int64_t width = WidthOf(std::min(tasks.strip, part.filters - first));
    const float* from = sums + first * rows + filter - first;
    for (int64_t row = 0; row < rows; ++row) f(filter, row, from[row * width]);
  }
}

// The sums of splits, added in order, rounded.
void AddSplits(int64_t splits, int64_t size, const float* of_splits,
               uint16_t* dw, ThreadPool& pool) {
  ParallelRanges(pool, size, RowsPerChunk(splits),
                 [&](int64_t begin, int64_t end) {
                   constexpr int64_t kBlock = 256;
                   float block[kBlock];
                   for (int64_t first = begin; first < end; first += kBlock) {
                     const int64_t count = std::min(kBlock, end - first);
                     ForEachVec<float>(count, [&](auto at) {
                       Vec<float> sum = at.Load(of_splits + first);
                       for (int64_t split = 1; split < splits; ++split) {
                         sum += at.Load(of_splits + split * size + first);
                       }
                       at.Store(block, sum);
                     });
                     Narrow(DType::kBF16, count, block,
                            reinterpret_cast<std::byte*>(dw + first));
                   }
                 });
}

int64_t SizeOfFilters(const ConvGeometry& g) {
  return g.groups * g.filters * g.channels * g.kernel_size();
}

Bytes SplitsBytes(const ConvGeometry& g, const SumTasks& tasks) {
  if (tasks.splits == 1) return 0;
  return AlignUp(tasks.splits * SizeOfFilters(g) * 4, kWorkspaceAlignment);
}

}  // namespace

Bytes Bf16WeightGradScratch(const ConvGeometry& g, int threads) {
  const SumTasks tasks(g);
  return SplitsBytes(g, tasks) + threads * Work(g, tasks).bytes();
}

void Bf16WeightGrad(const ConvGeometry& g, const uint16_t* x,
                    const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                    ThreadPool& pool) {
  const SumTasks tasks(g);
  const Work work(g, tasks);
  const int64_t size = SizeOfFilters(g);
  auto* const of_splits = reinterpret_cast<float*>(scratch);
  scratch += SplitsBytes(g, tasks);
  pool.ParallelFor(tasks.splits * tasks.tasks, [&](int64_t task, int thread) {
    const Part part = tasks.PartOf(g, task);
    std::byte* const own = scratch + thread * work.bytes();
    AddPart(g, tasks, work, part, x, dy, own);
    const int64_t pitch = g.channels * tasks.taps;
    const int64_t first = (part.group * g.filters + part.filter) * pitch +
                          part.channel * tasks.taps;
    const auto put = [&](auto* to, const auto& round) {
      ForSums(tasks, part, work.sums(own),
              [&](int64_t filter, int64_t row, float sum) {
                to[first + filter * pitch + row] = round(sum);
              });
    };
    if (tasks.splits == 1) {
      put(dw, math::FloatToBFloat16);
    } else {
      put(of_splits + task / tasks.tasks * size, [](float sum) { return sum; });
    }
  });
  if (tasks.splits > 1) AddSplits(tasks.splits, size, of_splits, dw, pool);
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS
