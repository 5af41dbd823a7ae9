#ifndef STOWAGE_TESTS_DOCS_OP_TABLE_H_
#define STOWAGE_TESTS_DOCS_OP_TABLE_H_

// Generates docs/reference/ops.md from the code. Names, sections and signatures
// come from the text of ir/ops.def. Calls of each op's `infer` show which element
// types it accepts. OpDef states views and in-place results. Gradients are found
// by differentiating a sample of each op from the op test table.
//
//   std::cout << MakeOpTable(ReadFile("ir/ops.def"));

#include <string>
#include <string_view>

namespace stowage::testing {

/// Returns the page, given the text of ir/ops.def. Aborts if the operands,
/// results or attributes in an op's comment differ from those of the op.
std::string MakeOpTable(std::string_view ops_def);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_DOCS_OP_TABLE_H_
