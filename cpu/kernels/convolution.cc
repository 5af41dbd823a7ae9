// conv, conv_transpose and conv_weight_grad: the choice of the algorithm (convolution.h), and
// the usual one of the first two, a matmul with an operand that is gathered from an image
// while the matmul runs.
//
// conv and conv_transpose are the same matmul. Its rows are the result's channels, its columns
// the elements of all images, and its depth is (channel of the source, element of the
// kernel). A task copies the source elements of a band of columns into slabs (conv_walks.h),
// and gathers strips of columns from there, a block of depth at a time, for the loops of
// gemm.h; maps that a kernel of one element meets without stride and padding are gathered in
// place. With a stride, each phase of conv_transpose is a matmul of its own, without
// multiplications by zero. Filters of several elements are first packed in the order of the
// depth.
//
// Every element of a result is one chain of multiply-adds in an order that depends on shapes
// alone.

#include "cpu/kernels/convolution.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"
#include "ir/windows.h"

namespace stowage::cpu {
namespace {

// --- conv and conv_transpose -------------------------------------------------

// Copies the elements that a tap meets. Each run may overwrite the place of the next one.
// Reads nothing at or beyond `end`.
template <typename T>
void CopyRuns(std::span<const Run> runs, const T* from, const T* end, T* to) {
  for (const Run& run : runs) {
    CopyBeyond(from + run.from, end, run.count, to + run.to);
  }
}

// The scratch of a thread: a block of gathered rows, with room for writes beyond it; results
// that are not in the order of columns; taps' places in a slab; slabs, with room for reads
// beyond them.
template <typename T>
struct GatherScratch {
  static constexpr int64_t kPacked =
      kBlockDepth<T> * kStripColumns<T> + Vec<T>::kLanes;
  static constexpr int64_t kResults = kMaxConvRows * kStripColumns<T>;

