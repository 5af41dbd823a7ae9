#ifndef STOWAGE_TESTS_IR_TYPE_ROWS_H_
#define STOWAGE_TESTS_IR_TYPE_ROWS_H_

// Ops and the types of their results, a row or more an op.
//
//   for (const TypeRow& row : ValueTypeRows()) {
//     GraphBuilder g("rows");
//     row.build(g);  // values of the types `row.types`
//   }

#include <string>
#include <vector>

#include "ir/builder.h"

namespace stowage {

struct TypeRow {
  const char* what;
  std::vector<Value> (*build)(GraphBuilder& g);
  std::vector<std::string> types;
};

/// Ops that make, move and reduce values, and elementwise ones.
const std::vector<TypeRow>& ValueTypeRows();

/// Products, layers, losses and updates of params.
const std::vector<TypeRow>& LayerTypeRows();

}  // namespace stowage

#endif  // STOWAGE_TESTS_IR_TYPE_ROWS_H_
