#include "tests/onnx/op_table.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

namespace stowage {
namespace {

TEST_CASE("docs/onnx_ops.md tells of the ops that there are") {
  std::ifstream file("docs/onnx_ops.md");
  std::stringstream text;
  text << file.rdbuf();
  // bazel run //tests/onnx:write_op_table > docs/onnx_ops.md
  CHECK(text.str() == OnnxOpTable());
}

}  // namespace
}  // namespace stowage
