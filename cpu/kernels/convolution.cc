// conv, conv_transpose and conv_weight_grad as matrix products, of which one
// operand is gathered from a picture while the product runs.
//
// conv and conv_transpose are the same product. Its rows are the result's
// channels, its columns the elements of all images in one run, and its depth is
// (channel of the source, element of the kernel). A task brings what a band of
// columns meets into slabs (conv_walks.h), and from there gathers strips of
// columns, a block of depth at a time, for the loops of gemm.h. With a stride, the result
// of conv_transpose falls into phases: elements whose place leaves the same rest
// by the stride meet the same elements of the kernel, at neighbouring places of
// the source, so each phase is a product of its own without multiplications by
// zero. Filters are brought into the order of its sums first.
//
// conv_weight_grad has dw as its result: the columns are (channel, element of the
// kernel), and the depth is the elements of dy of all images.
//
// Small maps (conv_by_batch.h) and groups of one channel (conv_depthwise.h,
// conv_depthwise_by_batch.h) have ways of their own.
//
// Every element of a result is one chain of multiply-adds in an order that shapes
// alone decide; the gradient's is cut into at most kMostSplits chains by images,
// which are added in order.

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/conv_by_batch.h"
#include "cpu/kernels/conv_depthwise.h"
#include "cpu/kernels/conv_depthwise_by_batch.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/vec.h"
#include "ir/conv_geometry.h"

namespace stowage::cpu {
namespace {

// --- conv and conv_transpose -------------------------------------------------

constexpr int64_t kMostRows = 256;  // of a task

// A product whose columns are gathered: for every group,
// to (rows, elements) = filters (rows, channels * taps) times the gathered.
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

template <typename T>
Bands GatherBands(const ConvGeometry& g, const Walks& walks, int64_t channels) {
  return Bands(walks, g.images, channels, 8 * kStripColumns<T>,
               kStripColumns<T>);
}

// Neighbours among columns that are neighbours in a slab.
struct Run {
  int64_t from, to, count;
};

// Those of columns [column, column + n) of a band, where an image's slab lies
// behind the one before; their number.
int64_t FindRuns(const Band& band, const Slab& slab, int64_t column, int64_t n,
                 Run* runs) {
  const Run* const first = runs;
  Cursor at(band.walks, column);
  for (int64_t done = 0; done < n; at.NextLine(band.walks)) {
    const int64_t count = std::min(n - done, band.walks[2].count - at.w);
    *runs++ = {at.image * slab.size() + slab.Position(at.d, at.h, at.w), done,
               count};
    done += count;
  }
  return runs - first;
}

// Copies what a tap meets; each run may write over the next one's place.
template <typename T>
void CopyRuns(const Run* runs, int64_t count, const T* from, T* to) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < runs[r].count; i += Vec<T>::kLanes) {
      Vec<T>::Load(from + runs[r].from + i).Store(to + runs[r].to + i);
    }
  }
}

// Fills the slabs of a band's images, for `channels` channels from `first` on, of
// `all` there are. Finds the places of all taps.
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
  for (int64_t c = 0; c < channels; ++c) {  // each is written a little beyond
    for (int64_t image = 0; image < band.images; ++image) {
      slab.Fill(source + ((band.first_image + image) * all + first + c) * size,
                source_end, slabs);
      slabs += slab.size();
    }
  }
}

// Scratch of a thread: a block of gathered rows, with what is written beyond;
// results that do not lie in the order of columns; taps' places in a slab; slabs,
// with what is read beyond.
template <typename T>
struct GatherScratch {
  static constexpr int64_t kPacked =
      kBlockDepth<T> * kStripColumns<T> + Vec<T>::kLanes;
  static constexpr int64_t kResults = kMostRows * kStripColumns<T>;

  static Bytes BytesOf(const ConvGeometry& g, const Walks& walks,
                       int64_t channels) {
    const Bands bands = GatherBands<T>(g, walks, channels);
    const int64_t elements =
        kPacked + kResults + Vec<T>::kLanes + channels * bands.SlabElements();
    return AlignUp(elements * static_cast<Bytes>(sizeof(T)) +
                       Product(walks, &Walk::taps) * SizeOf(DType::kI64),
                   kWorkspaceAlignment);
  }

  GatherScratch(std::byte* scratch, int64_t taps)
      : offsets(reinterpret_cast<int64_t*>(scratch)),
        packed(reinterpret_cast<T*>(offsets + taps)),
        results(packed + kPacked),
        slabs(results + kResults) {}

  int64_t* offsets;
  T *packed, *results, *slabs;
};

// Gathers rows [first, first + depth) of a strip, (channel, tap) each.
template <typename T>
void PackStrip(std::span<const Run> runs, const T* slabs, int64_t channel_size,
               std::span<const int64_t> offsets, int64_t first, int64_t depth,
               T* packed) {
  const auto taps = static_cast<int64_t>(offsets.size());
  if (depth == 0) return;
  int64_t tap = first % taps;
  const T* channel = slabs + first / taps * channel_size;
  for (int64_t p = 0; p < depth; ++p) {
    const T* from = channel + offsets[static_cast<size_t>(tap)];
    CopyRuns(runs.data(), static_cast<int64_t>(runs.size()), from,
             packed + p * kStripColumns<T>);
    if (++tap == taps) {
      tap = 0;
      channel += channel_size;
    }
  }
}

// From a strip of results to their places.
template <typename T>
void Scatter(const GatheredProduct<T>& product, const Band& band,
             int64_t first_channel, int64_t rows, int64_t column, int64_t n,
             const T* results) {
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
      const T* from = results + row * kStripColumns<T> + done;
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

// Rows [row, row + m) of a group, for all columns of a band.
template <typename T>
void MakeBand(const GatheredProduct<T>& product, const Band& band,
              int64_t group, int64_t row, int64_t m,
              const GatherScratch<T>& scratch) {
  const ConvGeometry& g = product.g;
  const Walks& walks = band.walks;
  const int64_t elements = Product(walks, &Walk::count);
  const int64_t to_size = Product(walks, &Walk::to_size);
  const int64_t depth = product.depth();
  const int64_t taps = product.taps();
  const bool whole = band.in_order();

  const Slab slab(walks);
  const int64_t channel_size = band.images * slab.size();
  FillSlabs(band, slab, product.source, product.source_end,
            group * product.channels, product.channels,
            g.groups * product.channels, scratch.offsets, scratch.slabs);

  Strided<T> filters = product.filters.At(row, 0);
  filters.data += group * product.filters_stride;
  const int64_t channel = group * product.rows + row;
  for (int64_t column = 0; column < band.columns();
       column += kStripColumns<T>) {
    const int64_t n = std::min(kStripColumns<T>, band.columns() - column);
    Run runs[kStripColumns<T>];
    const int64_t count = FindRuns(band, slab, column, n, runs);
    const int64_t image = column / elements;
    const bool in_place = whole && (column + n - 1) / elements == image;
    const Rows<T> to = in_place
                           ? Rows<T>{product.to +
                                         ((band.first_image + image) *
                                              g.groups * product.rows +
                                          channel) *
                                             to_size +
                                         band.to_first() + column % elements,
                                     to_size}
                           : Rows<T>{scratch.results, kStripColumns<T>};
    for (int64_t p = 0; p == 0 || p < depth; p += kBlockDepth<T>) {
      const int64_t block = std::min(kBlockDepth<T>, depth - p);
      PackStrip<T>({runs, static_cast<size_t>(count)}, scratch.slabs,
                   channel_size, {scratch.offsets, static_cast<size_t>(taps)},
                   p, block, scratch.packed);
      MultiplyStrip<T>(m, n, block, filters.At(0, p),
                       {scratch.packed, kStripColumns<T>, /*padded=*/true}, to,
                       /*accumulate=*/p > 0);
    }
    if (in_place) continue;
    Scatter(product, band, channel, m, column, n, scratch.results);
  }
}

template <typename T>
void RunGathered(const GatheredProduct<T>& product, std::byte* scratch,
                 ThreadPool& pool) {
  const ConvGeometry& g = product.g;
  const Bands bands = GatherBands<T>(g, product.walks, product.channels);
  const Bytes of_thread =
      GatherScratch<T>::BytesOf(g, product.walks, product.channels);
  const int64_t task_rows = RowsPerTask(product.rows, g.groups * bands.count());
  const int64_t row_chunks = CeilDiv(product.rows, task_rows);
  pool.ParallelFor(g.groups * row_chunks * bands.count(), [&](int64_t task,
                                                              int thread) {
    const int64_t band = task % bands.count();
    task /= bands.count();
    const int64_t row = task % row_chunks * task_rows;
    MakeBand(product, bands.At(band), task / row_chunks, row,
             std::min(task_rows, product.rows - row),
             GatherScratch<T>(scratch + thread * of_thread, product.taps()));
  });
}

template <typename T>
void RunConvOf(const Launch& launch, ThreadPool& pool) {
  const TensorView& x = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const ConvGeometry g(x.shape(), w.shape(), y.shape(), *launch.attrs);
  if (TakesDepthwiseByBatch<T>(g)) {
    return DepthwiseByBatch(g, /*to_x=*/false, x.as<const T>(), w.as<const T>(),
                            y.as<T>(), launch.workspace.data(), pool);
  }
  if (IsDepthwise(g)) {
    return Depthwise(g, ForwardWalks(g), x.as<const T>(), w.as<const T>(),
                     y.as<T>(), launch.workspace.data(), pool);
  }
  if (TakesByBatch<T>(g)) {
    return ConvByBatch(g, /*to_x=*/false, x.as<const T>(), w.as<const T>(),
                       y.as<T>(), launch.workspace.data(), pool);
  }
  const int64_t depth = g.channels * g.kernel_size();
  RunGathered<T>({.g = g,
                  .walks = ForwardWalks(g),
                  .source = x.as<const T>(),
                  .source_end = x.as<const T>() + x.size(),
                  .channels = g.channels,
                  .rows = g.filters,
                  .filters = {w.as<const T>(), depth, 1},
                  .filters_stride = g.filters * depth,
                  .to = y.as<T>()},
                 launch.workspace.data(), pool);
}

// The filters that a phase needs, for group after group: rows are x's channels,
// columns (filter, tap). Both are taken a few at a time, so that lines of the
// cache are used while they are there.
template <typename T>
void PackFilters(const ConvGeometry& g, const Walks& walks, const T* w,
                 T* packed, ThreadPool& pool) {
  constexpr int64_t kBlock = 16;
  const int64_t taps = Product(walks, &Walk::taps);
  const int64_t kernel = g.kernel_size();
  const int64_t blocks = CeilDiv(g.channels, kBlock);
  pool.ParallelFor(g.groups * blocks, [&](int64_t task, int) {
    const int64_t group = task / blocks;
    const int64_t begin = task % blocks * kBlock;
    const int64_t count = std::min(kBlock, g.channels - begin);
    const T* from = w + (group * g.filters * g.channels + begin) * kernel;
    T* to = packed + (group * g.channels + begin) * g.filters * taps;
    for (int64_t first = 0; first < g.filters; first += kBlock) {
      const int64_t end = std::min(g.filters, first + kBlock);
      Tap tap(walks, 0);
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t at = KernelPlace(g, walks, tap);
        for (int64_t f = first; f < end; ++f) {
          for (int64_t c = 0; c < count; ++c) {
            to[(c * g.filters + f) * taps + t] =
                from[(f * g.channels + c) * kernel + at];
          }
        }
        tap.Next(walks);
      }
    }
  });
}

template <typename T>
void RunConvTransposeOf(const Launch& launch, ThreadPool& pool) {
  const TensorView& dy = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& x = launch.outputs[0];
  const ConvGeometry g(x.shape(), w.shape(), dy.shape(), *launch.attrs);
  if (TakesDepthwiseByBatch<T>(g)) {
    return DepthwiseByBatch(g, /*to_x=*/true, dy.as<const T>(), w.as<const T>(),
                            x.as<T>(), launch.workspace.data(), pool);
  }
  if (TakesByBatch<T>(g)) {
    return ConvByBatch(g, /*to_x=*/true, dy.as<const T>(), w.as<const T>(),
                       x.as<T>(), launch.workspace.data(), pool);
  }
  T* packed = reinterpret_cast<T*>(launch.workspace.data());
  std::byte* scratch =
      launch.workspace.data() + AlignUp(w.type.bytes(), kWorkspaceAlignment);
  ForPhases(g, [&](const Walks& walks) {
    if (IsDepthwise(g)) {
      return Depthwise(g, walks, dy.as<const T>(), w.as<const T>(), x.as<T>(),
                       launch.workspace.data(), pool);
    }
    const int64_t depth = g.filters * Product(walks, &Walk::taps);
    if (depth > 0) PackFilters(g, walks, w.as<const T>(), packed, pool);
    RunGathered<T>({.g = g,
                    .walks = walks,
                    .source = dy.as<const T>(),
                    .source_end = dy.as<const T>() + dy.size(),
                    .channels = g.filters,
                    .rows = g.channels,
                    .filters = {packed, depth, 1},
                    .filters_stride = g.channels * depth,
                    .to = x.as<T>()},
                   scratch, pool);
  });
}

