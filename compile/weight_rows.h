#ifndef STOWAGE_COMPILE_WEIGHT_ROWS_H_
#define STOWAGE_COMPILE_WEIGHT_ROWS_H_

// Rows of a frozen matrix in quantized blocks (ir/weight_type.h), decoded one at a time into
// scratch memory.
//
//   const WeightRows rows(w, k.Int("blocks"));
//   rows.Decode(k, "j", "scratch");

#include "compile/kernel.h"
#include "ir/weight_type.h"

namespace stowage::compile {

/// A matrix of floats, or of blocks.
class WeightRows {
 public:
  /// `blocks` is a WeightType or kNoBlocks. `w` must outlive this.
  WeightRows(const Tensor& w, int64_t blocks) : w_(w), blocks_(blocks) {}

  bool is_quantized() const { return blocks_ != kNoBlocks; }
  int64_t rows() const { return w_.shape()[0]; }
  /// Numbers of a row.
  int64_t width() const;

  /// Writes the numbers of row `row`, which is quantized, to `to`, an address.
  void Decode(Kernel& k, const Expr& row, const Expr& to) const;

 private:
  const Tensor& w_;
  int64_t blocks_;
};

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_WEIGHT_ROWS_H_
