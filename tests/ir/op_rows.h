#ifndef STOWAGE_TESTS_IR_OP_ROWS_H_
#define STOWAGE_TESTS_IR_OP_ROWS_H_

// Defines the rows of table-driven tests of ops: invalid graphs with their exact error messages,
// and ops with the types of their results.
//
//   CheckRows({{[](GraphBuilder& g) { Add(F32(g, "x", {2}), F32(g, "y", {3})); },
//               "[add] f32(2) and f32(3) cannot be broadcast"}});

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage {

struct ErrorRow {
  void (*build)(GraphBuilder& g);
  const char* message;
};

inline constexpr int64_t kHuge = int64_t{1} << 40;
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline void CheckRows(const std::vector<ErrorRow>& rows) {
  for (const ErrorRow& row : rows) {
    INFO(row.message);
    GraphBuilder g("errors");
    row.build(g);
    const Result<Graph> graph = g.Finish();
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.error().code == ErrorCode::kInvalidArgument);
    const std::string& message = graph.error().message;
    // The source location follows, which another test checks.
    CHECK(message.substr(0, message.find(" (at ")) == row.message);
  }
}

// The values that `build` returns must have the types `types`. Every op has at
// least one row.
struct TypeRow {
  const char* what;
  std::vector<Value> (*build)(GraphBuilder& g);
  std::vector<std::string> types;
};

/// Returns rows of ops that create, move and reduce values, and of elementwise ops.
const std::vector<TypeRow>& ValueTypeRows();

/// Returns rows of matmuls, layers, losses and updates of params.
const std::vector<TypeRow>& LayerTypeRows();

// The next functions add inputs, as in MatMul(F32(g, "a", {2, 3}), F32(g, "b", {3, 5})).

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

#endif  // STOWAGE_TESTS_IR_OP_ROWS_H_
