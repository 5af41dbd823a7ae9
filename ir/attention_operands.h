#ifndef STOWAGE_IR_ATTENTION_OPERANDS_H_
#define STOWAGE_IR_ATTENTION_OPERANDS_H_

// Which operands of `attention` and its gradients are the bias and the key lengths.
// Both may be left out. They stand in this order behind the operands that there
// always are, and a bias is known by its type: it is of floats, lengths never are.
//
//   const AttentionOptionals at = OptionalsBehind(
//       kAttentionOperands, launch.inputs.size(),
//       [&](size_t i) { return launch.inputs[i].dtype(); });
//   if (at.bias != 0) Read(launch.inputs[at.bias]);

#include <cstddef>

#include "ir/dtype.h"

namespace stowage {

inline constexpr size_t kAttentionOperands = 3;  // q, k, v
/// Of both gradients: q, k, v, o, log_sum_exp, d_o.
inline constexpr size_t kAttentionGradOperands = 6;

/// Their places among the operands; 0, where q stands, if there is none.
struct AttentionOptionals {
  size_t bias = 0;
  size_t key_lengths = 0;
};

/// Of `count` operands, of which the first `always` are there in any case;
/// dtype_of(i) is the element type of one.
template <typename DTypeOf>
AttentionOptionals OptionalsBehind(size_t always, size_t count,
                                   DTypeOf&& dtype_of) {
  AttentionOptionals at;
  size_t next = always;
  if (next < count && IsFloat(dtype_of(next))) at.bias = next++;
  if (next < count) at.key_lengths = next;
  return at;
}

}  // namespace stowage

#endif  // STOWAGE_IR_ATTENTION_OPERANDS_H_
