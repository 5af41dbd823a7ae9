// causal_attention and its gradient, blockwise (Dao et al. 2022,
// "FlashAttention"; the online softmax is Milakov & Gimelshein 2018).
//
// Scores exist only as tiles of kTile queries by kTile keys in scratch. In the
// tile on the diagonal, groups of kGroup queries stop at their own last key, so
// about a quarter of that tile is computed for nothing, not half.
//
// Forward: a task is one tile of queries of one head. Gradient: a task is one
// key head of one batch entry with all its query heads, and adds to dq, dk and
// dv in a fixed order; the probabilities are recomputed from log_sum_exp.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

constexpr int64_t kTile = 64;
constexpr int64_t kGroup = 16;

// One head of one batch entry of a (B, T, H, D) operand: T rows of D.
template <typename T>
Rows<T> Head(const TensorView& x, int64_t batch, int64_t head) {
  return {x.as<T>() + batch * x.strides[0] + head * x.strides[2], x.strides[1]};
}

template <typename T>
Strided<T> AsStrided(Rows<const T> x) {
  return {x.data, x.row, 1};
}
template <typename T>
Strided<T> Transposed(Rows<const T> x) {
  return {x.data, 1, x.row};
}
template <typename T>
Rows<const T> ReadOnly(Rows<T> x) {
  return {x.data, x.row, x.padded};
}

// A tile of scores: queries [query, query + queries), keys [key, key + keys).
// Only tiles on or below the diagonal are visited, so query >= key.
struct Tile {
  int64_t query, queries;
  int64_t key, keys;

  // Keys that row `row` of the tile sees: at least one.
  int64_t Seen(int64_t row) const {
    return std::min(keys, query - key + row + 1);
  }
  // The first row that sees key `column`.
  int64_t FirstSeer(int64_t column) const {
    return std::max<int64_t>(0, key + column - query);
  }
  // Rows handled together: all of them, or small groups on the diagonal.
  int64_t group() const { return Seen(0) == keys ? queries : kGroup; }
};

// scores (queries, keys) = x (T, D) times other^T, given as (D, kTile).
template <typename T>
void Scores(const Tile& tile, int64_t depth, Rows<const T> x, const T* other,
            T* scores) {
  for (int64_t row = 0; row < tile.queries; row += tile.group()) {
    const int64_t rows = std::min(tile.group(), tile.queries - row);
    Multiply<T>(rows, tile.Seen(row + rows - 1), depth,
                AsStrided<T>(x.At(tile.query + row, 0)),
                {other, kTile, /*padded=*/true}, {scores + row * kTile, kTile},
                /*accumulate=*/false);
  }
}

// to (T, D) = or += weights (queries, keys) times x (T, D): a sum over keys.
template <typename T>
void SumOverKeys(const Tile& tile, int64_t depth, const T* weights,
                 Rows<const T> x, Rows<T> to, bool accumulate) {
  for (int64_t row = 0; row < tile.queries; row += tile.group()) {
    const int64_t rows = std::min(tile.group(), tile.queries - row);
    Multiply<T>(rows, depth, tile.Seen(row + rows - 1),
                {weights + row * kTile, kTile, 1}, x.At(tile.key, 0),
                to.At(tile.query + row, 0), accumulate);
  }
}

// to (T, D) = or += weights^T (keys, queries) times x (T, D): a sum over
// queries.
template <typename T>
void SumOverQueries(const Tile& tile, int64_t depth, const T* weights,
                    Rows<const T> x, Rows<T> to, bool accumulate) {
  const int64_t group = tile.group() == tile.queries ? tile.keys : kGroup;
  for (int64_t column = 0; column < tile.keys; column += group) {
    const int64_t columns = std::min(group, tile.keys - column);
    const int64_t first = tile.FirstSeer(column);
    Multiply<T>(columns, depth, tile.queries - first,
                {weights + first * kTile + column, 1, kTile},
                x.At(tile.query + first, 0), to.At(tile.key + column, 0),
                accumulate);
  }
}

template <typename T>
void ScaleRow(int64_t n, T factor, T* row) {
  ForEachVec<T>(
      n, [&](auto at) { at.Store(row, at.Load(row) * Vec<T>::All(factor)); });
}

// Rows of scores are worked on in whole registers: up to the first multiple of
// a register's lanes, what follows the keys seen is set to `rest`.
template <typename T>
int64_t FillToRegister(int64_t seen, T rest, T* row) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const int64_t end = CeilDiv(seen, kLanes) * kLanes;
  std::fill(row + seen, row + end, rest);
  return end;
}

