// Ops that find elements by index: what ONNX's own tests do not ask of them.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/array.h"
#include "formats/numbers.h"
#include "ir/dtype.h"
#include "ir/shape.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

std::string SaidOf(const OneOp& op) {
  const auto y = Run(op);
  return y.ok() ? "" : y.error().message;
}
std::vector<float> NumbersOf(const OneOp& op) {
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  return ValuesOf<float>((*y)[0]);
}

const Array kRows = Floats({3, 2}, {1, 2, 3, 4, 5, 6});

OneOp Compressed(const std::vector<int64_t>& condition) {
  const Array bools = ArrayOf(
      DType::kBool, {static_cast<int64_t>(condition.size())}, condition);
  return {.op = "Compress",
          .operands = {"x", "condition"},
          .inputs = {{"x", kRows}},
          .constants = {{"condition", bools}},
          .attributes = [](NodeProto& node) { SetInt(node, "axis", 0); }};
}

TEST_CASE(
    "Compress takes what a condition lets through, which may be shorter") {
  CHECK(NumbersOf(Compressed({1, 0, 1})) == std::vector<float>{1, 2, 5, 6});
  CHECK(NumbersOf(Compressed({0, 1})) == std::vector<float>{3, 4});
  CHECK(SaidOf(Compressed({0, 0, 0}))
            .find("(Compress) lets 0 elements through, the last of them -1 of "
                  "3; expected at least one, of these") != std::string::npos);
  CHECK(SaidOf(Compressed({1, 0, 0, 1}))
            .find("lets 2 elements through, the last of them 3 of 3") !=
        std::string::npos);
}

OneOp Reversed(int64_t time, int64_t batch) {
  return {.op = "ReverseSequence",
          .operands = {"x", "lengths"},
          .inputs = {{"x", kRows}, {"lengths", Ints({2}, {1, 3})}},
          .attributes = [=](NodeProto& node) {
            SetInt(node, "time_axis", time);
            SetInt(node, "batch_axis", batch);
          }};
}

TEST_CASE("ReverseSequence turns as much of each example as is its length") {
  CHECK(NumbersOf(Reversed(0, 1)) == std::vector<float>{1, 6, 3, 4, 5, 2});
  CHECK(SaidOf(Reversed(1, 1))
            .find("(ReverseSequence) turns axis 1 of each of axis 1; expected "
                  "the first two axes") != std::string::npos);
}

OneOp Tuples(int64_t batches, const Shape& shape,
             const std::vector<int64_t>& indices) {
  return {.op = "GatherND",
          .operands = {"x", "indices"},
          .inputs = {{"x", kRows}, {"indices", Ints(shape, indices)}},
          .attributes = [=](NodeProto& node) {
            SetInt(node, "batch_dims", batches);
          }};
}

TEST_CASE("GatherND looks into each batch by itself") {
  CHECK(NumbersOf(Tuples(0, {2, 1}, {2, 0})) == std::vector<float>{5, 6, 1, 2});
  CHECK(NumbersOf(Tuples(1, {3, 2, 1}, {1, 0, 0, 0, -1, 1})) ==
        std::vector<float>{2, 1, 3, 3, 6, 6});
  CHECK(SaidOf(Tuples(1, {2, 1}, {0, 0}))
            .find("(GatherND) has other batches in (3, 2) than in (2, 1)") !=
        std::string::npos);
  CHECK(SaidOf(Tuples(2, {3, 2}, {0, 0, 0, 0, 0, 0}))
            .find("has 2 batch dimensions of (3, 2) and (3, 2)") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
