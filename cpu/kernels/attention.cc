// attention and its gradients, blockwise (Dao et al. 2022, "FlashAttention"; the online
// softmax is Milakov & Gimelshein 2018).
//
// Scores exist only as tiles of kTile queries by kTile keys in scratch; tiles in which no
// query reads a key are skipped. In a tile that a mask's edge crosses, groups of kGroup
// queries use only the keys that one of them reads, which wastes about a quarter of the tile
// instead of half.
//
// Forward: a task is one tile of queries of one head. Gradient: a task is one key head of one
// batch entry with all its query heads, and adds to dq, dk and dv in a fixed order; the
// probabilities are recomputed from log_sum_exp. Gradient of the bias: a task is one tile of
// it.

#include "ir/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/attention_tiles.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

// scores (queries, keys) = x (T, D) times other^T, stored as (D, kTile).
template <typename T>
void Scores(const Tile& tile, int64_t depth, Rows<const T> x, const T* other,
            T* scores) {
  const int64_t group = tile.group();
  for (int64_t row = 0; row < tile.queries; row += group) {
    const int64_t rows = std::min(group, tile.queries - row);
    const Range columns = GroupColumns(tile, row, rows);
    Multiply<T>(rows, columns.count(), depth,
                AsStrided<T>(x.At(tile.query + row, 0)),
                {other + columns.begin, kTile, /*padded=*/true},
                {scores + row * kTile + columns.begin, kTile},
                /*accumulate=*/false);
  }
}

// to (T, D) = or += weights (queries, keys) times x (S, D): a sum over keys.
template <typename T>
void SumOverKeys(const Tile& tile, int64_t depth, const T* weights,
                 Rows<const T> x, Rows<T> to, bool accumulate) {
  const int64_t group = tile.group();
  for (int64_t row = 0; row < tile.queries; row += group) {
    const int64_t rows = std::min(group, tile.queries - row);
    const Range columns = GroupColumns(tile, row, rows);
    Multiply<T>(rows, depth, columns.count(),
                {weights + row * kTile + columns.begin, kTile, 1},
                x.At(tile.key + columns.begin, 0), to.At(tile.query + row, 0),
                accumulate);
  }
}

// to (S, D) = or += weights^T (keys, queries) times x (T, D): a sum over
// queries.
template <typename T>
void SumOverQueries(const Tile& tile, int64_t depth, const T* weights,
                    Rows<const T> x, Rows<T> to, bool accumulate) {
  const int64_t group = tile.group();
  for (int64_t column = 0; column < tile.keys; column += group) {
    const int64_t columns = std::min(group, tile.keys - column);
    const Range rows = tile.Rows(column, columns);
    Multiply<T>(columns, depth, rows.count(),
                {weights + rows.begin * kTile + column, 1, kTile},
                x.At(tile.query + rows.begin, 0), to.At(tile.key + column, 0),
                accumulate);
  }
}

// Elements of scratch a thread.
constexpr int64_t ForwardScratch(int64_t depth) {
  return (depth + kTile) * kTile;
}
constexpr int64_t GradScratch(int64_t depth) {
  return 2 * ForwardScratch(depth);
}

template <typename T>
void RunForward(const Launch& launch, ThreadPool& pool) {
  const AttentionSizes sizes(launch);
  const int64_t depth = sizes.depth;
  const TensorView* all_bias = Bias(launch, kAttentionOperands);
  const AllReads all_reads(launch, kAttentionOperands);
  const Scaling<T> scaling(launch);

  ForQueryTiles(
      sizes, pool,
      [&](int64_t batch, int64_t head, const Tile& queries_tile, int thread) {
        const int64_t key_head = head / sizes.heads_per_key;
        const auto queries = Head<const T>(launch.inputs[0], batch, head);
        const auto keys = Head<const T>(launch.inputs[1], batch, key_head);
        const auto values = Head<const T>(launch.inputs[2], batch, key_head);
        const Rows<T> result = Head<T>(launch.outputs[0], batch, head);
        T* keys_t = reinterpret_cast<T*>(launch.workspace.data()) +
                    thread * ForwardScratch(depth);
        T* weights = keys_t + depth * kTile;
        ForwardTile<T>(
            all_reads.Of(batch), queries_tile, depth, scaling,
            BiasHeadOrNone<T>(all_bias, batch, head), weights,
            result.At(queries_tile.query, 0),
            launch.outputs[1].as<T>() +
                (batch * sizes.heads + head) * sizes.length,
            [&](const Tile& tile) {
              Pack<T>(depth, tile.keys, Transposed<T>(keys.At(tile.key, 0)),
                      keys_t, kTile);
              Scores<T>(tile, depth, queries, keys_t, weights);
            },
            [&](const Tile& tile, bool accumulate) {
              SumOverKeys<T>(tile, depth, weights, values, result, accumulate);
            });
      });
}

template <typename T>
T Dot(int64_t n, const T* a, const T* b) {
  Vec<T> sum = Vec<T>::Zero();
  ForEachVec<T>(n, [&](auto at) { sum = MulAdd(at.Load(a), at.Load(b), sum); });
  return SumLanes(sum);
}

// The operands of the gradients for one query head of one batch entry.
template <typename T>
struct GradHead {
  Rows<const T> queries, result, d_result, bias;
  const T* log_sum_exp;
};

template <typename T>
GradHead<T> GradHeadOf(const Launch& launch, const TensorView* bias,
                       int64_t batch, int64_t head) {
  const Shape& q = launch.inputs[0].shape();
  return {.queries = Head<const T>(launch.inputs[0], batch, head),
          .result = Head<const T>(launch.inputs[3], batch, head),
          .d_result = Head<const T>(launch.inputs[5], batch, head),
          .bias = BiasHeadOrNone<T>(bias, batch, head),
          .log_sum_exp =
              launch.inputs[4].as<const T>() + (batch * q[2] + head) * q[1]};
}

// The probabilities of one tile, and the gradient of the unscaled scores or, with `of_bias`,
// of the bias.
template <typename T>
void TileGradient(const Tile& tile, int64_t depth, const GradHead<T>& head,
                  const T* keys_t, const T* values_t, const Scaling<T>& scaling,
                  bool of_bias, T* weights, T* d_weights) {
  Scores<T>(tile, depth, head.queries, keys_t, weights);
  Scores<T>(tile, depth, head.d_result, values_t, d_weights);
  GradOfTile<T>(
      tile, scaling, head.bias, head.log_sum_exp, of_bias,
      [&](int64_t query) {
        return Dot(depth, head.result.At(query, 0).data,
                   head.d_result.At(query, 0).data);
      },
      weights, d_weights);
}

template <typename T>
void RunGrad(const Launch& launch, ThreadPool& pool) {
  const std::array<TensorView, 3> gradients = Gradients(launch);
  const AttentionSizes sizes(launch);
  const int64_t depth = sizes.depth;
  const TensorView* bias = Bias(launch, kAttentionGradOperands);
  const AllReads all_reads(launch, kAttentionGradOperands);
  const Scaling<T> scaling(launch);

  pool.ParallelFor(
      sizes.batches * sizes.key_heads, [&](int64_t task, int thread) {
        const int64_t batch = task / sizes.key_heads;
        const int64_t key_head = task % sizes.key_heads;
        const auto keys = Head<const T>(launch.inputs[1], batch, key_head);
        const auto values = Head<const T>(launch.inputs[2], batch, key_head);
        const Rows<T> dk = Head<T>(gradients[1], batch, key_head);
        const Rows<T> dv = Head<T>(gradients[2], batch, key_head);
        T* keys_t = reinterpret_cast<T*>(launch.workspace.data()) +
                    thread * GradScratch(depth);
        T* values_t = keys_t + depth * kTile;
        T* weights = values_t + depth * kTile;
        T* d_weights = weights + kTile * kTile;

        const Reads reads = all_reads.Of(batch);
        // Tiles of queries, each with the first tile of keys that it reads.
        const auto of_queries = [&](int64_t query) {
          return Range{query, std::min(query + kTile, sizes.length)};
        };
        const auto first_key = [&](int64_t query) {
          return reads.Keys(of_queries(query)).begin / kTile * kTile;
        };
        const auto dq = [&](int64_t head) {
          return Head<T>(gradients[0], batch,
                         key_head * sizes.heads_per_key + head);
        };
        for (int64_t query = 0; query < sizes.length; query += kTile) {
          if (!reads.Keys(of_queries(query)).empty()) continue;
          for (int64_t i = 0; i < sizes.heads_per_key; ++i) {
            Clear<T>(of_queries(query), depth, dq(i));
          }
        }
        ForGradTiles<T>(
            reads, sizes, all_reads.keys, dk, dv,
            [&](const Tile& tile) {
              Pack<T>(depth, tile.keys, Transposed<T>(keys.At(tile.key, 0)),
                      keys_t, kTile);
              Pack<T>(depth, tile.keys, Transposed<T>(values.At(tile.key, 0)),
                      values_t, kTile);
            },
            [&](const Tile& tile, int64_t i, bool accumulate) {
              const GradHead<T> head = GradHeadOf<T>(
                  launch, bias, batch, key_head * sizes.heads_per_key + i);
              TileGradient(tile, depth, head, keys_t, values_t, scaling,
                           /*of_bias=*/false, weights, d_weights);
              SumOverQueries<T>(tile, depth, weights, head.d_result, dv,
                                accumulate);
              SumOverQueries<T>(tile, depth, d_weights, head.queries, dk,
                                accumulate);
              SumOverKeys<T>(tile, depth, d_weights, keys, dq(i),
                             /*accumulate=*/tile.key > first_key(tile.query));
            },
            [](const Tile&) {});
      });
}

