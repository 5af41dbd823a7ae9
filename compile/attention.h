#ifndef STOWAGE_COMPILE_ATTENTION_H_
#define STOWAGE_COMPILE_ATTENTION_H_

// Provides the shapes of an attention op (ir/attention.h) for kernels in C, and its vectorized
// kernels.
//
// Scalar kernels compute one query at a time (attention.cc). Vectorized kernels compute blocks of
// four queries. They multiply each block by all keys and values that any query of the block reads.
// The k and v of a head are transposed in workspace, so that vectors extend along the keys.

#include <cstdint>
#include <functional>

#include "compile/kernel.h"
#include "ir/attention.h"

namespace stowage::compile {

/// The shapes and options of an attention op or of one of its gradient ops.
struct Heads {
  /// Reads the shapes and attributes of the node of `kernel`. `always` is the number of operands
  /// before the optional operands.
  Heads(const Kernel& kernel, size_t always);

  /// Returns the head of k and v that head `h` of q reads.
  Expr KeyHead(const Expr& h) const;
  /// Returns the index of the element of log_sum_exp (B, H, T) for example b, head h and query t.
  Expr Row(const Expr& b, const Expr& h, const Expr& t) const {
    return Plus({Times(b, heads * queries), Times(h, queries), t});
  }
  /// Returns the offset of the element of `bias` for example b, head h, query t and key s.
  Expr BiasAt(const Tensor& bias, const Expr& b, const Expr& h, const Expr& t,
              const Expr& s) const;

  const Kernel& k;
  const AttentionOptionals optionals;
  const int64_t batch, queries, heads, width, keys, group;
  const AttentionBand band;
  const double softcap;  // of the scores; 0 means none
};

/// Writes the declarations of two variables with the names `low` and `high`. Query `t` of example
/// `b` reads the keys [low, high).
void WriteKeyRange(Kernel& k, const Heads& a, const Expr& b, const Expr& t,
                   const Expr& low, const Expr& high);

/// The gradients of q, k and v. They are the three results of attention_grad, or column ranges of
/// the single result of attention_qkv_grad.
struct QkvGrad {
  /// Returns the gradients that the node of `kernel` computes.
  static QkvGrad Of(const Kernel& kernel);
  Tensor q, k, v;
};

// --- Vectorized kernels (attention_blocks.cc) ---

/// Returns the number of elements of workspace.
int64_t BlocksScratch(const Kernel& k, bool is_grad);
void WriteAttentionBlocks(Kernel& k);
void WriteAttentionGradBlocks(Kernel& k);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_ATTENTION_H_
