#ifndef STOWAGE_COMPILE_ATTENTION_H_
#define STOWAGE_COMPILE_ATTENTION_H_

// The shapes of an attention in C, and its kernels in vectors.
//
// Scalar kernels compute query by query (attention.cc). Those in vectors compute four queries
// at a time, as matmuls with the keys and values that any of them reads: k and v of a head are
// transposed in workspace, so that vectors are along the keys.

#include <cstdint>
#include <functional>

#include "compile/kernel.h"
#include "ir/attention.h"

namespace stowage::compile {

struct Heads {
  /// `always`: the operands before the optional ones.
  Heads(const Kernel& kernel, size_t always);

  /// The head of k and v that head `h` of q reads.
  Expr KeyHead(const Expr& h) const;
  /// The position of a query in log_sum_exp.
  Expr Row(const Expr& b, const Expr& h, const Expr& t) const {
    return Plus({Times(b, heads * queries), Times(h, queries), t});
  }
  Expr BiasAt(const Tensor& bias, const Expr& b, const Expr& h, const Expr& t,
              const Expr& s) const;

  const Kernel& k;
  const AttentionOptionals optionals;
  const int64_t batch, queries, heads, width, keys, group;
  const AttentionBand band;
  const double softcap;  // of scores; 0: none
};

/// Declares `low` and `high`, variables of these names, so that query `t` reads the keys
/// [low, high).
void WriteKeyRange(Kernel& k, const Heads& a, const Expr& b, const Expr& t,
                   const Expr& low, const Expr& high);

/// The gradients of q, k and v: separate results, or columns of one.
struct QkvGrad {
  static QkvGrad Of(const Kernel& kernel);
  Tensor q, k, v;
};

// --- In vectors (attention_blocks.cc) ---

int64_t BlocksScratch(const Kernel& k, bool is_grad);
void WriteAttentionBlocks(Kernel& k);
void WriteAttentionGradBlocks(Kernel& k);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_ATTENTION_H_