// row += x.
template <typename T>
void AddRow(int64_t n, const T* x, T* row) {
  ForEachVec<T>(n, [&](auto at) { at.Store(row, at.Load(row) + at.Load(x)); });
}

// Sums over queries that share an element of the bias have one order: batch entries, heads,
// tiles of queries; the rows of a tile are summed first.
template <typename T>
void RunBiasGrad(const Launch& launch, ThreadPool& pool) {
  const TensorView& q = launch.inputs[0];
  const TensorView& k = launch.inputs[1];
  const TensorView& d_bias = launch.outputs[0];
  const TensorView* bias = Bias(launch, kAttentionGradOperands);
  const AllReads all_reads(launch, kAttentionGradOperands);
  const int64_t depth = q.shape()[3];
  const int64_t heads_per_key = q.shape()[2] / k.shape()[2];
  const Scaling<T> scaling(launch);
  const Shape& shape = d_bias.shape();
  const bool one_row = shape[2] == 1;  // for all queries
  const int64_t row_tiles = CeilDiv(shape[2], kTile);
  const int64_t key_tiles = CeilDiv(all_reads.keys, kTile);
  // The batch entries or heads, of `count`, that use entry `i` of the bias.
  const auto sharing = [&](int axis, int64_t i, int64_t count) {
    return shape[axis] == 1 ? Range{0, count} : Range{i, i + 1};
  };

  const int64_t tasks = shape[0] * shape[1] * row_tiles * key_tiles;
  pool.ParallelFor(tasks, [&](int64_t task, int thread) {
    Tile tile;
    tile.band = all_reads.band;
    tile.key = task % key_tiles * kTile;
    const int64_t first_row = task / key_tiles % row_tiles * kTile;
    const int64_t d_head = task / key_tiles / row_tiles % shape[1];
    const int64_t d_batch = task / key_tiles / row_tiles / shape[1];
    const Range rows = {first_row, std::min(first_row + kTile, shape[2])};
    const Range queries = one_row ? Range{0, all_reads.queries} : rows;
    const Rows<T> to = BiasHead<T>(d_bias, d_batch, d_head).At(0, tile.key);
    Clear<T>(rows, std::min(kTile, all_reads.keys - tile.key), to);

    T* keys_t = reinterpret_cast<T*>(launch.workspace.data()) +
                thread * GradScratch(depth);
    T* values_t = keys_t + depth * kTile;
    T* weights = values_t + depth * kTile;
    T* d_weights = weights + kTile * kTile;
    const Range batches = sharing(0, d_batch, q.shape()[0]);
    const Range heads = sharing(1, d_head, q.shape()[2]);
    for (int64_t batch = batches.begin; batch < batches.end; ++batch) {
      const Reads reads = all_reads.Of(batch);
      tile.segments = reads.segments;
      tile.keys = std::min(kTile, reads.keys - tile.key);
      if (tile.keys <= 0) continue;
      const Range readers = reads.Queries({tile.key, tile.key + tile.keys});
      const Range these = {
          std::max(readers.begin / kTile * kTile, queries.begin),
          std::min(readers.end, queries.end)};
      if (these.empty()) continue;
      int64_t packed = -1;  // which key head
      for (int64_t i = heads.begin; i < heads.end; ++i) {
        const int64_t key_head = i / heads_per_key;
        if (key_head != packed) {
          const auto keys = Head<const T>(k, batch, key_head);
          const auto values = Head<const T>(launch.inputs[2], batch, key_head);
          Pack<T>(depth, tile.keys, Transposed<T>(keys.At(tile.key, 0)), keys_t,
                  kTile);
          Pack<T>(depth, tile.keys, Transposed<T>(values.At(tile.key, 0)),
                  values_t, kTile);
          packed = key_head;
        }
        const GradHead<T> head = GradHeadOf<T>(launch, bias, batch, i);
        for (tile.query = these.begin; tile.query < these.end;
             tile.query += kTile) {
          tile.queries = std::min(kTile, all_reads.queries - tile.query);
          TileGradient(tile, depth, head, keys_t, values_t, scaling,
                       /*of_bias=*/true, weights, d_weights);
          for (int64_t row = one_row ? 1 : 0; row < tile.queries; ++row) {
            AddRow(tile.keys, d_weights + row * kTile,
                   one_row ? d_weights : to.At(tile.query + row, 0).data);
          }
          if (one_row) AddRow(tile.keys, d_weights, to.data);
        }
      }
    }
  });
}

