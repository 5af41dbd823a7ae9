// conv, conv_transpose and conv_weight_grad as matrix products, of which one
// operand is gathered from a picture while the product runs.
//
// conv and conv_transpose are the same product. Its rows are the result's
// channels, its columns the elements of all images in one run, and its depth is
// (channel of the source, element of the kernel); strips of columns, a block of
// depth at a time, are gathered into scratch (gemm.h). With a stride, the result
// of conv_transpose falls into phases: elements whose place leaves the same rest
// by the stride meet the same elements of the kernel, at neighbouring places of
// the source, so each phase is a product of its own without multiplications by
// zero. Filters are brought into the order of its sums first.
//
// conv_weight_grad has dw as its result: the columns are (channel, element of the
// kernel), and the depth is the elements of dy of all images.
//
// Every element of a result is one chain of multiply-adds in an order that shapes
// alone decide; the gradient's is cut into at most kMostSplits chains by images,
// which are added in order.

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_depthwise.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/vec.h"
#include "ir/conv_geometry.h"

namespace stowage::cpu {
namespace {

// Rows [first, first + depth) of a gathered operand, (channel, tap) each, for
// columns [column, column + n), as rows of kStripColumns.
template <typename T>
void GatherStrip(const Walks& walks, const T* source, const T* end,
                 int64_t image_stride, int64_t column, int64_t n, int64_t first,
                 int64_t depth, T* packed) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  if (depth == 0) return;
  const int64_t taps = Product(walks, &Walk::taps);
  const int64_t channel_size = Product(walks, &Walk::size);
  const int64_t used = CeilDiv(n, kLanes) * kLanes;
  const Cursor start(walks, column);
  const T* channel = source + first / taps * channel_size;
  int64_t tap_number = first % taps;
  Tap tap(walks, tap_number);
  for (int64_t p = 0; p < depth; ++p) {
    T* row = packed + p * kStripColumns<T>;
    Gather(walks, channel, end, image_stride, start, tap, n, row);
    std::fill(row + n, row + used, T(0));
    if (++tap_number < taps) {
      tap.Next(walks);
    } else {
      tap_number = 0;
      tap = Tap(walks, 0);
      channel += channel_size;
    }
  }
}

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

  int64_t depth() const { return channels * Product(walks, &Walk::taps); }
};

// Elements of scratch a thread: a block of gathered rows, with what is written
// beyond, and results that do not lie in the order of columns.
template <typename T>
constexpr int64_t kPackedElements =
    kBlockDepth<T>* kStripColumns<T> + Vec<T>::kLanes;
template <typename T>
constexpr int64_t kGatheredElements =
    kPackedElements<T> + kMostRows* kStripColumns<T>;

