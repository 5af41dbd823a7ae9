#ifndef STOWAGE_COMPILE_ATTENTION_H_
#define STOWAGE_COMPILE_ATTENTION_H_

// Provides the shapes of an attention op for kernels in C, and its vectorized kernels.
//
// Scalar kernels compute one query at a time (attention.cc). Vectorized kernels compute blocks of
// four queries as matmuls with all keys and values that any query of the block reads. The k and v
// of a head are transposed in workspace, so that vectors extend along the keys.

#include <cstdint>
#include <functional>

#include "compile/kernel.h"
#include "ir/attention.h"

namespace stowage::compile {

struct Heads {
  /// `always` is the number of operands before the optional ones.
  Heads(const Kernel& kernel, size_t always);

  /// Returns the head of k and v that head `h` of q reads.
  Expr KeyHead(const Expr& h) const;
  /// Returns the index of a query in log_sum_exp.
  Expr Row(const Expr& b, const Expr& h, const Expr& t) const {
    return Plus({Times(b, heads * queries), Times(h, queries), t});
  }
  Expr BiasAt(const Tensor& bias, const Expr& b, const Expr& h, const Expr& t,
              const Expr& s) const;

  const Kernel& k;
  const AttentionOptionals optionals;
  const int64_t batch, queries, heads, width, keys, group;
  const AttentionBand band;
  const double softcap;  // of the scores; 0 means none
};

/// Declares two variables with the names `low` and `high`. Query `t` reads the keys [low, high).
void WriteKeyRange(Kernel& k, const Heads& a, const Expr& b, const Expr& t,
                   const Expr& low, const Expr& high);

/// The gradients of q, k and v, which are separate results or column ranges of a single result.
struct QkvGrad {
  static QkvGrad Of(const Kernel& kernel);
  Tensor q, k, v;
};

// --- Vectorized kernels (attention_blocks.cc) ---

int64_t BlocksScratch(const Kernel& k, bool is_grad);
void WriteAttentionBlocks(Kernel& k);
void WriteAttentionGradBlocks(Kernel& k);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_ATTENTION_H_
