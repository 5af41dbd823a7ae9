// conv, conv_transpose and conv_weight_grad of bf16 by pairs (bf16_gemm.h), by the algorithms
// of convolution.cc. Groups of one channel are no matmuls and run in f32 (cpu/kernel.h).
//
// Slabs hold bf16. The pairs of a strip of columns are gathered from two rows at a time,
// neighbours among (channel, element of the kernel); filters are read in place if their rows
// are whole pairs. Every element is one chain over these pairs, rounded once.

#include "cpu/kernels/bf16_gemm.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/convolution.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/kernel_table.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"
#include "ir/windows.h"

namespace stowage::cpu {
namespace {

using ConvMatMul = GatheredProduct<uint16_t>;

constexpr int64_t kLanes = 16;  // pairs of a register

// The scratch of a thread: taps' places in a slab; a block of gathered pairs, with room for
// writes beyond it; sums of a strip, and the rounded sums; rows of filters that are not whole
// pairs; slabs, with room for reads and writes beyond them.
class GatherScratch {
 public:
  GatherScratch(const ConvGeometry& g, const Walks& walks, int64_t channels,
                int64_t rows)
      : taps_(Product(walks, &Walk::taps)),
        filters_(channels * taps_ % 2 == 0
                     ? 0
                     : PackedRowsElements(std::min(rows, kMaxConvRows),
                                          channels * taps_)),
        slabs_(channels *
               GatherBands(g, walks, channels, kPairsColumns).SlabElements()) {}

  Bytes bytes() const {
    return AlignUp(kGathered * 4 + kResults * 6 + taps_ * 8 +
                       2 * (filters_ + slabs_ + 2 * kLanes),
                   kWorkspaceAlignment);
  }
  int64_t taps() const { return taps_; }

  uint32_t* gathered(std::byte* scratch) const {
    return reinterpret_cast<uint32_t*>(scratch);
  }
  float* sums(std::byte* scratch) const {
    return reinterpret_cast<float*>(gathered(scratch) + kGathered);
  }
  int64_t* offsets(std::byte* scratch) const {
    return reinterpret_cast<int64_t*>(sums(scratch) + kResults);
  }
  uint16_t* rounded(std::byte* scratch) const {
    return reinterpret_cast<uint16_t*>(offsets(scratch) + taps_);
  }
  uint16_t* filters(std::byte* scratch) const {
    return rounded(scratch) + kResults;
  }
  uint16_t* slabs(std::byte* scratch) const {
    return filters(scratch) + filters_;
  }

 private:
  static constexpr int64_t kGathered = kPairsDepth / 2 * kPairsColumns + kLanes;
  static constexpr int64_t kResults = kMaxConvRows * kPairsColumns;

