// attention and its gradients of bf16, whose matmuls are by pairs (bf16_gemm.h), blockwise as
// in attention.cc. Scores and their softmax are f32; probabilities and the gradients of
// scores are rounded to bf16 before they are multiplied; sums over tiles are f32 in scratch and
// rounded once. A bias, which few models have, is added by the kernels for f32 on copies
// (cpu/kernel.h).

#include "cpu/kernels/bf16_gemm.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/attention_tiles.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/kernel_table.h"
#include "cpu/kernels/vec.h"
#include "ir/tensor_type.h"

namespace stowage::cpu {
namespace {

using Elements = Strided<const uint16_t>;

// One head of one batch entry: rows of elements.
Elements HeadOf(const TensorView& x, int64_t batch, int64_t head) {
  const Rows<const uint16_t> rows = Head<const uint16_t>(x, batch, head);
  return {rows.data, rows.row, 1};
}
Elements Transposed(const Elements& x) { return {x.data, x.column, x.row}; }

const std::byte* BytesOf(const uint16_t* x) {
  return reinterpret_cast<const std::byte*>(x);
}

// The scratch of a thread. Sums of rows are `depth` apart.
class TileScratch {
 public:
  TileScratch(int64_t depth, int64_t query_sums)
      : depth_(depth), query_sums_(query_sums) {}

  Bytes bytes() const { return Place(kParts); }

  float* scores(std::byte* at) const { return At<float>(at, 0); }
  float* d_scores(std::byte* at) const { return At<float>(at, 1); }
  uint16_t* rounded(std::byte* at) const { return At<uint16_t>(at, 2); }
  uint16_t* d_rounded(std::byte* at) const { return At<uint16_t>(at, 3); }
  uint32_t* keys(std::byte* at) const { return At<uint32_t>(at, 4); }
  uint32_t* values(std::byte* at) const { return At<uint32_t>(at, 5); }
  uint32_t* strip(std::byte* at) const { return At<uint32_t>(at, 6); }
  uint16_t* rows(std::byte* at) const { return At<uint16_t>(at, 7); }
  float* d_keys(std::byte* at) const { return At<float>(at, 8); }
  float* d_values(std::byte* at) const { return At<float>(at, 9); }
  float* queries(std::byte* at) const { return At<float>(at, 10); }

 private:
  static constexpr int kParts = 11;

  Bytes Place(int parts) const {
    const Bytes of_tile = 4 * PackedColumnsPairs(depth_, kTile);
    const Bytes of_rows = std::max(PackedRowsElements(kTile, depth_),
                                   PackedRowsElements(kTile, kTile));
    const std::array<Bytes, kParts> sizes = {
        4 * kTile * kTile,
        4 * kTile * kTile,
        2 * kTile * kTile,
        2 * kTile * kTile,
        of_tile,
        of_tile,
        4 * PackedColumnsPairs(kTile, kPairsColumns),
        2 * of_rows,
        4 * kTile * depth_,
        4 * kTile * depth_,
        4 * query_sums_ * depth_};
    Bytes place = 0;
    for (int i = 0; i < parts; ++i) {
      place += AlignUp(sizes[static_cast<size_t>(i)], kWorkspaceAlignment);
    }
    return place;
  }
  template <typename T>
  T* At(std::byte* at, int part) const {
    return reinterpret_cast<T*>(at + Place(part));
  }

