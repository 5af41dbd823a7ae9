// Chains of elementwise ops: the program is interpreted like any graph. What is what
// is read from the node's attribute here, not from ir/fused.h.

#include <cstddef>
#include <vector>

#include "base/check.h"
#include "tests/support/interpret.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

void RunProgram(Call& c, const std::vector<Numbers>& leaves) {
  const Graph& program = *c.node.attrs.Graphs("program").at(0);
  Tensors given;
  size_t next = 0;
  for (const ValueInfo& value : program.values()) {
    if (value.is_leaf()) given[value.name] = leaves.at(next++);
  }
  STOWAGE_CHECK(next == leaves.size());
  const Tensors values = Interpret(program, given, c.rounding);
  for (size_t r = 0; r < c.out.size(); ++r) {
    c.out[r].data = values.at(program.outputs()[r].name);
  }
}

}  // namespace

void FusedElementwise(Call& c) {
  std::vector<Numbers> leaves;
  for (const Array* operand : c.in) leaves.push_back(operand->data);
  RunProgram(c, leaves);
}

void FusedAfter(Call& c, const Array& product) {
  std::vector<Numbers> leaves = {product.data};
  for (size_t i = 2; i < c.in.size(); ++i) leaves.push_back(c.input(i).data);
  RunProgram(c, leaves);
}

}  // namespace stowage::interpret
