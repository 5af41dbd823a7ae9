#ifndef STOWAGE_IR_EPILOGUE_OPERANDS_H_
#define STOWAGE_IR_EPILOGUE_OPERANDS_H_

// Which operands of `epilogue_matmul` are which: behind a and b stand a bias (N), an addend
// and x, both of the product's shape, in this order, each where its flag says so.
//
//   const EpilogueOperands at = EpilogueOperandsOf(*launch.attrs);
//   if (at.bias != 0) Read(launch.inputs[at.bias]);

#include <cstddef>

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

}  // namespace stowage

#endif  // STOWAGE_IR_EPILOGUE_OPERANDS_H_
