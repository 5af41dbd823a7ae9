#ifndef STOWAGE_CPU_KERNELS_ATTENTION_TILES_H_
#define STOWAGE_CPU_KERNELS_ATTENTION_TILES_H_

// Provides the steps of attention that do not depend on how its matmuls are computed: which keys a
// query reads, tiles of scores, the softmax and its gradient for the rows of a tile, and the loops
// over tiles. attention.cc (f32 and f64) and bf16_attention.cc (bf16 by pairs) share them. A tile
// is a block of the score matrix of one head, with the scores of up to 64 queries and 64 keys. A
// tile's rows are queries, and its columns are keys.
//
//   const AllReads all_reads(launch, kAttentionOperands);
//   const Reads reads = all_reads.Of(batch);
//   const Range keys = reads.Keys({tile.query, tile.query + tile.queries});

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"
#include "cpu/thread_pool.h"
#include "ir/attention.h"
#include "ir/op_kind.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

/// kTile is the maximum number of queries, and of keys, in a tile. A matmul processes kGroup rows
/// at a time in a tile that the edge of a mask crosses, and otherwise all rows.
inline constexpr int64_t kTile = 64;
inline constexpr int64_t kGroup = 16;

/// Returns the matrix of one head and one batch entry of an operand (B, T, H, D): T rows of D
/// elements.
template <typename T>
Rows<T> Head(const TensorView& x, int64_t batch, int64_t head) {
  return {x.as<T>() + batch * x.strides[0] + head * x.strides[2], x.strides[1]};
}

/// Returns the matrix of one head and one batch entry of a bias (B, H, T, S), or of the bias's
/// gradient: T rows of S elements. If one of the dimensions B, H and T has size 1, it is broadcast.
template <typename T>
Rows<T> BiasHead(const TensorView& x, int64_t batch, int64_t head) {
  const auto step = [&](int axis) {
    return x.shape()[axis] == 1 ? 0 : x.strides[axis];
  };
  return {x.as<T>() + batch * step(0) + head * step(1), step(2)};
}

template <typename T>
Strided<T> AsStrided(Rows<const T> x) {
  return {x.data, x.row, 1};
}
template <typename T>
Strided<T> Transposed(Rows<const T> x) {
  return {x.data, 1, x.row};
}

/// The positions [begin, end). Empty if end <= begin.
struct Range {
  int64_t begin, end;

  bool empty() const { return end <= begin; }
  int64_t count() const { return std::max<int64_t>(0, end - begin); }
};

/// The segments of one batch entry. A query reads only keys of its segment. `begins` and `ends`
/// have the begin and the end of the segment of each position. Both are null if there are no
/// segments.
struct Segments {
  const int32_t* begins = nullptr;
  const int32_t* ends = nullptr;

  // Returns the positions of `range` that are in the segments of positions [first, end). Returns
  // `range` if there are no segments or [first, end) is empty.
  Range Within(Range range, int64_t first, int64_t end) const {
    if (begins == nullptr || end <= first) return range;
    return {std::max<int64_t>(range.begin, begins[first]),
            std::min<int64_t>(range.end, ends[end - 1])};
  }
};

/// Specifies which keys the queries of one batch entry read. Query q reads the keys below `keys`
/// that are in [q + band.low, q + band.high] and in its segment.
struct Reads {
  int64_t queries, keys;
  AttentionBand band;
  Segments segments = {};

  // Returns the keys that at least one of `these` queries reads. They form a range, because the
  // first key of the first query is the lowest of all and the last key of the last query is the
  // highest.
  Range Keys(Range these) const {
    return segments.Within({std::max<int64_t>(0, these.begin + band.low),
                            std::min(keys, these.end + band.high)},
                           these.begin, these.end);
  }
  // Returns the queries that read at least one of `these` keys. They form a range, too.
  Range Queries(Range these) const {
    return segments.Within({std::max<int64_t>(0, these.begin - band.high),
                            std::min(queries, these.end - band.low)},
                           these.begin, these.end);
  }
};

/// A tile of scores for queries [query, query + queries) and keys [key, key + keys).
struct Tile {
  int64_t query, queries;
  int64_t key, keys;
  AttentionBand band;
  Segments segments = {};

  // Returns the columns of the tile that at least one of its rows [row, row + rows) reads.
  Range Columns(int64_t row, int64_t rows) const {
    const int64_t first = query + row;
    const Range read = segments.Within(
        {first + band.low, first + rows + band.high}, first, first + rows);
    return {std::clamp<int64_t>(read.begin - key, 0, keys),
            std::clamp<int64_t>(read.end - key, 0, keys)};
  }
  // Returns the rows that read at least one of the tile's columns [column, column + columns).
  Range Rows(int64_t column, int64_t columns) const {
    const int64_t first = key + column;
    const Range readers =
        segments.Within({first - band.high, first + columns - band.low}, first,
                        first + columns);
    return {std::clamp<int64_t>(readers.begin - query, 0, queries),
            std::clamp<int64_t>(readers.end - query, 0, queries)};
  }
  // Returns whether all rows read all columns. It is sufficient to check that the first row reads
  // the last column and the last row reads the first column.
  bool whole() const {
    return Columns(0, 1).end == keys && Columns(queries - 1, 1).begin == 0;
  }
  // Returns the number of rows, or of columns, that are processed together: all of them if whole()
  // is true, and otherwise kGroup.
  int64_t group() const { return whole() ? kTile : kGroup; }
};

/// Returns the columns that rows [row, row + rows) of the tile read, with the begin rounded down to
/// a multiple of kGroup.
inline Range GroupColumns(const Tile& tile, int64_t row, int64_t rows) {
  const Range seen = tile.Columns(row, rows);
  return {seen.begin / kGroup * kGroup, seen.end};
}

/// Sets rows of x, which have `depth` elements, to zero.
template <typename T>
void Clear(Range rows, int64_t depth, Rows<T> x) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    std::fill_n(x.At(row, 0).data, depth, T(0));
  }
}

template <typename T>
void ScaleRow(int64_t n, T factor, T* row) {
  ForEachVec<T>(
      n, [&](auto at) { at.Store(row, at.Load(row) * Vec<T>::All(factor)); });
}

/// Extends `seen` to whole registers, and sets the columns of `row` that this adds to `rest`.
/// Returns the extended range.
template <typename T>
Range FillToRegisters(Range seen, T rest, T* row) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const Range all = {seen.begin / kLanes * kLanes,
                     CeilDiv(seen.end, kLanes) * kLanes};
  std::fill(row + all.begin, row + seen.begin, rest);
  std::fill(row + seen.end, row + all.end, rest);
  return all;
}

/// Sets all columns of a row except `kept` to zero.
template <typename T>
void ClearOthers(Range kept, T* row) {
  std::fill(row, row + kept.begin, T(0));
  std::fill(row + kept.end, row + kTile, T(0));
}

/// Replaces each score s in the columns `seen` by scale s + bias. `bias` and `row` point to column
/// 0.
template <typename T>
void AddBias(Range seen, T scale, const T* bias, T* row) {
  if (seen.empty()) return;
  const Vec<T> scales = Vec<T>::All(scale);
  bias += seen.begin;
  row += seen.begin;
  ForEachVec<T>(seen.count(), [&](auto at) {
    at.Store(row, MulAdd(at.Load(row), scales, at.Load(bias)));
  });
}

/// Replaces each score s in the columns `seen` by cap tanh(scale s / cap). If `slopes` is not null,
/// sets these columns of it to the derivatives with respect to scale s.
template <typename T>
void CapScores(Range seen, T scale, T cap, T* row, T* slopes) {
  if (seen.empty()) return;
  const Vec<T> factor = Vec<T>::All(scale / cap), caps = Vec<T>::All(cap);
  row += seen.begin;
  if (slopes != nullptr) slopes += seen.begin;
  ForEachVec<T>(seen.count(), [&](auto at) {
    const Vec<T> bent = Tanh(at.Load(row) * factor);
    at.Store(row, bent * caps);
    if (slopes != nullptr) {
      at.Store(slopes, Vec<T>::All(1) - bent * bent);
    }
  });
}

/// Computes row *= x in the columns `seen`.
template <typename T>
void MultiplyRow(Range seen, const T* x, T* row) {
  if (seen.empty()) return;
  x += seen.begin;
  row += seen.begin;
  ForEachVec<T>(seen.count(),
                [&](auto at) { at.Store(row, at.Load(row) * at.Load(x)); });
}

/// Processes one row of a tile. First updates `largest`, which is the maximum of scale s over the
/// scores s of all tiles of the row so far. Then replaces each score s in the columns `seen` by
/// exp(scale s - largest), and sets the other columns of the tile to zero. Returns the factor by
/// which the caller must multiply its sums over the row's earlier tiles. `total`, the sum of the
/// exponentials over all tiles so far, is multiplied here. `scale` must be positive.
template <typename T>
T OnlineSoftmax(Range seen, T scale, T* row, T* largest, T* total) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  if (seen.empty()) {
    std::fill(row, row + kTile, T(0));
    return 1;
  }
  const Vec<T> scales = Vec<T>::All(scale);
  const Range all = FillToRegisters(seen, kLowest, row);
  Vec<T> top = Vec<T>::All(kLowest);
  for (int64_t j = all.begin; j < all.end; j += Vec<T>::kLanes) {
    top = Larger(top, Vec<T>::Load(row + j));
  }
  // The scale is positive. NaN scores give NaN weights.
  const T before = *largest;
  *largest = std::max(before, LargestLane(top) * scale);
  // If the bias is -inf for all keys so far, all weights are 0.
  const Vec<T> shift = Vec<T>::All(*largest == kLowest ? T(0) : *largest);
  Vec<T> sum = Vec<T>::Zero();
  for (int64_t j = all.begin; j < all.end; j += Vec<T>::kLanes) {
    const Vec<T> weight = Exp(Vec<T>::Load(row + j) * scales - shift);
    weight.Store(row + j);
    sum += weight;
  }
  ClearOthers(all, row);
  const T correction = before == kLowest ? T(0) : std::exp(before - *largest);
  *total = *total * correction + SumLanes(sum);
  return correction;
}

/// Returns the indices of the optional operands, which follow `always` required operands. An index
/// is 0 if the operand is absent.
inline AttentionOptionals Optionals(const Launch& launch, size_t always) {
  return OptionalsBehind(
      always, launch.inputs.size(),
      [&](size_t i) -> const TensorType& { return launch.inputs[i].type; });
}
/// Returns the key lengths (B), or null if there are none.
inline const int32_t* KeyLengths(const Launch& launch, size_t always) {
  const size_t i = Optionals(launch, always).key_lengths;
  return i == 0 ? nullptr : launch.inputs[i].as<const int32_t>();
}
/// Returns the segments (B, 2, T), or null if there are none. Of each batch entry, the begins come
/// first, then the ends.
inline const int32_t* AllSegments(const Launch& launch, size_t always) {
  const size_t i = Optionals(launch, always).segments;
  return i == 0 ? nullptr : launch.inputs[i].as<const int32_t>();
}
inline const TensorView* Bias(const Launch& launch, size_t always) {
  const size_t i = Optionals(launch, always).bias;
  return i == 0 ? nullptr : &launch.inputs[i];
}
/// Returns the bias of one head. Its data is null if there is no bias.
template <typename T>
Rows<const T> BiasHeadOrNone(const TensorView* bias, int64_t batch,
                             int64_t head) {
  if (bias == nullptr) return {nullptr, 0};
  return BiasHead<const T>(*bias, batch, head);
}

/// Provides the Reads of every batch entry of a launch. Of(batch) returns those of one entry, with
/// its key length and segments.
class AllReads : public Reads {
 public:
  AllReads(const Launch& launch, size_t always)
      : AllReads(launch.inputs[0].shape(), launch.inputs[1].shape(),
                 *launch.attrs) {
    lengths_ = KeyLengths(launch, always);
    all_segments_ = AllSegments(launch, always);
  }
  Reads Of(int64_t batch) const {
    Reads reads = *this;
    if (lengths_ != nullptr) reads.keys = lengths_[batch];
    if (all_segments_ != nullptr) {
      const int32_t* begins = all_segments_ + 2 * batch * queries;
      reads.segments = {begins, begins + queries};
    }
    return reads;
  }

 private:
  AllReads(const Shape& q, const Shape& k, const Attrs& attrs)
      : Reads{q[1], k[1], BandOf(q, k, attrs)} {}

  const int32_t* lengths_ = nullptr;
  const int32_t* all_segments_ = nullptr;
};

/// Returns a pointer to the bias of `query` and `key`, or null if there is no bias.
template <typename T>
const T* BiasAt(const Rows<const T>& bias, int64_t query, int64_t key) {
  return bias.data == nullptr ? nullptr : bias.At(query, key).data;
}

/// The operations on scores that precede the softmax: multiplication by the scale, the softcap, and
/// the addition of the bias.
template <typename T>
struct Scaling {
  explicit Scaling(const Launch& launch)
      : scale(static_cast<T>(launch.attrs->Float("scale"))),
        cap(static_cast<T>(launch.attrs->FloatOr("softcap", 0))) {}

  // Applies the operations to one row of scores. `bias` may be null. If there is neither a cap nor
  // a bias, the scale is not applied. Returns the factor by which the caller must still multiply
  // the scores: the scale in this case, and otherwise 1. If `slopes` is not null and there is a
  // cap, sets it to the derivatives of the softcap.
  T Apply(Range seen, const T* bias, T* row, T* slopes) const {
    T left = scale;
    if (cap > 0) {
      CapScores(seen, left, cap, row, slopes);
      left = 1;
    }
    if (bias == nullptr) return left;
    AddBias(seen, left, bias, row);
    return 1;
  }

  T scale, cap;
};

/// Processes one row of a tile. Replaces each score s in the columns `seen` by its probability P =
/// exp(scale s - log_sum_exp). Replaces `d_weights`, the gradient dP of the probabilities, by
/// d_scale * P * (dP - delta), which is `d_scale` times the gradient of scale s. Sets the other
/// columns of both to zero.
template <typename T>
void ProbabilitiesAndGradient(Range seen, T scale, T d_scale, T log_sum_exp,
                              T delta, T* scores, T* d_weights) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  if (seen.empty()) {
    std::fill(scores, scores + kTile, T(0));
    std::fill(d_weights, d_weights + kTile, T(0));
    return;
  }
  const Vec<T> scales = Vec<T>::All(scale);
  const Vec<T> d_scales = Vec<T>::All(d_scale);
  // If the bias of a query is -inf for all keys, each P is 0.
  const Vec<T> shift =
      Vec<T>::All(log_sum_exp == -kInfinity ? kInfinity : log_sum_exp);
  const Vec<T> deltas = Vec<T>::All(delta);
  const Range all = FillToRegisters(seen, -kInfinity, scores);
  FillToRegisters(seen, T(0), d_weights);
  for (int64_t j = all.begin; j < all.end; j += Vec<T>::kLanes) {
    const Vec<T> p = Exp(Vec<T>::Load(scores + j) * scales - shift);
    p.Store(scores + j);
    const Vec<T> d_p = Vec<T>::Load(d_weights + j);
    (p * (d_p - deltas) * d_scales).Store(d_weights + j);
  }
  ClearOthers(all, scores);
  ClearOthers(all, d_weights);
}

/// The sizes in a launch of attention or of its gradients.
struct AttentionSizes {
  explicit AttentionSizes(const Launch& launch)
      : batches(launch.inputs[0].shape()[0]),
        length(launch.inputs[0].shape()[1]),
        heads(launch.inputs[0].shape()[2]),
        depth(launch.inputs[0].shape()[3]),
        key_heads(launch.inputs[1].shape()[2]),
        heads_per_key(heads / key_heads) {}

  int64_t batches, length, heads, depth;  // `length` is the number of queries.
  int64_t key_heads, heads_per_key;
};

/// Calls f(batch, head, tile, thread) for each range of up to kTile queries of each head, in
/// parallel. Of `tile`, only `query` and `queries` are set.
template <typename F>
void ForQueryTiles(const AttentionSizes& sizes, ThreadPool& pool, const F& f) {
  const int64_t tiles = CeilDiv(sizes.length, kTile);
  pool.ParallelFor(
      sizes.batches * sizes.heads * tiles, [&](int64_t task, int thread) {
        Tile tile;
        tile.query = task % tiles * kTile;
        tile.queries = std::min(kTile, sizes.length - tile.query);
        f(task / tiles / sizes.heads, task / tiles % sizes.heads, tile, thread);
      });
}

/// Runs the forward pass for the queries of `tile`. For each tile of keys that they read, in order,
/// calls scores(tile), which must write the unscaled scores into `weights` (queries, kTile).
/// Replaces them by exponentials (OnlineSoftmax). Then calls add(tile, accumulate), which must
/// compute the matmul of `weights` and the values of the keys, and store it in `sums` (queries,
/// depth), or add it if `accumulate` is true. At the end, divides `sums` by the totals, and sets
/// log_sum_exp[q] for each query q. `log_sum_exp` and `bias` begin at query 0 of the head.
template <typename T, typename ScoresFn, typename AddFn>
void ForwardTile(const Reads& reads, Tile tile, int64_t depth,
                 const Scaling<T>& scaling, const Rows<const T>& bias,
                 T* weights, Rows<T> sums, T* log_sum_exp,
                 const ScoresFn& scores, const AddFn& add) {
  tile.band = reads.band;
  tile.segments = reads.segments;
  const Range read = reads.Keys({tile.query, tile.query + tile.queries});
  if (read.empty()) Clear<T>({0, tile.queries}, depth, sums);
  T largest[kTile];
  T total[kTile];
  std::fill(largest, largest + kTile, -std::numeric_limits<T>::infinity());
  std::fill(total, total + kTile, T(0));
  const int64_t first_key = read.begin / kTile * kTile;
  for (tile.key = first_key; tile.key < read.end; tile.key += kTile) {
    tile.keys = std::min(kTile, reads.keys - tile.key);
    scores(tile);
    for (int64_t row = 0; row < tile.queries; ++row) {
      const Range seen = tile.Columns(row, 1);
      const T scale =
          scaling.Apply(seen, BiasAt(bias, tile.query + row, tile.key),
                        weights + row * kTile, /*slopes=*/nullptr);
      const T correction = OnlineSoftmax(seen, scale, weights + row * kTile,
                                         &largest[row], &total[row]);
      if (tile.key > first_key && correction != 1) {
        ScaleRow(depth, correction, sums.At(row, 0).data);
      }
    }
    add(tile, /*accumulate=*/tile.key > first_key);
  }
  for (int64_t row = 0; row < tile.queries; ++row) {
    log_sum_exp[tile.query + row] = largest[row] + std::log(total[row]);
    // The sums of a query without keys are already zeros.
    if (total[row] == 0) continue;
    ScaleRow(depth, 1 / total[row], sums.At(row, 0).data);
  }
}

/// Replaces the unscaled scores of a tile, which are in `weights`, by probabilities. Replaces
/// `d_weights`, the gradient of the probabilities, by the gradient of the unscaled scores, or of
/// the bias if `of_bias` is true. `delta(query)` must return the dot product of the query's row of
/// the attention result and the gradient of that row.
template <typename T, typename DeltaFn>
void GradOfTile(const Tile& tile, const Scaling<T>& scaling,
                const Rows<const T>& bias, const T* log_sum_exp, bool of_bias,
                const DeltaFn& delta, T* weights, T* d_weights) {
  T slopes[kTile];
  const bool is_capped = scaling.cap > 0 && !of_bias;
  for (int64_t row = 0; row < tile.queries; ++row) {
    const int64_t query = tile.query + row;
    const Range seen = tile.Columns(row, 1);
    T* const scores = weights + row * kTile;
    const T scale = scaling.Apply(seen, BiasAt(bias, query, tile.key), scores,
                                  is_capped ? slopes : nullptr);
    ProbabilitiesAndGradient(seen, scale, of_bias ? T(1) : scaling.scale,
                             log_sum_exp[query], delta(query), scores,
                             d_weights + row * kTile);
    if (is_capped) MultiplyRow(seen, slopes, d_weights + row * kTile);
  }
}

/// Runs the tiles that contribute to dk and dv of one key head and one batch entry. Sets dk and dv
/// to zero for tiles of keys that no query reads and for keys beyond the key length. For each other
/// tile of keys, in order, calls pack(tile), then add(tile, head, accumulate) for each query head
/// that shares the key head and each tile of queries that reads a key of the tile, and then
/// done(tile). `head` counts from 0, and `accumulate` is false only in the first of these calls.
/// `all_keys` is the number of rows of dk and dv.
template <typename E, typename PackFn, typename AddFn, typename DoneFn>
void ForGradTiles(const Reads& reads, const AttentionSizes& sizes,
                  int64_t all_keys, Rows<E> dk, Rows<E> dv, const PackFn& pack,
                  const AddFn& add, const DoneFn& done) {
  const auto clear = [&](Range keys) {
    Clear<E>(keys, sizes.depth, dk);
    Clear<E>(keys, sizes.depth, dv);
  };
  clear({reads.keys, all_keys});
  Tile tile;
  tile.band = reads.band;
  tile.segments = reads.segments;
  for (tile.key = 0; tile.key < reads.keys; tile.key += kTile) {
    tile.keys = std::min(kTile, reads.keys - tile.key);
    const Range these = {tile.key, tile.key + tile.keys};
    const Range readers = reads.Queries(these);
    if (readers.empty()) {
      clear(these);
      continue;
    }
    pack(tile);
    bool accumulate = false;
    for (int64_t head = 0; head < sizes.heads_per_key; ++head) {
      for (tile.query = readers.begin / kTile * kTile; tile.query < readers.end;
           tile.query += kTile) {
        tile.queries = std::min(kTile, sizes.length - tile.query);
        add(tile, head, accumulate);
        accumulate = true;
      }
    }
    done(tile);
  }
}

/// Returns dq, dk and dv, which are three results or, for attention_qkv_grad, adjacent columns of
/// one result.
inline std::array<TensorView, 3> Gradients(const Launch& launch) {
  if (launch.op != OpKind::kAttentionQkvGrad) {
    return {launch.outputs[0], launch.outputs[1], launch.outputs[2]};
  }
  const TensorView& all = launch.outputs[0];
  std::array<TensorView, 3> parts;
  std::byte* data = all.data;
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorType& type = launch.inputs[i].type;
    const int64_t depth = type.shape[3];
    parts[i] = {data, type, {all.strides[0], all.strides[1], depth, 1}};
    data += type.shape[2] * depth * SizeOf(type.dtype);
  }
  return parts;
}

/// Returns whether `begins` and `ends` describe segments that follow each other and cover all
/// positions [0, length).
inline bool AreSegments(const int32_t* begins, const int32_t* ends,
                        int64_t length) {
  for (int64_t first = 0; first < length; first = ends[first]) {
    const int64_t end = ends[first];
    if (begins[first] != first || end <= first || end > length) return false;
    for (int64_t i = first + 1; i < end; ++i) {
      if (begins[i] != first || ends[i] != end) return false;
    }
  }
  return true;
}

/// Returns whether all key lengths are in [1, S], where S is the number of keys, and all segments
/// are valid (AreSegments). Absent operands are valid.
inline bool LengthsInRange(const Launch& launch, size_t always) {
  const Shape& q = launch.inputs[0].shape();
  if (const int32_t* segments = AllSegments(launch, always)) {
    for (int64_t batch = 0; batch < q[0]; ++batch, segments += 2 * q[1]) {
      if (!AreSegments(segments, segments + q[1], q[1])) return false;
    }
  }
  const int32_t* lengths = KeyLengths(launch, always);
  if (lengths == nullptr) return true;
  const int64_t keys = launch.inputs[1].shape()[1];
  return std::all_of(lengths, lengths + launch.inputs[0].shape()[0],
                     [keys](int32_t n) { return n >= 1 && n <= keys; });
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_ATTENTION_TILES_H_
