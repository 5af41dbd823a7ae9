#ifndef STOWAGE_TESTS_IR_TYPED_INPUTS_H_
#define STOWAGE_TESTS_IR_TYPED_INPUTS_H_

// Inputs by their element types, so that a test's graph is read in a line:
//
//   MatMul(F32(g, "a", {2, 3}), F32(g, "b", {3, 5}));

#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/shape.h"

namespace stowage {

inline Value F32(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kF32, shape);
}
inline Value F64(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kF64, shape);
}
inline Value I32(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kI32, shape);
}
inline Value I64(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kI64, shape);
}
inline Value Bool(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kBool, shape);
}
inline Value BF16(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kBF16, shape);
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_IR_TYPED_INPUTS_H_
