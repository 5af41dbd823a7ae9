// docs/reference/ops.md says what the ops are now.

#include "tests/docs/op_table.h"

#include <doctest/doctest.h>

#include <string>

#include "base/strings.h"
#include "ir/op_kind.h"
#include "tests/support/files.h"

namespace stowage::testing {
namespace {

// The line of the table that is about `op`.
std::string RowOf(const std::string& table, std::string_view op) {
  const size_t begin = table.find(StrCat("\n| `", op, "` | "));
  if (begin == std::string::npos) return "";
  return table.substr(begin + 1, table.find('\n', begin + 1) - begin - 1);
}

TEST_CASE("docs/reference/ops.md is the table of the ops as they are") {
  const bool same =
      ReadAll("docs/reference/ops.md") == MakeOpTable(ReadAll("ir/ops.def"));
  CHECK_MESSAGE(same,
                "bazel run //tests/docs:write_op_table > docs/reference/ops.md "
                "refreshes it");
}

TEST_CASE("every op has a row") {
  const std::string table = MakeOpTable(ReadAll("ir/ops.def"));
  for (int op = 0; op < kNumOps; ++op) {
    const std::string name(OpName(static_cast<OpKind>(op)));
    CHECK_MESSAGE(!RowOf(table, name).empty(), name);
  }
}

TEST_CASE("rows tell types, attributes, bytes and gradients") {
  const std::string table = MakeOpTable(ReadAll("ir/ops.def"));
  CHECK(RowOf(table, "where") ==
        "| `where` | condition: bool, a: T, b: T → y: T | any |  | over "
        "condition, a, b | a, b |");
  CHECK(RowOf(table, "slice") ==
        "| `slice` | x: T → y: T | any | axis, start, end, step | view of x | "
        "x |");
  CHECK(RowOf(table, "cast") ==
        "| `cast` | x: T → y: dtype | any | dtype | over x | x |");
  CHECK(RowOf(table, "less") ==
        "| `less` | a: T, b: T → y: bool | numeric |  | over a, b | zero |");
  CHECK(RowOf(table, "cross_entropy") ==
        "| `cross_entropy` | logits: T, labels: index → loss: S, log_sum_exp: "
        "S | float |  |  | logits, from loss |");
  CHECK(
      RowOf(table, "maximum") ==
      "| `maximum` | a: T, b: T → y: T | numeric |  | over a, b | a, b; equal "
      "operands get half each |");
  CHECK(RowOf(table, "sgd_update") ==
        "| `sgd_update` | w: T, g: T, lr: f32, scale?: f32 → w: T | float | "
        "decay | update of w | none: it overwrites what it reads |");
  CHECK(RowOf(table, "offload") ==
        "| `offload` | x: T → y: T on the host | any |  |  | none: offloading "
        "comes after differentiation |");
}

}  // namespace
}  // namespace stowage::testing
