#ifndef STOWAGE_TESTS_DOCS_OP_TABLE_H_
#define STOWAGE_TESTS_DOCS_OP_TABLE_H_

// docs/reference/ops.md, made from the code: names, sections and signatures from
// the text of ir/ops.def, element types by asking each op's `infer` which it
// takes, views and overwriting from its OpDef, gradients by differentiating it.
// A sample of each op comes from the op test table.
//
//   std::cout << MakeOpTable(ReadFile("ir/ops.def"));

#include <string>
#include <string_view>

namespace stowage::testing {

/// The page, given the text of ir/ops.def. Aborts where an op's comment there
/// names other operands, results or attributes than the op has.
std::string MakeOpTable(std::string_view ops_def);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_DOCS_OP_TABLE_H_