// Turns one row of scores into weights exp(scale s - largest) in place, zeros
// after `seen`; `largest` and `total` run on over the tiles. Returns by how
// much what was summed before must be scaled.
template <typename T>
T OnlineSoftmax(int64_t seen, T scale, T* row, T* largest, T* total) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  const Vec<T> scales = Vec<T>::All(scale);
  const int64_t end = FillToRegister(seen, kLowest, row);
  Vec<T> top = Vec<T>::All(kLowest);
  for (int64_t j = 0; j < end; j += Vec<T>::kLanes) {
    top = Larger(top, Vec<T>::Load(row + j));
  }
  // The scale is positive. NaN comes out as NaN, by its weight.
  const T before = *largest;
  *largest = std::max(before, LargestLane(top) * scale);
  const Vec<T> shift = Vec<T>::All(*largest);
  Vec<T> sum = Vec<T>::Zero();
  for (int64_t j = 0; j < end; j += Vec<T>::kLanes) {
    const Vec<T> weight = Exp(Vec<T>::Load(row + j) * scales - shift);
    weight.Store(row + j);
    sum += weight;
  }
  std::fill(row + end, row + kTile, T(0));
  const T correction = before == kLowest ? T(0) : std::exp(before - *largest);
  *total = *total * correction + SumLanes(sum);
  return correction;
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
  const TensorView& q = launch.inputs[0];
  const TensorView& k = launch.inputs[1];
  const TensorView& v = launch.inputs[2];
  const TensorView& o = launch.outputs[0];
  const int64_t length = q.shape()[1];
  const int64_t heads = q.shape()[2];
  const int64_t depth = q.shape()[3];
  const int64_t heads_per_key = heads / k.shape()[2];
  const T scale = static_cast<T>(launch.attrs->Float("scale"));
  const int64_t tiles = CeilDiv(length, kTile);

  pool.ParallelFor(q.shape()[0] * heads * tiles, [&](int64_t task, int thread) {
    const int64_t batch = task / tiles / heads;
    const int64_t head = task / tiles % heads;
    const Rows<const T> queries = Head<const T>(q, batch, head);
    const Rows<const T> keys = Head<const T>(k, batch, head / heads_per_key);
    const Rows<const T> values = Head<const T>(v, batch, head / heads_per_key);
    const Rows<T> result = Head<T>(o, batch, head);
    T* log_sum_exp =
        launch.outputs[1].as<T>() + (batch * heads + head) * length;
    T* keys_t = reinterpret_cast<T*>(launch.workspace.data()) +
                thread * ForwardScratch(depth);
    T* weights = keys_t + depth * kTile;

    Tile tile;
    tile.query = task % tiles * kTile;
    tile.queries = std::min(kTile, length - tile.query);
    T largest[kTile];
    T total[kTile];
    std::fill(largest, largest + kTile, -std::numeric_limits<T>::infinity());
    std::fill(total, total + kTile, T(0));
    for (tile.key = 0; tile.key <= tile.query; tile.key += kTile) {
      tile.keys = std::min(kTile, length - tile.key);
      Pack<T>(depth, tile.keys, Transposed<T>(keys.At(tile.key, 0)), keys_t,
              kTile);
      Scores<T>(tile, depth, queries, keys_t, weights);
      for (int64_t row = 0; row < tile.queries; ++row) {
        const T correction =
            OnlineSoftmax(tile.Seen(row), scale, weights + row * kTile,
                          &largest[row], &total[row]);
        if (tile.key > 0 && correction != 1) {
          ScaleRow(depth, correction, result.At(tile.query + row, 0).data);
        }
      }
      SumOverKeys<T>(tile, depth, weights, values, result,
                     /*accumulate=*/tile.key > 0);
    }
    for (int64_t row = 0; row < tile.queries; ++row) {
      ScaleRow(depth, 1 / total[row], result.At(tile.query + row, 0).data);
      log_sum_exp[tile.query + row] = largest[row] + std::log(total[row]);
    }
  });
}

// scores become probabilities P, and d_weights (the gradient of P) that of the
// scores before scaling: scale * P * (dP - delta).
template <typename T>
void ProbabilitiesAndGradient(int64_t seen, T scale, T log_sum_exp, T delta,
                              T* scores, T* d_weights) {
  const Vec<T> scales = Vec<T>::All(scale);
  const Vec<T> shift = Vec<T>::All(log_sum_exp);
  const Vec<T> deltas = Vec<T>::All(delta);
  const int64_t end =
      FillToRegister(seen, -std::numeric_limits<T>::infinity(), scores);
  FillToRegister(seen, T(0), d_weights);
  for (int64_t j = 0; j < end; j += Vec<T>::kLanes) {
    const Vec<T> p = Exp(Vec<T>::Load(scores + j) * scales - shift);
    p.Store(scores + j);
    const Vec<T> d_p = Vec<T>::Load(d_weights + j);
    (p * (d_p - deltas) * scales).Store(d_weights + j);
  }
  std::fill(scores + end, scores + kTile, T(0));
  std::fill(d_weights + end, d_weights + kTile, T(0));
}

