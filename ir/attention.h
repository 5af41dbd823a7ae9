#ifndef STOWAGE_IR_ATTENTION_H_
#define STOWAGE_IR_ATTENTION_H_

// Computes, for shape rules and kernels, which keys each query of `attention` reads, and finds
// the optional operands of `attention` and its gradient ops.
//
// There are T queries and S keys. The last query is aligned with the last key, so query t is at
// position t + (S - T) among the keys. This is the case in decoding, where the queries are the end
// of a longer sequence. With a causal mask, a query reads the keys up to its position, and a window
// W limits it to the last W of these keys. Without a causal mask, a window W limits a query to the
// keys at a distance below W from its position. Each query reads one interval of keys. All
// intervals together form a band:
//
//   const AttentionBand band = BandOf(q.shape(), k.shape(), *launch.attrs);
//   // query t reads the keys s in [0, S) with t + band.low <= s <= t + band.high
//
// The optional operands follow the required ones: a bias, then key lengths or segments. They are
// distinguished by their types. A bias has a float type, key lengths have one axis, and segments
// have three axes.
//
//   const AttentionOptionals at = OptionalsBehind(
//       kAttentionOperands, launch.inputs.size(),
//       [&](size_t i) -> const TensorType& { return launch.inputs[i].type; });
//   if (at.bias != 0) Read(launch.inputs[at.bias]);

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ir/attrs.h"
#include "ir/tensor_type.h"

namespace stowage {

/// The keys that queries read: query t reads the keys s in [0, S) with t + low <= s <= t + high.
struct AttentionBand {
  int64_t low = 0;   // in [-T, S]
  int64_t high = 0;  // in [-T, S)
};

/// Returns the band for q (B, T, H, D) and k (B, S, G, D). `attrs` must contain "causal" and
/// "window", where a window of 0 means no window.
inline AttentionBand BandOf(const Shape& q, const Shape& k,
                            const Attrs& attrs) {
  const int64_t queries = q[1];
  const int64_t keys = k[1];
  // A window of this size masks no key.
  const int64_t longest = keys + queries;
  int64_t window = std::min(attrs.Int("window"), longest);
  if (window == 0) window = longest;
  const int64_t here = keys - queries;
  AttentionBand band;
  band.low = std::max(-queries, here - window + 1);
  band.high =
      attrs.Int("causal") == 1 ? here : std::min(keys - 1, here + window - 1);
  return band;
}

inline constexpr size_t kAttentionOperands = 3;  // q, k, v
/// The number of operands of the gradient ops before the optional ones: q, k, v, o, log_sum_exp,
/// d_o. In the op that computes the gradient of the bias, the bias is required.
inline constexpr size_t kAttentionGradOperands = 6;

/// The indices of the optional operands. 0, which is the index of q, means that the operand is
/// absent.
struct AttentionOptionals {
  size_t bias = 0;
  size_t key_lengths = 0;
  size_t segments = 0;
};

inline constexpr int kSegmentsRank = 3;  // (B, 2, T)

/// Returns the indices of the optional operands of a node with `count` operands. The first `always`
/// operands are required. `type_of(i)` must return the type of operand i.
template <typename TypeOf>
AttentionOptionals OptionalsBehind(size_t always, size_t count,
                                   TypeOf&& type_of) {
  AttentionOptionals at;
  size_t next = always;
  if (next < count && IsFloat(type_of(next).dtype)) at.bias = next++;
  if (next == count) return at;
  const bool is_segments = type_of(next).shape.rank() == kSegmentsRank;
  (is_segments ? at.segments : at.key_lengths) = next;
  return at;
}

}  // namespace stowage

#endif  // STOWAGE_IR_ATTENTION_H_