// From a strip of results to their places.
template <typename T>
void Scatter(const GatheredProduct<T>& product, int64_t first_channel,
             int64_t rows, int64_t column, int64_t n, const T* results) {
  const Walks& walks = product.walks;
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
            (at.image * all_channels + first_channel) * channel_size +
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

template <typename T>
void RunGathered(const GatheredProduct<T>& product, T* scratch,
                 ThreadPool& pool) {
  const ConvGeometry& g = product.g;
  const Walks& walks = product.walks;
  const int64_t elements = Product(walks, &Walk::count);
  const int64_t to_size = Product(walks, &Walk::to_size);
  const int64_t source_size = Product(walks, &Walk::size);
  const int64_t columns = g.images * elements;
  const int64_t strips = CeilDiv(columns, kStripColumns<T>);
  const int64_t task_rows = RowsPerTask(product.rows, g.groups * strips);
  const int64_t row_chunks = CeilDiv(product.rows, task_rows);
  const int64_t depth = product.depth();
  const bool whole = elements == to_size;  // columns are elements in order
  pool.ParallelFor(
      g.groups * row_chunks * strips, [&](int64_t task, int thread) {
        const int64_t column = task % strips * kStripColumns<T>;
        const int64_t row = task / strips % row_chunks * task_rows;
        const int64_t group = task / strips / row_chunks;
        const int64_t m = std::min(task_rows, product.rows - row);
        const int64_t n = std::min(kStripColumns<T>, columns - column);
        const int64_t image = column / elements;
        const int64_t channel = group * product.rows + row;
        T* packed = scratch + thread * kGatheredElements<T>;
        T* results = packed + kPackedElements<T>;
        const bool in_place = whole && (column + n - 1) / elements == image;
        const Rows<T> to =
            in_place ? Rows<T>{product.to +
                                   (image * g.groups * product.rows + channel) *
                                       to_size +
                                   column % elements,
                               to_size}
                     : Rows<T>{results, kStripColumns<T>};
        Strided<T> filters = product.filters.At(row, 0);
        filters.data += group * product.filters_stride;
        for (int64_t p = 0; p == 0 || p < depth; p += kBlockDepth<T>) {
          const int64_t block = std::min(kBlockDepth<T>, depth - p);
          GatherStrip(
              walks, product.source + group * product.channels * source_size,
              product.source_end, g.groups * product.channels * source_size,
              column, n, p, block, packed);
          MultiplyStrip<T>(m, n, block, filters.At(0, p),
                           {packed, kStripColumns<T>, /*padded=*/true}, to,
                           /*accumulate=*/p > 0);
        }
        if (!in_place) Scatter(product, channel, m, column, n, results);
      });
}

template <typename T>
void RunConvOf(const Launch& launch, ThreadPool& pool) {
  const TensorView& x = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const ConvGeometry g(x.shape(), w.shape(), y.shape(), *launch.attrs);
  if (IsDepthwise(g)) {
    return Depthwise(g, ForwardWalks(g), x.as<const T>(), w.as<const T>(),
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
                 reinterpret_cast<T*>(launch.workspace.data()), pool);
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
  T* packed = reinterpret_cast<T*>(launch.workspace.data());
  T* scratch = packed + w.size();
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
  int64_t depth;         // elements of dy gathered at a time

  explicit WeightGradTasks(const ConvGeometry& g)
      : columns(g.channels * g.kernel_size()),
        strips(CeilDiv(columns, kStripColumns<T>)),
        task_rows(RowsPerTask(g.filters, g.groups * strips)),
        row_chunks(CeilDiv(g.filters, task_rows)),
        tasks(g.groups * row_chunks * strips),
        split_images(
            CeilDiv(g.images, std::min(g.images, CeilDiv(kMostSplits, tasks)))),
        depth(std::min(g.out_size(), kBlockDepth<T>)) {
    splits = CeilDiv(g.images, split_images);
  }

  // Scratch: sums of splits, if there are several, and what a thread needs: the
  // gathered columns as rows, and transposed.
  int64_t dw_size(const ConvGeometry& g) const {
    return g.groups * g.filters * columns;
  }
  int64_t sums(const ConvGeometry& g) const {
    return splits > 1 ? splits * dw_size(g) : 0;
  }
  int64_t row() const {
    return CeilDiv(depth, Vec<T>::kLanes) * Vec<T>::kLanes;
  }
  int64_t of_thread() const { return 2 * row() * kStripColumns<T>; }
};

// dw's columns [column, column + n), rows [row, row + m) of a group, from images
// [begin, end).
template <typename T>
void AddWeightGrad(const ConvGeometry& g, const Walks& walks, const T* x,
                   const T* dy, int64_t group, int64_t row, int64_t m,
                   int64_t column, int64_t n, int64_t begin, int64_t end,
                   const WeightGradTasks<T>& tasks, T* scratch, Rows<T> dw) {
  const int64_t elements = g.out_size();
  const int64_t in_size = g.in_size();
  const int64_t image_stride = g.groups * g.channels * in_size;
  const T* const x_end = x + g.images * image_stride;
  const int64_t kernel = g.kernel_size();
  const int64_t pitch = tasks.row();
  T* rows = scratch;
  T* packed = scratch + pitch * kStripColumns<T>;
  for (int64_t image = begin; image < end; ++image) {
    const T* of_image = x + image * image_stride + group * g.channels * in_size;
    const T* dy_rows =
        dy + ((image * g.groups + group) * g.filters + row) * elements;
    for (int64_t p = 0; p < elements; p += tasks.depth) {
      const int64_t depth = std::min(tasks.depth, elements - p);
      const Cursor start(walks, p);
      for (int64_t j = 0; j < n; ++j) {
        const int64_t channel = (column + j) / kernel;
        Gather(walks, of_image + channel * in_size, x_end, 0, start,
               Tap(walks, (column + j) % kernel), depth, rows + j * pitch);
      }
      Pack<T>(depth, n, {rows, 1, pitch}, packed, kStripColumns<T>);
      MultiplyStrip<T>(m, n, depth, {dy_rows + p, elements, 1},
                       {packed, kStripColumns<T>, /*padded=*/true}, dw,
                       /*accumulate=*/image > begin || p > 0);
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
  if (IsDepthwise(g)) {
    return DepthwiseWeightGrad(g, walks, x.as<const T>(), dy.as<const T>(),
                               dw.as<T>(), launch.workspace.data(), pool);
  }
  const WeightGradTasks<T> tasks(g);
  T* sums = reinterpret_cast<T*>(launch.workspace.data());
  T* scratch = sums + tasks.sums(g);
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
        scratch + thread * tasks.of_thread(),
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

template <typename T>
Bytes GatheredBytes(int threads) {
  return threads * kGatheredElements<T> * static_cast<Bytes>(sizeof(T));
}

Bytes ConvWorkspace(const OpArgs& args, std::span<const TensorType> results,
                    int threads) {
  const ConvGeometry g(args.shape(0), args.shape(1), results[0].shape,
                       args.attrs);
  return OnFloat(args.type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return IsDepthwise(g) ? DepthwiseScratch<T>(ForwardWalks(g), threads)
                          : GatheredBytes<T>(threads);
  });
}
Bytes ConvTransposeWorkspace(const OpArgs& args,
                             std::span<const TensorType> results, int threads) {
  const ConvGeometry g(results[0].shape, args.shape(1), args.shape(0),
                       args.attrs);
  return OnFloat(args.type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    Bytes bytes = args.type(1).bytes() + GatheredBytes<T>(threads);
    if (IsDepthwise(g)) {
      bytes = 0;
      ForPhases(g, [&](const Walks& walks) {
        bytes = std::max(bytes, DepthwiseScratch<T>(walks, threads));
      });
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
    if (IsDepthwise(g)) return DepthwiseScratch<T>(ForwardWalks(g), threads);
    const WeightGradTasks<T> tasks(g);
    return (tasks.sums(g) + threads * tasks.of_thread()) *
           static_cast<Bytes>(sizeof(T));
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