template <typename T>
T Dot(int64_t n, const T* a, const T* b) {
  Vec<T> sum = Vec<T>::Zero();
  ForEachVec<T>(n, [&](auto at) { sum = MulAdd(at.Load(a), at.Load(b), sum); });
  return SumLanes(sum);
}

template <typename T>
void RunGrad(const Launch& launch, ThreadPool& pool) {
  const TensorView& q = launch.inputs[0];
  const TensorView& k = launch.inputs[1];
  const int64_t length = q.shape()[1];
  const int64_t heads = q.shape()[2];
  const int64_t depth = q.shape()[3];
  const int64_t key_heads = k.shape()[2];
  const int64_t heads_per_key = heads / key_heads;
  const T scale = static_cast<T>(launch.attrs->Float("scale"));

  pool.ParallelFor(q.shape()[0] * key_heads, [&](int64_t task, int thread) {
    const int64_t batch = task / key_heads;
    const int64_t key_head = task % key_heads;
    const auto keys = Head<const T>(k, batch, key_head);
    const auto values = Head<const T>(launch.inputs[2], batch, key_head);
    const Rows<T> dk = Head<T>(launch.outputs[1], batch, key_head);
    const Rows<T> dv = Head<T>(launch.outputs[2], batch, key_head);
    T* keys_t = reinterpret_cast<T*>(launch.workspace.data()) +
                thread * GradScratch(depth);
    T* values_t = keys_t + depth * kTile;
    T* weights = values_t + depth * kTile;
    T* d_weights = weights + kTile * kTile;

    Tile tile;
    for (tile.key = 0; tile.key < length; tile.key += kTile) {
      tile.keys = std::min(kTile, length - tile.key);
      Pack<T>(depth, tile.keys, Transposed<T>(keys.At(tile.key, 0)), keys_t,
              kTile);
      Pack<T>(depth, tile.keys, Transposed<T>(values.At(tile.key, 0)), values_t,
              kTile);
      bool first = true;  // of the tiles that add to dk and dv
      for (int64_t i = 0; i < heads_per_key; ++i) {
        const int64_t head = key_head * heads_per_key + i;
        const auto queries = Head<const T>(q, batch, head);
        const auto result = Head<const T>(launch.inputs[3], batch, head);
        const auto d_result = Head<const T>(launch.inputs[5], batch, head);
        const Rows<T> dq = Head<T>(launch.outputs[0], batch, head);
        const T* log_sum_exp =
            launch.inputs[4].as<const T>() + (batch * heads + head) * length;
        for (tile.query = tile.key; tile.query < length; tile.query += kTile) {
          tile.queries = std::min(kTile, length - tile.query);
          Scores<T>(tile, depth, queries, keys_t, weights);
          Scores<T>(tile, depth, d_result, values_t, d_weights);
          for (int64_t row = 0; row < tile.queries; ++row) {
            const int64_t at = tile.query + row;
            const T delta =
                Dot(depth, result.At(at, 0).data, d_result.At(at, 0).data);
            ProbabilitiesAndGradient(tile.Seen(row), scale, log_sum_exp[at],
                                     delta, weights + row * kTile,
                                     d_weights + row * kTile);
          }
          SumOverQueries<T>(tile, depth, weights, d_result, dv, !first);
          SumOverQueries<T>(tile, depth, d_weights, queries, dk, !first);
          SumOverKeys<T>(tile, depth, d_weights, keys, dq,
                         /*accumulate=*/tile.key > 0);
          first = false;
        }
      }
    }
  });
}

StepCode RunCausalAttention(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.inputs[0].dtype(),
          [&](auto zero) { RunForward<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}
StepCode RunCausalAttentionGrad(const Launch& launch,
                                ThreadPool& pool) noexcept {
  OnFloat(launch.inputs[0].dtype(),
          [&](auto zero) { RunGrad<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

// `times` ForwardScratch a thread; where that does not fit 64 bits, what no plan
// can hold.
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

constinit const CpuKernel CausalAttention = {.run = RunCausalAttention,
                                             .workspace = ForwardWorkspace};
constinit const CpuKernel CausalAttentionGrad = {.run = RunCausalAttentionGrad,
                                                 .workspace = GradWorkspace};

}  // namespace kernels
}  // namespace stowage::cpu
