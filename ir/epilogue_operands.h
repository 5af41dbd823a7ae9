#ifndef STOWAGE_IR_EPILOGUE_OPERANDS_H_
#define STOWAGE_IR_EPILOGUE_OPERANDS_H_

// Which operands of `epilogue_matmul` are which: behind a and b stand a bias (N), an addend
// and x, both of the product's shape, in this order, each where its flag says so. Or it has
// none of them, and result 1 is the sums over k of one of the two: of a's rows (M) or of
// b's columns (N).
//
//   const EpilogueOperands at = EpilogueOperandsOf(*launch.attrs);
//   if (at.bias != 0) Read(launch.inputs[at.bias]);

#include <cstddef>
#include <optional>

#include "ir/attrs.h"

namespace stowage {

/// a and b.
inline constexpr size_t kProductOperands = 2;

/// Places among the operands; 0, where a stands, if there is none.
struct EpilogueOperands {
  size_t bias = 0;
  size_t addend = 0;
  size_t x = 0;
  size_t count = kProductOperands;  // of all operands
};

/// By the flags "bias", "addend" and "gelu_grad", which must be there.
inline EpilogueOperands EpilogueOperandsOf(const Attrs& attrs) {
  EpilogueOperands at;
  if (attrs.Int("bias") == 1) at.bias = at.count++;
  if (attrs.Int("addend") == 1) at.addend = at.count++;
  if (attrs.Int("gelu_grad") == 1) at.x = at.count++;
  return at;
}

/// The operand whose sums are result 1, and which of its two axes is k.
struct SummedOperand {
  size_t place = 0;
  int axis = 0;
};

/// By the flags "a_sums" and "b_sums", of which at most one is set, and by how that
/// operand enters the product.
inline std::optional<SummedOperand> SummedOperandOf(const Attrs& attrs) {
  if (attrs.Int("a_sums") == 1) {
    return SummedOperand{0, attrs.Int("transpose_a") == 1 ? 0 : 1};
  }
  if (attrs.Int("b_sums") == 1) {
    return SummedOperand{1, attrs.Int("transpose_b") == 1 ? 1 : 0};
  }
  return std::nullopt;
}

}  // namespace stowage

#endif  // STOWAGE_IR_EPILOGUE_OPERANDS_H_
