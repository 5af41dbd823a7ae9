// Ops of whole numbers: what ONNX's own tests do not ask of them.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/array.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

std::vector<int64_t> NumbersOf(const OneOp& op) {
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  return ValuesOf<int64_t>((*y)[0]);
}

OneOp Padded(const char* mode, const std::vector<int64_t>& pads) {
  return {.op = "Pad",
          .operands = {"x", "pads"},
          .inputs = {{"x", Ints({2, 3}, {1, 2, 3, 4, 5, 6})}},
          .constants = {{"pads", Ints({4}, pads)}},
          .attributes = [=](NodeProto& node) { SetText(node, "mode", mode); }};
}

TEST_CASE("pads of whole numbers are those of floats") {
  CHECK(NumbersOf(Padded("constant", {1, 0, 0, 2})) ==
        std::vector<int64_t>{0, 0, 0, 0, 0,  //
                             1, 2, 3, 0, 0,  //
                             4, 5, 6, 0, 0});
  CHECK(NumbersOf(Padded("edge", {0, 2, 1, 1})) ==
        std::vector<int64_t>{1, 1, 1, 2, 3, 3,  //
                             4, 4, 4, 5, 6, 6,  //
                             4, 4, 4, 5, 6, 6});
  CHECK(NumbersOf(Padded("reflect", {0, 2, 1, 1})) ==
        std::vector<int64_t>{3, 2, 1, 2, 3, 2,  //
                             6, 5, 4, 5, 6, 5,  //
                             3, 2, 1, 2, 3, 2});
}

TEST_CASE("whole numbers are not mirrored beyond the last one") {
  const auto y = Run(Padded("reflect", {0, 0, 0, 3}));
  REQUIRE(!y.ok());
  CHECK(y.error().message.find("(Pad) mirrors 3 elements of the 3 of axis 1; "
                               "expected fewer than there are") !=
        std::string::npos);
}

// 3^39 is not a double.
TEST_CASE("powers of whole numbers that are known are exact") {
  CHECK(NumbersOf({.op = "Pow",
                   .operands = {"x", "y"},
                   .constants = {{"x", Ints({3}, {3, -2, 7})},
                                 {"y", Ints({3}, {39, 3, 0})}}}) ==
        std::vector<int64_t>{4052555153018976267, -8, 1});
}

}  // namespace
}  // namespace stowage