  int64_t depth_, query_sums_;
};

// scores (queries, keys) = x (T, D) times the packed pairs of D.
void Scores(const Tile& tile, int64_t depth, const Elements& x,
            const PairColumns& other, const TileScratch& layout,
            std::byte* scratch, float* scores) {
  const int64_t group = tile.group();
  for (int64_t row = 0; row < tile.queries; row += group) {
    const int64_t rows = std::min(group, tile.queries - row);
    const Range columns = GroupColumns(tile, row, rows);
    const PairRows packed =
        PackRows(rows, depth, x.At(tile.query + row, 0), layout.rows(scratch));
    for (int64_t j = columns.begin; j < columns.end; j += kPairsColumns) {
      MultiplyPairs(rows, std::min(kPairsColumns, columns.end - j),
                    Pairs(depth), packed, {other.data + j, other.row},
                    {scores + row * kTile + j, kTile}, Into::kNew);
    }
  }
}

// to (m, D) = or += a (m, k) times x (k, D).
void MultiplyInto(int64_t m, int64_t k, int64_t depth, const Elements& a,
                  const Elements& x, Rows<float> to, bool accumulate,
                  const TileScratch& layout, std::byte* scratch) {
  const PairRows rows = PackRows(m, k, a, layout.rows(scratch));
  for (int64_t j = 0; j < depth; j += kPairsColumns) {
    const int64_t n = std::min(kPairsColumns, depth - j);
    const PairColumns columns =
        PackColumns(k, n, x.At(0, j), layout.strip(scratch));
    MultiplyPairs(m, n, Pairs(k), rows, columns, to.At(0, j),
                  Chains(accumulate));
  }
}

// to (queries, D) = or += weights (queries, keys) times x (S, D).
void SumOverKeys(const Tile& tile, int64_t depth, const uint16_t* weights,
                 const Elements& x, Rows<float> to, bool accumulate,
                 const TileScratch& layout, std::byte* scratch) {
  const int64_t group = tile.group();
  for (int64_t row = 0; row < tile.queries; row += group) {
    const int64_t rows = std::min(group, tile.queries - row);
    const Range columns = GroupColumns(tile, row, rows);
    MultiplyInto(rows, columns.count(), depth,
                 {weights + row * kTile + columns.begin, kTile, 1},
                 x.At(tile.key + columns.begin, 0), to.At(row, 0), accumulate,
                 layout, scratch);
  }
}

// to (keys, D) = or += weights^T (keys, queries) times x (T, D).
void SumOverQueries(const Tile& tile, int64_t depth, const uint16_t* weights,
                    const Elements& x, Rows<float> to, bool accumulate,
                    const TileScratch& layout, std::byte* scratch) {
  const int64_t group = tile.group();
  for (int64_t column = 0; column < tile.keys; column += group) {
    const int64_t columns = std::min(group, tile.keys - column);
    const Range rows = tile.Rows(column, columns);
    MultiplyInto(columns, rows.count(), depth,
                 {weights + rows.begin * kTile + column, 1, kTile},
                 x.At(tile.query + rows.begin, 0), to.At(column, 0), accumulate,
                 layout, scratch);
  }
}

void Round(int64_t n, const float* from, uint16_t* to) {
  Narrow(DType::kBF16, n, from, reinterpret_cast<std::byte*>(to));
}
// Rows of f32 that are `depth` apart, to rows of y.
void RoundRows(int64_t count, int64_t depth, const float* from,
               Rows<uint16_t> y) {
  for (int64_t row = 0; row < count; ++row) {
    Round(depth, from + row * depth, y.At(row, 0).data);
  }
}

void RunForward(const Launch& launch, ThreadPool& pool) {
  const AttentionSizes sizes(launch);
  const int64_t depth = sizes.depth;
  const AllReads all_reads(launch, kAttentionOperands);
  const Scaling<float> scaling(launch);
  const TileScratch layout(depth, kTile);

  ForQueryTiles(
      sizes, pool,
      [&](int64_t batch, int64_t head, const Tile& queries_tile, int thread) {
        const int64_t key_head = head / sizes.heads_per_key;
        const Elements queries = HeadOf(launch.inputs[0], batch, head);
        const Elements keys = HeadOf(launch.inputs[1], batch, key_head);
        const Elements values = HeadOf(launch.inputs[2], batch, key_head);
        std::byte* const scratch =
            launch.workspace.data() + thread * layout.bytes();
        float* const weights = layout.scores(scratch);
        const Rows<float> sums = {layout.queries(scratch), depth};
        ForwardTile<float>(
            all_reads.Of(batch), queries_tile, depth, scaling,
            /*bias=*/{nullptr, 0}, weights, sums,
            launch.outputs[1].as<float>() +
                (batch * sizes.heads + head) * sizes.length,
            [&](const Tile& tile) {
              const PairColumns columns = PackColumns(
                  depth, tile.keys, Transposed(keys.At(tile.key, 0)),
                  layout.keys(scratch));
              Scores(tile, depth, queries, columns, layout, scratch, weights);
            },
            [&](const Tile& tile, bool accumulate) {
              Round(tile.queries * kTile, weights, layout.rounded(scratch));
              SumOverKeys(tile, depth, layout.rounded(scratch), values, sums,
                          accumulate, layout, scratch);
            });
        RoundRows(queries_tile.queries, depth, sums.data,
                  Head<uint16_t>(launch.outputs[0], batch, head)
                      .At(queries_tile.query, 0));
      });
}

float DotOf(int64_t n, const uint16_t* a, const uint16_t* b) {
  constexpr int64_t kBlock = 128;
  float wide_a[kBlock], wide_b[kBlock];
  Vec<float> sum = Vec<float>::Zero();
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    Widen(DType::kBF16, count, BytesOf(a + i), 1, wide_a);
    Widen(DType::kBF16, count, BytesOf(b + i), 1, wide_b);
    ForEachVec<float>(count, [&](auto at) {
      sum = MulAdd(at.Load(wide_a), at.Load(wide_b), sum);
    });
  }
  return SumLanes(sum);
}

// The operands of the gradients for one query head of one batch entry.
struct HeadGradient {
  HeadGradient(const Launch& launch, int64_t batch, int64_t head)
      : queries(HeadOf(launch.inputs[0], batch, head)),
        result(HeadOf(launch.inputs[3], batch, head)),
        d_result(HeadOf(launch.inputs[5], batch, head)) {
    const Shape& q = launch.inputs[0].shape();
    log_sum_exp =
        launch.inputs[4].as<const float>() + (batch * q[2] + head) * q[1];
  }
  Elements queries, result, d_result;
  const float* log_sum_exp;
};

// The probabilities of one tile and the gradient of the unscaled scores, rounded.
void TileGradient(const Tile& tile, int64_t depth, const HeadGradient& head,
                  const PairColumns& keys, const PairColumns& values,
                  const Scaling<float>& scaling, const TileScratch& layout,
                  std::byte* scratch) {
  float* const weights = layout.scores(scratch);
  float* const d_weights = layout.d_scores(scratch);
  Scores(tile, depth, head.queries, keys, layout, scratch, weights);
  Scores(tile, depth, head.d_result, values, layout, scratch, d_weights);
  GradOfTile<float>(
      tile, scaling, /*bias=*/{nullptr, 0}, head.log_sum_exp, /*of_bias=*/false,
      [&](int64_t query) {
        return DotOf(depth, head.result.At(query, 0).data,
                     head.d_result.At(query, 0).data);
      },
      weights, d_weights);
  Round(tile.queries * kTile, weights, layout.rounded(scratch));
  Round(tile.queries * kTile, d_weights, layout.d_rounded(scratch));
}

void RunGrad(const Launch& launch, ThreadPool& pool) {
  const std::array<TensorView, 3> gradients = Gradients(launch);
  const AttentionSizes sizes(launch);
  const int64_t length = sizes.length;
  const int64_t depth = sizes.depth;
  const AllReads all_reads(launch, kAttentionGradOperands);
  const Scaling<float> scaling(launch);
  const TileScratch layout(depth, sizes.heads_per_key * length);

  pool.ParallelFor(sizes.batches * sizes.key_heads, [&](int64_t task,
                                                        int thread) {
    const int64_t batch = task / sizes.key_heads;
    const int64_t key_head = task % sizes.key_heads;
    const int64_t first_head = key_head * sizes.heads_per_key;
    const Elements keys = HeadOf(launch.inputs[1], batch, key_head);
    const Elements values = HeadOf(launch.inputs[2], batch, key_head);
    const Rows<uint16_t> dk = Head<uint16_t>(gradients[1], batch, key_head);
    const Rows<uint16_t> dv = Head<uint16_t>(gradients[2], batch, key_head);
    std::byte* const scratch =
        launch.workspace.data() + thread * layout.bytes();
    const Rows<float> d_keys = {layout.d_keys(scratch), depth};
    const Rows<float> d_values = {layout.d_values(scratch), depth};
    float* const d_queries = layout.queries(scratch);
    std::fill_n(d_queries, sizes.heads_per_key * length * depth, 0.0f);

    PairColumns of_keys = {}, of_values = {};
    ForGradTiles<uint16_t>(
        all_reads.Of(batch), sizes, all_reads.keys, dk, dv,
        [&](const Tile& tile) {
          of_keys =
              PackColumns(depth, tile.keys, Transposed(keys.At(tile.key, 0)),
                          layout.keys(scratch));
          of_values =
              PackColumns(depth, tile.keys, Transposed(values.At(tile.key, 0)),
                          layout.values(scratch));
        },
        [&](const Tile& tile, int64_t i, bool accumulate) {
          const HeadGradient head(launch, batch, first_head + i);
          TileGradient(tile, depth, head, of_keys, of_values, scaling, layout,
                       scratch);
          SumOverQueries(tile, depth, layout.rounded(scratch), head.d_result,
                         d_values, accumulate, layout, scratch);
          SumOverQueries(tile, depth, layout.d_rounded(scratch), head.queries,
                         d_keys, accumulate, layout, scratch);
          SumOverKeys(tile, depth, layout.d_rounded(scratch), keys,
                      {d_queries + (i * length + tile.query) * depth, depth},
                      /*accumulate=*/true, layout, scratch);
        },
        [&](const Tile& tile) {
          RoundRows(tile.keys, depth, d_keys.data, dk.At(tile.key, 0));
          RoundRows(tile.keys, depth, d_values.data, dv.At(tile.key, 0));
        });
    for (int64_t i = 0; i < sizes.heads_per_key; ++i) {
      RoundRows(length, depth, d_queries + i * length * depth,
                Head<uint16_t>(gradients[0], batch, first_head + i));
    }
  });
}

StepCode RunAttentionByPairs(const Launch& launch, ThreadPool& pool) noexcept {
  if (!LengthsInRange(launch, kAttentionOperands)) {
    return StepCode::kIndexOutOfRange;
  }
  RunForward(launch, pool);
  return StepCode::kOk;
}
StepCode RunAttentionGradByPairs(const Launch& launch,
                                 ThreadPool& pool) noexcept {
  if (!LengthsInRange(launch, kAttentionGradOperands)) {
    return StepCode::kIndexOutOfRange;
  }
  RunGrad(launch, pool);
  return StepCode::kOk;
}

// If it overflows 64 bits, more than any plan can hold.
Bytes WorkspaceOf(int64_t depth, std::optional<int64_t> query_sums,
                  int threads) {
  constexpr int64_t kMaxElements = int64_t{1} << 48;
  if (!query_sums || depth > kMaxElements ||
      CheckedMul(*query_sums, depth).value_or(kMaxElements) >= kMaxElements) {
    return std::numeric_limits<Bytes>::max();
  }
  return threads * TileScratch(depth, *query_sums).bytes();
}
Bytes ForwardWorkspace(const OpArgs& args, std::span<const TensorType>,
                       int threads) {
  return WorkspaceOf(args.shape(0)[3], kTile, threads);
}
Bytes GradWorkspace(const OpArgs& args, std::span<const TensorType>,
                    int threads) {
  const Shape& q = args.shape(0);
  return WorkspaceOf(q[3], CheckedMul(q[2] / args.shape(1)[2], q[1]), threads);
}

template <size_t kAlways>
bool SupportsAttention(const OpArgs& args) {
  if (args.type(0).dtype != DType::kBF16) return SupportsBf16(args);
  const AttentionOptionals optionals =
      OptionalsBehind(kAlways, static_cast<size_t>(args.count()),
                      [&](size_t i) -> const TensorType& {
                        return args.type(static_cast<int>(i));
                      });
  return optionals.bias == 0;
}

}  // namespace

namespace bf16_kernels {

constinit const CpuKernel Attention =
    Bf16Kernel<kernels::Attention, RunAttentionByPairs, ForwardWorkspace>(
        SupportsAttention<kAttentionOperands>);
constinit const CpuKernel AttentionGrad =
    Bf16Kernel<kernels::AttentionGrad, RunAttentionGradByPairs, GradWorkspace>(
        SupportsAttention<kAttentionGradOperands>);
constinit const CpuKernel AttentionQkvGrad =
    Bf16Kernel<kernels::AttentionQkvGrad, RunAttentionGradByPairs,
               GradWorkspace>(SupportsAttention<kAttentionGradOperands>);

}  // namespace bf16_kernels
}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS
