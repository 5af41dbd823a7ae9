// Prints docs/reference/ops.md:
//
//   bazel run //tests/docs:write_op_table > docs/reference/ops.md

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/docs/op_table.h"

int main() {
  std::ifstream file("ir/ops.def");
  const std::string ops_def(std::istreambuf_iterator<char>(file), {});
  std::cout << stowage::testing::MakeOpTable(ops_def);
}
