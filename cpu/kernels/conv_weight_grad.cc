#include "cpu/kernels/conv_weight_grad.h"

#include <algorithm>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/conv_weight_tasks.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

// Scratch of a thread: sums (strip, row, filter); a strip of dy, transposed (element,
// filter); rows as pointers into slabs; taps' places in a slab; slabs, with what is
// written beyond.
template <typename T>
struct Work {
  int64_t of_sums, of_dy, rows, taps, of_slabs;

  Work(const ConvGeometry& g, const Tasks<T>& tasks)
      : rows(tasks.rows()), taps(tasks.taps) {
    const Bands bands = tasks.BandsOf(g, tasks.split_images);
    of_sums = rows * tasks.strips() * tasks.strip;
    of_dy = bands.columns() * tasks.strip;
    of_slabs = tasks.channels * bands.SlabElements() + Vec<T>::kLanes;
  }

  Bytes bytes() const {
    return AlignUp(
        (of_sums + of_dy + of_slabs) * static_cast<Bytes>(sizeof(T)) +
            rows * static_cast<Bytes>(sizeof(T*)) +
            taps * static_cast<Bytes>(sizeof(int64_t)),
        kWorkspaceAlignment);
  }
  const T** row_pointers(std::byte* scratch) const {
    return reinterpret_cast<const T**>(scratch);
  }
  int64_t* offsets(std::byte* scratch) const {
    return reinterpret_cast<int64_t*>(row_pointers(scratch) + rows);
  }
  T* sums(std::byte* scratch) const {
    return reinterpret_cast<T*>(offsets(scratch) + taps);
  }
  T* transposed_dy(std::byte* scratch) const { return sums(scratch) + of_sums; }
  T* slabs(std::byte* scratch) const { return transposed_dy(scratch) + of_dy; }
};

// sums (kM, kVecs registers) of a[i][element] times b (element, kVecs registers), added
// to what is there with `accumulate`.
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

// The same for any number of rows, by ever smaller blocks.
template <typename T, int kM, int kVecs>
void AddRows(int64_t m, const T* const* a, const Lines& lines, const T* b,
             T* sums, bool accumulate) {
  constexpr int64_t kWidth = kVecs * Vec<T>::kLanes;
  int64_t i = 0;
  for (; i + kM <= m; i += kM) {
    AddBlock<T, kM, kVecs>(a + i, lines, b, sums + i * kWidth, accumulate);
  }
  if constexpr (kM > 1) {
    if (i < m) {
      AddRows<T, kM / 2, kVecs>(m - i, a + i, lines, b, sums + i * kWidth,
                                accumulate);
    }
  }
}

template <typename T>
void AddStrip(int64_t strip, int64_t m, const T* const* a, const Lines& lines,
              const T* b, T* sums, bool accumulate) {
  constexpr int kM = internal::kBlockRows;
  switch (strip / Vec<T>::kLanes) {
    case 1:
      return AddRows<T, kM, 1>(m, a, lines, b, sums, accumulate);
    case 2:
      return AddRows<T, kM, 2>(m, a, lines, b, sums, accumulate);
    default:
      return AddRows<T, kM, 3>(m, a, lines, b, sums, accumulate);
  }
}