  static Bytes BytesOf(const ConvGeometry& g, const Walks& walks,
                       int64_t channels) {
    int64_t elements = kPacked + kResults;
    if (!AreLongLines(walks)) {
      const Bands bands = GatherBands(g, walks, channels, kStripColumns<T>);
      elements += Vec<T>::kLanes + channels * bands.SlabElements();
    }
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

// The source of gathered strips: channels `channel_size` apart, each with images `image_size`
// apart.
template <typename T>
struct Gathered {
  const T *from, *end;
  int64_t channel_size, image_size;
};

// Gathers rows [first, first + depth) of a strip, (channel, tap) each.
template <typename T>
void PackStrip(std::span<const Run> runs, const Gathered<T>& gathered,
               std::span<const int64_t> offsets, int64_t first, int64_t depth,
               T* packed) {
  const auto taps = static_cast<int64_t>(offsets.size());
  if (depth == 0) return;
  int64_t tap = first % taps;
  const T* channel = gathered.from + first / taps * gathered.channel_size;
  for (int64_t p = 0; p < depth; ++p) {
    const T* from = channel + offsets[static_cast<size_t>(tap)];
    CopyRuns(runs, from, gathered.end, packed + p * kStripColumns<T>);
    if (++tap == taps) {
      tap = 0;
      channel += gathered.channel_size;
    }
  }
}

// Fills slabs with the elements that a band meets in a group, unless they are read in place,
// and finds the places of the taps.
template <typename T>
Gathered<T> GatherBand(const GatheredProduct<T>& product, const Band& band,
                       const Slab& slab, int64_t group,
                       const GatherScratch<T>& scratch) {
  const int64_t all = product.g.groups * product.channels;
  const int64_t first = group * product.channels;
  if (AreLongLines(product.walks)) {
    const int64_t size = product.walks[2].size;
    scratch.offsets[0] = 0;
    return {product.source + (band.first_image * all + first) * size +
                band.walks[2].first,
            product.source_end, size, all * size};
  }
  FillSlabs(band, slab, product.source, product.source_end, first,
            product.channels, all, scratch.offsets, scratch.slabs);
  const int64_t channel_size = band.images * slab.size();
  return {scratch.slabs,
          scratch.slabs + product.channels * channel_size + Vec<T>::kLanes,
          channel_size, slab.size()};
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
  const Gathered<T> gathered = GatherBand(product, band, slab, group, scratch);

  Strided<T> filters = product.filters.At(row, 0);
  filters.data += group * product.filters_stride;
  const int64_t channel = group * product.rows + row;
  for (int64_t column = 0; column < band.columns();
       column += kStripColumns<T>) {
    const int64_t n = std::min(kStripColumns<T>, band.columns() - column);
    Run runs[kStripColumns<T>];
    const int64_t count =
        FindRuns(band, slab, gathered.image_size, column, n, runs);
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
      PackStrip<T>({runs, static_cast<size_t>(count)}, gathered,
                   {scratch.offsets, static_cast<size_t>(taps)}, p, block,
                   scratch.packed);
      MultiplyStrip<T>(m, n, block, filters.At(0, p),
                       {scratch.packed, kStripColumns<T>, /*padded=*/true}, to,
                       Chains(p > 0));
    }
    if (in_place) continue;
    Scatter(product, band, channel, m, column, n, scratch.results,
            kStripColumns<T>);
  }
}

template <typename T>
void RunGathered(const GatheredProduct<T>& product, std::byte* scratch,
                 ThreadPool& pool) {
  const ConvGeometry& g = product.g;
  const Bands bands =
      GatherBands(g, product.walks, product.channels, kStripColumns<T>);
  const Bytes of_thread =
      GatherScratch<T>::BytesOf(g, product.walks, product.channels);
  const int64_t task_rows =
      RowsPerTask(product.rows, g.groups * bands.count(), pool.threads());
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
  const ConvGeometry g =
      GeometryOf(x.shape(), w.shape(), y.shape(), *launch.attrs);
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

// Bytes of the filters in the order of conv_transpose's depth.
Bytes PackedFilterBytes(const ConvGeometry& g, const TensorType& w) {
  return g.kernel_size() == 1 ? 0 : AlignUp(w.bytes(), kWorkspaceAlignment);
}

template <typename T>
void RunConvTransposeOf(const Launch& launch, ThreadPool& pool) {
  const TensorView& dy = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& x = launch.outputs[0];
  const ConvGeometry g =
      GeometryOf(x.shape(), w.shape(), dy.shape(), *launch.attrs);
  if (TakesDepthwiseByBatch<T>(g)) {
    return DepthwiseByBatch(g, /*to_x=*/true, dy.as<const T>(), w.as<const T>(),
                            x.as<T>(), launch.workspace.data(), pool);
  }
  if (TakesByBatch<T>(g)) {
    return ConvByBatch(g, /*to_x=*/true, dy.as<const T>(), w.as<const T>(),
                       x.as<T>(), launch.workspace.data(), pool);
  }
  T* packed = reinterpret_cast<T*>(launch.workspace.data());
  std::byte* scratch = launch.workspace.data() + PackedFilterBytes(g, w.type);
  ForPhases(g, [&](const Walks& walks) {
    if (IsDepthwise(g)) {
      return Depthwise(g, walks, dy.as<const T>(), w.as<const T>(), x.as<T>(),
                       launch.workspace.data(), pool);
    }
    const int64_t depth = g.filters * Product(walks, &Walk::taps);
    if (g.kernel_size() == 1) {
      // These filters are read one element at a time, so they are used in place.
      return RunGathered<T>({.g = g,
                             .walks = walks,
                             .source = dy.as<const T>(),
                             .source_end = dy.as<const T>() + dy.size(),
                             .channels = g.filters,
                             .rows = g.channels,
                             .filters = {w.as<const T>(), 1, g.channels},
                             .filters_stride = g.channels * g.filters,
                             .to = x.as<T>()},
                            scratch, pool);
    }
    if (depth > 0) {
      PackFilters(g, walks, w.as<const T>(),
                  GatherScratch<T>(scratch, depth / g.filters).offsets, packed,
                  pool);
    }
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

template <typename T>
void RunConvWeightGradOf(const Launch& launch, ThreadPool& pool) {
  const TensorView& x = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const TensorView& dw = launch.outputs[0];
  const ConvGeometry g =
      GeometryOf(x.shape(), dw.shape(), dy.shape(), *launch.attrs);
  std::byte* const scratch = launch.workspace.data();
  if (TakesDepthwiseByBatch<T>(g)) {
    DepthwiseWeightGradByBatch(g, x.as<const T>(), dy.as<const T>(), dw.as<T>(),
                               scratch, pool);
  } else if (IsDepthwise(g)) {
    DepthwiseWeightGrad(g, ForwardWalks(g), x.as<const T>(), dy.as<const T>(),
                        dw.as<T>(), scratch, pool);
  } else if (TakesByBatch<T>(g)) {
    WeightGradByBatch(g, x.as<const T>(), dy.as<const T>(), dw.as<T>(), scratch,
                      pool);
  } else {
    WeightGrad(g, x.as<const T>(), dy.as<const T>(), dw.as<T>(), scratch, pool);
  }
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
  const ConvGeometry g =
      GeometryOf(args.shape(0), args.shape(1), results[0].shape, args.attrs);
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
  const ConvGeometry g =
      GeometryOf(results[0].shape, args.shape(1), args.shape(0), args.attrs);
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
    return IsDepthwise(g) ? bytes : bytes + PackedFilterBytes(g, args.type(1));
  });
}
Bytes ConvWeightGradWorkspace(const OpArgs& args,
                              std::span<const TensorType> results,
                              int threads) {
  const ConvGeometry g =
      GeometryOf(args.shape(0), results[0].shape, args.shape(1), args.attrs);
  return OnFloat(args.type(0).dtype, [&](auto zero) -> Bytes {
    using T = decltype(zero);
    if (TakesDepthwiseByBatch<T>(g)) {
      return DepthwiseByBatchScratch<T>(g, threads);
    }
    if (IsDepthwise(g)) return DepthwiseScratch<T>(ForwardWalks(g), threads);
    if (TakesByBatch<T>(g)) return WeightGradByBatchScratch<T>(g, threads);
    return WeightGradScratch<T>(g, threads);
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
