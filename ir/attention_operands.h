#ifndef STOWAGE_IR_ATTENTION_OPERANDS_H_
#define STOWAGE_IR_ATTENTION_OPERANDS_H_

// Which operands of `attention` and its gradients are the bias, the key lengths and the
// segments. All may be left out. They stand in this order behind the operands that there
// always are, and are known by their types: a bias is of floats, key lengths have an axis,
// segments three.
//
//   const AttentionOptionals at = OptionalsBehind(
//       kAttentionOperands, launch.inputs.size(),
//       [&](size_t i) -> const TensorType& { return launch.inputs[i].type; });
//   if (at.bias != 0) Read(launch.inputs[at.bias]);

#include <cstddef>

#include "ir/dtype.h"
#include "ir/shape.h"

namespace stowage {

inline constexpr size_t kAttentionOperands = 3;  // q, k, v
/// Of both gradients: q, k, v, o, log_sum_exp, d_o.
inline constexpr size_t kAttentionGradOperands = 6;

/// Their places among the operands; 0, where q stands, if there is none.
struct AttentionOptionals {
  size_t bias = 0;
  size_t key_lengths = 0;
  size_t segments = 0;
};

inline constexpr int kSegmentsRank = 3;  // (B, 2, T)

/// Of `count` operands, of which the first `always` are there in any case; type_of(i) is
/// the type of one.
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

#endif  // STOWAGE_IR_ATTENTION_OPERANDS_H_
