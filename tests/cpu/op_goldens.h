#ifndef STOWAGE_TESTS_CPU_OP_GOLDENS_H_
#define STOWAGE_TESTS_CPU_OP_GOLDENS_H_

// Ops and their gradients against PyTorch's, by the interpreter and by the CPU's
// kernels in f64: files of tests/goldens/ with rows case,what,index,value, whose
// operands follow the formula of make_goldens.py.
//
//   std::vector<OpGolden> goldens = ReadOpGoldens("tests/goldens/attention.csv");
//   size_t compared = CompareOp(goldens, {"plain", {{"q", {1, 4, 2, 8}}}, build});

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/shape.h"
#include "tests/support/golden_rows.h"
#include "tests/support/interpret.h"

namespace stowage {

/// An op of f64 operands with one result, y.
struct GoldenCase {
  std::string name;
  std::vector<std::pair<std::string, Shape>> operands;
  std::function<Value(GraphBuilder&, std::span<const Value>)> build;
  Tensors others = {};  // inputs that `build` declares
};

/// Compares y and the gradient of every operand ("d" and its name), for a loss that
/// weighs each element of y, with the case's rows. Returns how many there are, twice.
size_t CompareOp(const std::vector<OpGolden>& goldens, const GoldenCase& c);

}  // namespace stowage

#endif  // STOWAGE_TESTS_CPU_OP_GOLDENS_H_