  int64_t taps_, filters_, slabs_;
};

// Gathers pairs of the elements that two taps meet, of which the second tap may be absent.
// Each run may overwrite the place of the next one.
void GatherRuns(std::span<const Run> runs, const uint16_t* first,
                const uint16_t* second, uint32_t* to) {
  const auto load = [](const uint16_t* from) {
    return _mm512_cvtepu16_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  };
  for (const Run& run : runs) {
    for (int64_t i = 0; i < run.count; i += kLanes) {
      __m512i pairs = load(first + run.from + i);
      if (second != nullptr) {
        pairs = _mm512_or_si512(
            pairs, _mm512_slli_epi32(load(second + run.from + i), 16));
      }
      _mm512_storeu_si512(to + run.to + i, pairs);
    }
  }
}

// Gathers `depth` rows of a strip from row `first` on, an even one, (channel, tap) each.
void GatherStrip(std::span<const Run> runs, const uint16_t* slabs,
                 int64_t channel_size, std::span<const int64_t> offsets,
                 int64_t first, int64_t depth, uint32_t* gathered) {
  const auto taps = static_cast<int64_t>(offsets.size());
  if (depth == 0) return;
  int64_t tap = first % taps;
  const uint16_t* channel = slabs + first / taps * channel_size;
  const auto next = [&] {
    const uint16_t* const from = channel + offsets[static_cast<size_t>(tap)];
    if (++tap == taps) {
      tap = 0;
      channel += channel_size;
    }
    return from;
  };
  for (int64_t p = 0; p < depth; p += 2) {
    const uint16_t* const row = next();
    GatherRuns(runs, row, p + 1 < depth ? next() : nullptr,
               gathered + p / 2 * kPairsColumns);
  }
}

// Rows [row, row + m) of a group, for all columns of a band.
void MakeBand(const ConvMatMul& matmul, const Band& band, int64_t group,
              int64_t row, int64_t m, const GatherScratch& layout,
              std::byte* scratch) {
  const ConvGeometry& g = matmul.g;
  const int64_t elements = Product(band.walks, &Walk::count);
  const int64_t to_size = Product(band.walks, &Walk::to_size);
  const int64_t depth = matmul.depth();
  const bool whole = band.in_order();
  uint16_t* const slabs = layout.slabs(scratch);
  float* const sums = layout.sums(scratch);
  uint16_t* const rounded = layout.rounded(scratch);

  const Slab slab(band.walks);
  const int64_t channel_size = band.images * slab.size();
  FillSlabs(band, slab, matmul.source, matmul.source_end,
            group * matmul.channels, matmul.channels,
            g.groups * matmul.channels, layout.offsets(scratch), slabs);

  Strided<const uint16_t> of_group = {
      matmul.filters.data + group * matmul.filters_stride, matmul.filters.row,
      1};
  const PairRows filters =
      PackRows(m, depth, of_group.At(row, 0), layout.filters(scratch));
  const int64_t channel = group * matmul.rows + row;
  for (int64_t column = 0; column < band.columns(); column += kPairsColumns) {
    const int64_t n = std::min(kPairsColumns, band.columns() - column);
    Run runs[kPairsColumns];
    const int64_t count = FindRuns(band, slab, slab.size(), column, n, runs);
    for (int64_t p = 0; p == 0 || p < depth; p += kPairsDepth) {
      const int64_t block = std::min(kPairsDepth, depth - p);
      GatherStrip({runs, static_cast<size_t>(count)}, slabs, channel_size,
                  {layout.offsets(scratch), static_cast<size_t>(layout.taps())},
                  p, block, layout.gathered(scratch));
      PairRows of_block = filters;
      of_block.data += p;
      MultiplyPairs(m, n, Pairs(block), of_block,
                    {layout.gathered(scratch), kPairsColumns},
                    {sums, kPairsColumns}, Chains(p > 0));
    }
    const int64_t image = column / elements;
    if (whole && (column + n - 1) / elements == image) {
      uint16_t* const to =
          matmul.to +
          ((band.first_image + image) * g.groups * matmul.rows + channel) *
              to_size +
          band.to_first() + column % elements;
      for (int64_t i = 0; i < m; ++i) {
        Narrow(DType::kBF16, n, sums + i * kPairsColumns,
               reinterpret_cast<std::byte*>(to + i * to_size));
      }
      continue;
    }
    Narrow(DType::kBF16, m * kPairsColumns, sums,
           reinterpret_cast<std::byte*>(rounded));
    Scatter(matmul, band, channel, m, column, n, rounded, kPairsColumns);
  }
}

void RunGathered(const ConvMatMul& matmul, std::byte* scratch,
                 ThreadPool& pool) {
  const ConvGeometry& g = matmul.g;
  const Bands bands =
      GatherBands(g, matmul.walks, matmul.channels, kPairsColumns);
  const GatherScratch layout(g, matmul.walks, matmul.channels, matmul.rows);
  const int64_t task_rows =
      RowsPerTask(matmul.rows, g.groups * bands.count(), pool.threads());
  const int64_t row_chunks = CeilDiv(matmul.rows, task_rows);
  pool.ParallelFor(g.groups * row_chunks * bands.count(),
                   [&](int64_t task, int thread) {
                     const int64_t band = task % bands.count();
                     task /= bands.count();
                     const int64_t row = task % row_chunks * task_rows;
                     MakeBand(matmul, bands.At(band), task / row_chunks, row,
                              std::min(task_rows, matmul.rows - row), layout,
                              scratch + thread * layout.bytes());
                   });
}

// --- Launches ----------------------------------------------------------------

StepCode RunConvByPairs(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const ConvGeometry g =
      GeometryOf(x.shape(), w.shape(), y.shape(), *launch.attrs);
  const auto* from = x.as<const uint16_t>();
  const auto* filters = w.as<const uint16_t>();
  if (TakesByBatch<float>(g)) {
    Bf16ConvByBatch(g, /*to_x=*/false, from, filters, y.as<uint16_t>(),
                    launch.workspace.data(), pool);
    return StepCode::kOk;
  }
  const int64_t depth = g.channels * g.kernel_size();
  RunGathered({.g = g,
               .walks = ForwardWalks(g),
               .source = from,
               .source_end = from + x.size(),
               .channels = g.channels,
               .rows = g.filters,
               .filters = {filters, depth, 1},
               .filters_stride = g.filters * depth,
               .to = y.as<uint16_t>()},
              launch.workspace.data(), pool);
  return StepCode::kOk;
}

StepCode RunConvTransposeByPairs(const Launch& launch,
                                 ThreadPool& pool) noexcept {
  const TensorView& dy = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& x = launch.outputs[0];
  const ConvGeometry g =
      GeometryOf(x.shape(), w.shape(), dy.shape(), *launch.attrs);
  const auto* from = dy.as<const uint16_t>();
  const auto* filters = w.as<const uint16_t>();
  if (TakesByBatch<float>(g)) {
    Bf16ConvByBatch(g, /*to_x=*/true, from, filters, x.as<uint16_t>(),
                    launch.workspace.data(), pool);
    return StepCode::kOk;
  }
  auto* const packed = reinterpret_cast<uint16_t*>(launch.workspace.data());
  std::byte* const scratch =
      launch.workspace.data() + AlignUp(w.type.bytes(), kWorkspaceAlignment);
  ForPhases(g, [&](const Walks& walks) {
    const int64_t depth = g.filters * Product(walks, &Walk::taps);
    const GatherScratch layout(g, walks, g.filters, g.channels);
    if (depth > 0) {
      PackFilters(g, walks, filters, layout.offsets(scratch), packed, pool);
    }
    RunGathered({.g = g,
                 .walks = walks,
                 .source = from,
                 .source_end = from + dy.size(),
                 .channels = g.filters,
                 .rows = g.channels,
                 .filters = {packed, depth, 1},
                 .filters_stride = g.channels * depth,
                 .to = x.as<uint16_t>()},
                scratch, pool);
  });
  return StepCode::kOk;
}

StepCode RunConvWeightGradByPairs(const Launch& launch,
                                  ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const TensorView& dw = launch.outputs[0];
  const ConvGeometry g =
      GeometryOf(x.shape(), dw.shape(), dy.shape(), *launch.attrs);
  const auto run =
      TakesByBatch<float>(g) ? Bf16WeightGradByBatch : Bf16WeightGrad;
  run(g, x.as<const uint16_t>(), dy.as<const uint16_t>(), dw.as<uint16_t>(),
      launch.workspace.data(), pool);
  return StepCode::kOk;
}

Bytes ConvWorkspace(const OpArgs& args, std::span<const TensorType> results,
                    int threads) {
  const ConvGeometry g =
      GeometryOf(args.shape(0), args.shape(1), results[0].shape, args.attrs);
  if (TakesByBatch<float>(g)) {
    return Bf16ConvByBatchScratch(g, /*to_x=*/false, threads);
  }
  return threads *
         GatherScratch(g, ForwardWalks(g), g.channels, g.filters).bytes();
}
Bytes ConvTransposeWorkspace(const OpArgs& args,
                             std::span<const TensorType> results, int threads) {
  const ConvGeometry g =
      GeometryOf(results[0].shape, args.shape(1), args.shape(0), args.attrs);
  if (TakesByBatch<float>(g)) {
    return Bf16ConvByBatchScratch(g, /*to_x=*/true, threads);
  }
  Bytes bytes = 0;
  ForPhases(g, [&](const Walks& walks) {
    bytes = std::max(
        bytes,
        threads * GatherScratch(g, walks, g.filters, g.channels).bytes());
  });
  return bytes + AlignUp(args.type(1).bytes(), kWorkspaceAlignment);
}
Bytes ConvWeightGradWorkspace(const OpArgs& args,
                              std::span<const TensorType> results,
                              int threads) {
  const ConvGeometry g =
      GeometryOf(args.shape(0), results[0].shape, args.shape(1), args.attrs);
  return TakesByBatch<float>(g) ? Bf16WeightGradByBatchScratch(g, threads)
                                : Bf16WeightGradScratch(g, threads);
}

// The geometry of a node whose operands are the places `x`, `w` and `y` of: x, w and y, of
// which that of the result is 2.
template <int kX, int kW, int kY>
bool SupportsConv(const OpArgs& args) {
  if (args.type(0).dtype != DType::kBF16) {
    return IsComputedFloat(args.type(0).dtype);
  }
  const auto results = GetOpDef(args.op).infer(args);
  if (!results.ok()) return false;
  const auto shape = [&](int place) {
    return place == 2 ? (*results)[0].shape : args.shape(place);
  };
  const ConvGeometry g =
      GeometryOf(shape(kX), shape(kW), shape(kY), args.attrs);
  return !IsDepthwise(g) && !TakesDepthwiseByBatch<float>(g);
}

}  // namespace

namespace bf16_kernels {

constinit const CpuKernel Conv =
    Bf16Kernel<kernels::Conv, RunConvByPairs, ConvWorkspace>(
        SupportsConv<0, 1, 2>);
constinit const CpuKernel ConvTranspose =
    Bf16Kernel<kernels::ConvTranspose, RunConvTransposeByPairs,
               ConvTransposeWorkspace>(SupportsConv<2, 1, 0>);
constinit const CpuKernel ConvWeightGrad =
    Bf16Kernel<kernels::ConvWeightGrad, RunConvWeightGradByPairs,
               ConvWeightGradWorkspace>(SupportsConv<0, 2, 1>);

}  // namespace bf16_kernels
}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS
