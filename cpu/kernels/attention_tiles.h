#ifndef STOWAGE_CPU_KERNELS_ATTENTION_TILES_H_
#define STOWAGE_CPU_KERNELS_ATTENTION_TILES_H_

// Provides the steps of attention that do not depend on how its matmuls are computed: the keys
// that a query reads, tiles of scores, the softmax and its gradient on the rows of a tile, and
// the loops over tiles. attention.cc (f32 and f64) and bf16_attention.cc (bf16 by pairs) share
// them.
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

/// kTile is the number of queries and the number of keys in a tile. In a tile that the edge of
/// a mask crosses, kGroup rows are processed at a time.
inline constexpr int64_t kTile = 64;
inline constexpr int64_t kGroup = 16;

/// Returns one head of one batch entry of a (B, T, H, D) operand: T rows of D elements.
template <typename T>
Rows<T> Head(const TensorView& x, int64_t batch, int64_t head) {
  return {x.as<T>() + batch * x.strides[0] + head * x.strides[2], x.strides[1]};
}

/// Returns one head of one batch entry of a bias (B, H, T, S), or of its gradient: T rows of S
/// elements. A dimension of size 1 is shared by all entries, heads or rows.
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

/// The segments of one batch entry. The arrays hold, for each position, the begin and the end
/// of its segment. Both are null if there are no segments.
struct Segments {
  const int32_t* begins = nullptr;
  const int32_t* ends = nullptr;

  // Returns the positions of `range` that are in the segments of positions [first, end).
  Range Within(Range range, int64_t first, int64_t end) const {
    if (begins == nullptr || end <= first) return range;
    return {std::max<int64_t>(range.begin, begins[first]),
            std::min<int64_t>(range.end, ends[end - 1])};
  }
};

/// The keys that the queries of one batch entry read. These are the keys below `keys` that are
/// within the band and in the query's segment.
struct Reads {
  int64_t queries, keys;
  AttentionBand band;
  Segments segments = {};

  // Returns the keys that at least one of `these` queries reads. They are an interval, because
  // the first query reads the first keys and the last query reads the last keys.
  Range Keys(Range these) const {
    return segments.Within({std::max<int64_t>(0, these.begin + band.low),
                            std::min(keys, these.end + band.high)},
                           these.begin, these.end);
  }
  // Returns the queries that read at least one of `these` keys, which are also an interval.
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
  // Returns whether all rows read all columns. The first row reads the fewest columns to the
  // right, and the last row reads the fewest to the left, so these two rows decide.
  bool whole() const {
    return Columns(0, 1).end == keys && Columns(queries - 1, 1).begin == 0;
  }
  // Returns the number of rows, or columns, that are processed together: all of them, or kGroup
  // in a tile that an edge crosses.
  int64_t group() const { return whole() ? kTile : kGroup; }
};

/// Returns the columns that a group of rows reads. The range is extended to start at a multiple
/// of kGroup.
inline Range GroupColumns(const Tile& tile, int64_t row, int64_t rows) {
  const Range seen = tile.Columns(row, rows);
  return {seen.begin / kGroup * kGroup, seen.end};
}

/// Sets rows of x to zero.
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

/// Sets the columns outside `seen` to `rest`, in the registers that contain columns of `seen`.
/// Returns all columns of these registers.
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

/// Replaces each score s in the columns read by scale s + bias.
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

/// Replaces each score s in the columns read by cap tanh(scale s / cap). If `slopes` is not
/// null, sets it to the derivatives with respect to scale s.
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

/// Computes row *= x in the columns read.
template <typename T>
void MultiplyRow(Range seen, const T* x, T* row) {
  if (seen.empty()) return;
  x += seen.begin;
  row += seen.begin;
  ForEachVec<T>(seen.count(),
                [&](auto at) { at.Store(row, at.Load(row) * at.Load(x)); });
}

/// Replaces one row of scores in place by weights exp(scale s - largest), with zeros in columns
/// that are not read. Updates `largest` and `total`, which accumulate over the tiles. Returns
/// the factor by which sums over earlier tiles must be multiplied.
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

/// Returns the indices of the optional operands, which follow the `always` required ones.
inline AttentionOptionals Optionals(const Launch& launch, size_t always) {
  return OptionalsBehind(
      always, launch.inputs.size(),
      [&](size_t i) -> const TensorType& { return launch.inputs[i].type; });
}
/// Returns the key lengths (B), or null.
inline const int32_t* KeyLengths(const Launch& launch, size_t always) {
  const size_t i = Optionals(launch, always).key_lengths;
  return i == 0 ? nullptr : launch.inputs[i].as<const int32_t>();
}
/// Returns the segments (B, 2, T), or null.
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

/// The keys that queries read, without the values that depend on the batch entry. Of(batch)
/// adds the key length and the segments of a batch entry.
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

/// Returns the bias of one query, starting at one key, or null if there is no bias.
template <typename T>
const T* BiasAt(const Rows<const T>& bias, int64_t query, int64_t key) {
  return bias.data == nullptr ? nullptr : bias.At(query, key).data;
}

/// The operations on scores that precede the softmax: the scale, the softcap and the bias.
template <typename T>
struct Scaling {
  explicit Scaling(const Launch& launch)
      : scale(static_cast<T>(launch.attrs->Float("scale"))),
        cap(static_cast<T>(launch.attrs->FloatOr("softcap", 0))) {}

  // Applies the cap and the bias, which may be null, to one row of scores. Returns the factor
  // that has not been applied yet. If `slopes` is not null and there is a cap, sets it to the
  // cap's derivatives.
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

/// Replaces `scores` by the probabilities P. Replaces `d_weights`, the gradient dP, by the
/// gradient of the scores times d_scale, which is d_scale * P * (dP - delta).
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

/// The sizes of a launch of attention or its gradients.
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

/// Calls f(batch, head, tile, thread) for each tile of queries of each head, in parallel. The
/// keys of the tile are not set yet.
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

/// Runs the forward pass for one tile of queries. For each tile of keys, in order, scores(tile)
/// must write scores into `weights` (queries, kTile). The function replaces them by softmax
/// weights. Then add(tile, accumulate) must add the matmul of weights and values to `sums`
/// (queries, depth). `log_sum_exp` and `bias` point to query 0 of the head.
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

/// Replaces the scores of a tile, `weights`, by probabilities. Replaces the gradient of the
/// probabilities, `d_weights`, by the gradient of the unscaled scores or, if `of_bias` is true,
/// of the bias. `delta(query)` must return the dot product of the query's result and its
/// gradient.
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

/// Runs the tiles that add to dk and dv of one key head of one batch entry, and sets dk and dv
/// to zero for keys that no query reads. For each tile of keys, in order, calls pack(tile),
/// then add(tile, head, accumulate) for each of its `heads` query heads and each tile of
/// queries that reads it, and then done(tile).
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

/// Returns dq, dk and dv, which are separate results or adjacent columns of one result.
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

/// Returns whether the segments are contiguous and cover all positions.
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

/// Returns whether all key lengths are in [1, S] and all segments are valid.
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
