#ifndef STOWAGE_IR_ATTENTION_H_
#define STOWAGE_IR_ATTENTION_H_

// The keys that each query of `attention` reads, and the optional operands of `attention`
// and of its gradients.
//
// The last query is aligned with the last key: query t of T is at position t + (S - T) of
// S, as in decoding, where the queries end a longer sequence. A causal query reads the keys
// up to its position; a window W leaves it the last W of these, or without a causal mask
// those less than W away on either side. Every query reads one interval of keys, and all
// intervals form a band:
//
//   const AttentionBand band = BandOf(q.shape(), k.shape(), *launch.attrs);
//   // query t reads the keys s in [0, S) with t + band.low <= s <= t + band.high
//
// A bias, key lengths and segments are optional operands, in this order after the required
// ones. Their types tell them apart: a bias is of floats, key lengths have one axis,
// segments three.
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

struct AttentionBand {
  int64_t low = 0;   // in [-T, S]
  int64_t high = 0;  // in [-T, S)
};

/// q is (B, T, H, D) and k (B, S, G, D). Reads the attributes "causal" and "window"; a
/// window of 0 is none.
inline AttentionBand BandOf(const Shape& q, const Shape& k,
                            const Attrs& attrs) {
  const int64_t queries = q[1];
  const int64_t keys = k[1];
  // A window of all keys and queries hides none.
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
/// Operands of both gradient ops: q, k, v, o, log_sum_exp, d_o.
inline constexpr size_t kAttentionGradOperands = 6;

/// Indices among the operands; 0, the index of q, for an absent one.
struct AttentionOptionals {
  size_t bias = 0;
  size_t key_lengths = 0;
  size_t segments = 0;
};

inline constexpr int kSegmentsRank = 3;  // (B, 2, T)

/// The optional operands among `count`, of which the first `always` are required;
/// type_of(i) is the type of operand i.
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