template <typename T>
void AddPart(const ConvGeometry& g, const Tasks<T>& tasks, const Work<T>& work,
             const Part& part, const T* x, const T* dy, std::byte* scratch) {
  const int64_t all_channels = g.groups * g.channels;
  const T* const x_end = x + g.images * all_channels * g.in_size();
  const Bands bands = tasks.BandsOf(g, part.end - part.begin);
  const int64_t rows = part.channels * tasks.taps;
  const int64_t strips = CeilDiv(part.filters, tasks.strip);
  const T** const a = work.row_pointers(scratch);
  int64_t* const offsets = work.offsets(scratch);
  T* const sums = work.sums(scratch);
  T* const of_dy = work.transposed_dy(scratch);
  T* const slabs = work.slabs(scratch);
  bool accumulate = false;
  for (int64_t i = 0; i < bands.count(); ++i) {
    Band band = bands.At(i);
    band.first_image += part.begin;
    const Slab slab(band.walks);
    FillSlabs(band, slab, x, x_end, part.group * g.channels + part.channel,
              part.channels, all_channels, offsets, slabs);
    const int64_t elements = band.columns() / band.images;
    const int64_t of_plane = elements / band.walks[0].count;
    // Images whose elements are neighbours in a slab are one long line.
    const int64_t at_once = AreLongLines(band.walks) ? band.images : 1;
    for (int64_t image = 0; image < band.images; image += at_once) {
      for (int64_t row = 0; row < rows; ++row) {
        a[row] = slabs +
                 (row / tasks.taps * band.images + image) * slab.size() +
                 offsets[row % tasks.taps];
      }
      for (int64_t s = 0; s < strips; ++s) {
        const int64_t n = std::min(tasks.strip, part.filters - s * tasks.strip);
        for (int64_t of_line = 0; of_line < at_once; ++of_line) {
          const int64_t first_filter =
              ((band.first_image + image + of_line) * g.groups + part.group) *
                  g.filters +
              part.filter + s * tasks.strip;
          Pack<T>(elements, n,
                  {dy + first_filter * g.out_size() + band.to_first(), 1,
                   g.out_size()},
                  of_dy + of_line * elements * tasks.strip, tasks.strip);
        }
        for (int64_t d = 0; d < band.walks[0].count; ++d) {
          const Lines lines = {slab.Position(d, 0, 0),
                               at_once * band.walks[2].count,
                               band.walks[1].count, slab.Position(0, 1, 0)};
          AddStrip(tasks.strip, rows, a, lines,
                   of_dy + d * of_plane * tasks.strip,
                   sums + s * rows * tasks.strip, accumulate || d > 0);
        }
      }
      accumulate = true;
    }
  }
}

}  // namespace

template <typename T>
Bytes WeightGradScratch(const ConvGeometry& g, int threads) {
  const Tasks<T> tasks(g);
  const int64_t of_splits =
      tasks.splits == 1
          ? 0
          : tasks.splits * g.groups * g.filters * g.channels * tasks.taps;
  return AlignUp(of_splits * static_cast<Bytes>(sizeof(T)),
                 kWorkspaceAlignment) +
         threads * Work<T>(g, tasks).bytes();
}

template <typename T>
void WeightGrad(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                std::byte* scratch, ThreadPool& pool) {
  const Tasks<T> tasks(g);
  const Work<T> work(g, tasks);
  const int64_t size = g.groups * g.filters * g.channels * tasks.taps;
  T* const of_splits = reinterpret_cast<T*>(scratch);
  if (tasks.splits > 1) {
    scratch += AlignUp(tasks.splits * size * static_cast<Bytes>(sizeof(T)),
                       kWorkspaceAlignment);
  }
  pool.ParallelFor(tasks.splits * tasks.tasks, [&](int64_t task, int thread) {
    const int64_t split = task / tasks.tasks;
    T* const to = tasks.splits > 1 ? of_splits + split * size : dw;
    const Part part = tasks.PartOf(g, task);
    std::byte* const own = scratch + thread * work.bytes();
    AddPart(g, tasks, work, part, x, dy, own);
    const T* const sums = work.sums(own);
    const int64_t rows = part.channels * tasks.taps;
    for (int64_t f = 0; f < part.filters; ++f) {
      const T* from =
          sums + f / tasks.strip * rows * tasks.strip + f % tasks.strip;
      T* line = to + ((part.group * g.filters + part.filter + f) * g.channels +
                      part.channel) *
                         tasks.taps;
      for (int64_t row = 0; row < rows; ++row) {
        line[row] = from[row * tasks.strip];
      }
    }
  });
  if (tasks.splits == 1) return;
  ParallelRanges(pool, size, RowsPerChunk(tasks.splits),
                 [&](int64_t begin, int64_t end) {
                   ForEachVec<T>(end - begin, [&](auto at) {
                     Vec<T> sum = at.Load(of_splits + begin);
                     for (int64_t split = 1; split < tasks.splits; ++split) {
                       sum += at.Load(of_splits + split * size + begin);
                     }
                     at.Store(dw + begin, sum);
                   });
                 });
}

template Bytes WeightGradScratch<float>(const ConvGeometry&, int);
template Bytes WeightGradScratch<double>(const ConvGeometry&, int);
template void WeightGrad(const ConvGeometry&, const float*, const float*,
                         float*, std::byte*, ThreadPool&);
template void WeightGrad(const ConvGeometry&, const double*, const double*,
                         double*, std::byte*, ThreadPool&);

}  // namespace stowage::cpu