// --- conv_weight_grad --------------------------------------------------------

constexpr int64_t kMostSplits = 16;

// How dw is made: tasks are (split of the images, group, chunk of rows, strip of
// columns).
template <typename T>
struct WeightGradTasks {
  int64_t columns, strips;
  int64_t task_rows, row_chunks;
  int64_t tasks;  // of one split
  int64_t splits;
  int64_t split_images;  // images of one split, the last has fewer
  int64_t channels;      // that a strip touches, at most
  int64_t taps;

  explicit WeightGradTasks(const ConvGeometry& g)
      : columns(g.channels * g.kernel_size()),
        strips(CeilDiv(columns, kStripColumns<T>)),
        task_rows(RowsPerTask(g.filters, g.groups * strips)),
        row_chunks(CeilDiv(g.filters, task_rows)),
        tasks(g.groups * row_chunks * strips),
        split_images(
            CeilDiv(g.images, std::min(g.images, CeilDiv(kMostSplits, tasks)))),
        channels(std::min(g.channels, kStripColumns<T> / g.kernel_size() + 2)),
        taps(g.kernel_size()) {
    splits = CeilDiv(g.images, split_images);
  }

  // dy's elements, of some images, are taken a band at a time.
  Bands BandsOf(const Walks& walks, int64_t images) const {
    return Bands(walks, images, channels, kBlockDepth<T> / 2, Vec<T>::kLanes);
  }

  // Scratch: sums of splits, if there are several; for each thread the places of
  // taps, the gathered columns as rows, these transposed, and slabs.
  Bytes sums(const ConvGeometry& g) const {
    if (splits == 1) return 0;
    return AlignUp(
        splits * g.groups * g.filters * columns * static_cast<Bytes>(sizeof(T)),
        kWorkspaceAlignment);
  }
  // Of a row: beside a power of two, where rows would displace each other.
  static int64_t Pitch(const Bands& bands) {
    constexpr int64_t kLanes = Vec<T>::kLanes;
    return CeilDiv(bands.columns(), kLanes) * kLanes + kLanes;
  }
  Bytes of_thread(const Walks& walks) const {
    const Bands bands = BandsOf(walks, split_images);
    const int64_t elements = 2 * Pitch(bands) * kStripColumns<T> +
                             channels * bands.SlabElements() + Vec<T>::kLanes;
    return AlignUp(elements * static_cast<Bytes>(sizeof(T)) +
                       (taps + bands.columns() * 3) * SizeOf(DType::kI64),
                   kWorkspaceAlignment);
  }
};

