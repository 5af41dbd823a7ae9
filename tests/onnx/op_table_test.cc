#include "tests/onnx/op_table.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

namespace stowage {
namespace {

TEST_CASE("docs/reference/onnx_ops.md tells of the ops that there are") {
  std::ifstream file("docs/reference/onnx_ops.md");
  std::stringstream text;
  text << file.rdbuf();
  // bazel run //tests/onnx:write_op_table > docs/reference/onnx_ops.md
  CHECK(text.str() == OnnxOpTable());
}

}  // namespace
}  // namespace stowage