StepCode RunAttention(const Launch& launch, ThreadPool& pool) noexcept {
  if (!LengthsInRange(launch, kAttentionOperands)) {
    return StepCode::kIndexOutOfRange;
  }
  OnFloat(launch.inputs[0].dtype(),
          [&](auto zero) { RunForward<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunAttentionGrad(const Launch& launch, ThreadPool& pool) noexcept {
  if (!LengthsInRange(launch, kAttentionGradOperands)) {
    return StepCode::kIndexOutOfRange;
  }
  OnFloat(launch.inputs[0].dtype(),
          [&](auto zero) { RunGrad<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunAttentionBiasGrad(const Launch& launch, ThreadPool& pool) noexcept {
  if (!LengthsInRange(launch, kAttentionGradOperands)) {
    return StepCode::kIndexOutOfRange;
  }
  OnFloat(launch.inputs[0].dtype(),
          [&](auto zero) { RunBiasGrad<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

// `times` ForwardScratch per thread; if it overflows 64 bits, more than any plan can hold.
Bytes ScratchBytes(const OpArgs& args, int64_t times, int threads) {
  const int64_t depth = args.shape(0)[3];
  const Bytes tile_row = times * kTile * threads * SizeOf(args.type(0).dtype);
  return CheckedMul(depth + kTile, tile_row)
      .value_or(std::numeric_limits<Bytes>::max());
}
Bytes ForwardWorkspace(const OpArgs& args, std::span<const TensorType>,
                       int threads) {
  return ScratchBytes(args, 1, threads);
}
Bytes GradWorkspace(const OpArgs& args, std::span<const TensorType>,
                    int threads) {
  return ScratchBytes(args, 2, threads);
}

}  // namespace

namespace kernels {

constinit const CpuKernel Attention = {.run = RunAttention,
                                       .workspace = ForwardWorkspace};
constinit const CpuKernel AttentionGrad = {.run = RunAttentionGrad,
                                           .workspace = GradWorkspace};
constinit const CpuKernel AttentionQkvGrad = {.run = RunAttentionGrad,
                                              .workspace = GradWorkspace};
constinit const CpuKernel AttentionBiasGrad = {.run = RunAttentionBiasGrad,
                                               .workspace = GradWorkspace};

}  // namespace kernels
}  // namespace stowage::cpu