// dw's columns [column, column + n), rows [row, row + m) of a group, from images
// [begin, end).
template <typename T>
void AddWeightGrad(const ConvGeometry& g, const Walks& walks, const T* x,
                   const T* dy, int64_t group, int64_t row, int64_t m,
                   int64_t column, int64_t n, int64_t begin, int64_t end,
                   const WeightGradTasks<T>& tasks, std::byte* scratch,
                   Rows<T> dw) {
  const int64_t all_channels = g.groups * g.channels;
  const T* const x_end = x + g.images * all_channels * g.in_size();
  const int64_t first_channel = column / tasks.taps;
  const int64_t channels = (column + n - 1) / tasks.taps - first_channel + 1;
  const Bands bands = tasks.BandsOf(walks, end - begin);
  const int64_t pitch = WeightGradTasks<T>::Pitch(bands);
  auto* const offsets = reinterpret_cast<int64_t*>(scratch);
  auto* const runs = reinterpret_cast<Run*>(offsets + tasks.taps);
  T* const rows = reinterpret_cast<T*>(runs + bands.columns());
  T* const packed = rows + pitch * kStripColumns<T>;
  T* const slabs = packed + pitch * kStripColumns<T>;
  for (int64_t b = 0; b < bands.count(); ++b) {
    Band band = bands.At(b);
    band.first_image += begin;
    const Slab slab(band.walks);
    FillSlabs(band, slab, x, x_end, group * g.channels + first_channel,
              channels, all_channels, offsets, slabs);
    const int64_t depth = band.columns();
    const int64_t count = FindRuns(band, slab, 0, depth, runs);
    for (int64_t j = 0; j < n; ++j) {
      const int64_t channel = (column + j) / tasks.taps - first_channel;
      CopyRuns(runs, count,
               slabs + channel * band.images * slab.size() +
                   offsets[(column + j) % tasks.taps],
               rows + j * pitch);
    }
    Pack<T>(depth, n, {rows, 1, pitch}, packed, kStripColumns<T>);
    const int64_t elements = depth / band.images;
    for (int64_t i = 0; i < band.images; ++i) {
      const int64_t filter =
          ((band.first_image + i) * g.groups + group) * g.filters + row;
      MultiplyStrip<T>(
          m, n, elements,
          {dy + filter * g.out_size() + band.to_first(), g.out_size(), 1},
          {packed + i * elements * kStripColumns<T>, kStripColumns<T>,
           /*padded=*/true},
          dw, /*accumulate=*/b > 0 || i > 0);
    }
  }
}

template <typename T>
void RunConvWeightGradOf(const Launch& launch, ThreadPool& pool) {
  const TensorView& x = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const TensorView& dw = launch.outputs[0];
  const ConvGeometry g(x.shape(), dw.shape(), dy.shape(), *launch.attrs);
  const Walks walks = ForwardWalks(g);
  if (TakesDepthwiseByBatch<T>(g)) {
    return DepthwiseWeightGradByBatch(g, x.as<const T>(), dy.as<const T>(),
                                      dw.as<T>(), launch.workspace.data(),
                                      pool);
  }
  if (IsDepthwise(g)) {
    return DepthwiseWeightGrad(g, walks, x.as<const T>(), dy.as<const T>(),
                               dw.as<T>(), launch.workspace.data(), pool);
  }
  if (TakesByBatch<T>(g)) {
    return WeightGradByBatch(g, x.as<const T>(), dy.as<const T>(), dw.as<T>(),
                             launch.workspace.data(), pool);
  }
  const WeightGradTasks<T> tasks(g);
  T* sums = reinterpret_cast<T*>(launch.workspace.data());
  std::byte* scratch = launch.workspace.data() + tasks.sums(g);
  const Bytes of_thread = tasks.of_thread(walks);
  T* to = tasks.splits > 1 ? sums : dw.as<T>();
  pool.ParallelFor(tasks.splits * tasks.tasks, [&](int64_t task, int thread) {
    const int64_t column = task % tasks.strips * kStripColumns<T>;
    task /= tasks.strips;
    const int64_t row = task % tasks.row_chunks * tasks.task_rows;
    task /= tasks.row_chunks;
    const int64_t group = task % g.groups;
    const int64_t split = task / g.groups;
    const int64_t begin = split * tasks.split_images;
    AddWeightGrad<T>(
        g, walks, x.as<const T>(), dy.as<const T>(), group, row,
        std::min(tasks.task_rows, g.filters - row), column,
        std::min(kStripColumns<T>, tasks.columns - column), begin,
        std::min(g.images, begin + tasks.split_images), tasks,
        scratch + thread * of_thread,
        {to + ((split * g.groups + group) * g.filters + row) * tasks.columns +
             column,
         tasks.columns});
  });
  if (tasks.splits == 1) return;
  const int64_t size = dw.size();
  ParallelRanges(pool, size, RowsPerChunk(tasks.splits),
                 [&](int64_t begin, int64_t end) {
                   T* result = dw.as<T>() + begin;
                   ForEachVec<T>(end - begin, [&](auto at) {
                     Vec<T> sum = at.Load(sums + begin);
                     for (int64_t split = 1; split < tasks.splits; ++split) {
                       sum += at.Load(sums + split * size + begin);
                     }
                     at.Store(result, sum);
                   });
                 });
}

// --- Launches ----------------------------------------------------------------

StepCode RunConv(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunConvOf<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunConvTranspose(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunConvTransposeOf<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunConvWeightGrad(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    RunConvWeightGradOf<decltype(zero)>(launch, pool);
  });
  return StepCode::kOk;
}

Bytes ConvWorkspace(const OpArgs& args, std::span<const TensorType> results,
                    int threads) {
  const ConvGeometry g(args.shape(0), args.shape(1), results[0].shape,
                       args.attrs);
  return OnFloat(args.type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (TakesDepthwiseByBatch<T>(g)) {
      return DepthwiseByBatchScratch<T>(g, threads);
    }
    if (IsDepthwise(g)) return DepthwiseScratch<T>(ForwardWalks(g), threads);
    if (TakesByBatch<T>(g)) {
      return ConvByBatchScratch<T>(g, /*to_x=*/false, threads);
    }
    return threads * GatherScratch<T>::BytesOf(g, ForwardWalks(g), g.channels);
  });
}
Bytes ConvTransposeWorkspace(const OpArgs& args,
                             std::span<const TensorType> results, int threads) {
  const ConvGeometry g(results[0].shape, args.shape(1), args.shape(0),
                       args.attrs);
  return OnFloat(args.type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (TakesDepthwiseByBatch<T>(g)) {
      return DepthwiseByBatchScratch<T>(g, threads);
    }
    if (TakesByBatch<T>(g)) {
      return ConvByBatchScratch<T>(g, /*to_x=*/true, threads);
    }
    Bytes bytes = 0;
    ForPhases(g, [&](const Walks& walks) {
      bytes =
          std::max(bytes, IsDepthwise(g) ? DepthwiseScratch<T>(walks, threads)
                                         : threads * GatherScratch<T>::BytesOf(
                                                         g, walks, g.filters));
    });
    if (!IsDepthwise(g)) {
      bytes += AlignUp(args.type(1).bytes(), kWorkspaceAlignment);
    }
    return bytes;
  });
}
Bytes ConvWeightGradWorkspace(const OpArgs& args,
                              std::span<const TensorType> results,
                              int threads) {
  const ConvGeometry g(args.shape(0), results[0].shape, args.shape(1),
                       args.attrs);
  return OnFloat(args.type(0).dtype, [&](auto zero) -> Bytes {
    using T = decltype(zero);
    if (TakesDepthwiseByBatch<T>(g)) {
      return DepthwiseByBatchScratch<T>(g, threads);
    }
    if (IsDepthwise(g)) return DepthwiseScratch<T>(ForwardWalks(g), threads);
    if (TakesByBatch<T>(g)) return WeightGradByBatchScratch<T>(g, threads);
    const WeightGradTasks<T> tasks(g);
    return tasks.sums(g) + threads * tasks.of_thread(ForwardWalks(g));
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel Conv = {.run = RunConv, .workspace = ConvWorkspace};
constinit const CpuKernel ConvTranspose = {.run = RunConvTranspose,
                                           .workspace = ConvTransposeWorkspace};
constinit const CpuKernel ConvWeightGrad = {
    .run = RunConvWeightGrad, .workspace = ConvWeightGradWorkspace};

}  // namespace kernels
}  // namespace stowage::cpu
