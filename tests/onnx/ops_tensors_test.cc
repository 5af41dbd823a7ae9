// Indexing, integer, random and spectral ops in cases that ONNX's own tests leave out. Expected
// numbers are worked out by hand.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/array.h"
#include "ir/tensor_type.h"
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

std::vector<int64_t> IntegersOf(const OneOp& op) {
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
  CHECK(IntegersOf(Padded("constant", {1, 0, 0, 2})) ==
        std::vector<int64_t>{0, 0, 0, 0, 0,  //
                             1, 2, 3, 0, 0,  //
                             4, 5, 6, 0, 0});
  CHECK(IntegersOf(Padded("edge", {0, 2, 1, 1})) ==
        std::vector<int64_t>{1, 1, 1, 2, 3, 3,  //
                             4, 4, 4, 5, 6, 6,  //
                             4, 4, 4, 5, 6, 6});
  CHECK(IntegersOf(Padded("reflect", {0, 2, 1, 1})) ==
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
  CHECK(IntegersOf({.op = "Pow",
                    .operands = {"x", "y"},
                    .constants = {{"x", Ints({3}, {3, -2, 7})},
                                  {"y", Ints({3}, {39, 3, 0})}}}) ==
        std::vector<int64_t>{4052555153018976267, -8, 1});
}

std::vector<float> Drawn(OneOp op, int64_t seed = 1, int64_t step = 1) {
  op.seed = seed;
  op.step = step;
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  return ValuesOf<float>((*y)[0]);
}

struct Moments {
  double mean = 0, deviation = 0;
};
Moments MomentsOf(const std::vector<float>& numbers) {
  Moments moments;
  for (const float x : numbers) moments.mean += x;
  moments.mean /= static_cast<double>(numbers.size());
  for (const float x : numbers) {
    moments.deviation += (x - moments.mean) * (x - moments.mean);
  }
  moments.deviation =
      std::sqrt(moments.deviation / static_cast<double>(numbers.size()));
  return moments;
}

constexpr int64_t kCount = 40'000;

OneOp Made(const std::string& op) {
  return {.op = op, .operands = {}, .attributes = [](NodeProto& node) {
            SetInts(node, "shape", {kCount});
            SetFloat(node, "low", 2);
            SetFloat(node, "high", 5);
            SetFloat(node, "mean", 3);
            SetFloat(node, "scale", 0.5);
          }};
}

TEST_CASE("numbers are drawn as the file says") {
  const std::vector<float> uniform = Drawn(Made("RandomUniform"));
  CHECK(*std::min_element(uniform.begin(), uniform.end()) >= 2);
  CHECK(*std::max_element(uniform.begin(), uniform.end()) <= 5);
  // A deviation of 3 / sqrt(12), of a mean of 40,000 two hundredths of that.
  CHECK(std::abs(MomentsOf(uniform).mean - 3.5) < 0.02);
  CHECK(std::abs(MomentsOf(uniform).deviation - 0.866) < 0.01);
  const std::vector<float> normal = Drawn(Made("RandomNormal"));
  CHECK(std::abs(MomentsOf(normal).mean - 3) < 0.01);
  CHECK(std::abs(MomentsOf(normal).deviation - 0.5) < 0.01);
}

TEST_CASE("numbers are those of the seed and the step") {
  for (const char* const op : {"RandomUniform", "RandomNormal"}) {
    CAPTURE(op);
    const std::vector<float> first = Drawn(Made(op));
    CHECK(Drawn(Made(op)) == first);
    CHECK(Drawn(Made(op), 2, 1) != first);
    CHECK(Drawn(Made(op), 1, 2) != first);
  }
}

TEST_CASE("numbers like others are as many, of their type or the one told") {
  const OneOp like = {.op = "RandomNormalLike",
                      .operands = {"x"},
                      .inputs = {{"x", Floats({2, 3}, {1, 2, 3, 4, 5, 6})}}};
  const auto y = Run(like);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  CHECK((*y)[0].type == TensorType{DType::kF32, {2, 3}});
  OneOp wide = like;
  wide.op = "RandomUniformLike";
  wide.attributes = [](NodeProto& node) {
    SetInt(node, "dtype", onnx::pb::TensorProto::DOUBLE);
  };
  const auto z = Run(wide);
  REQUIRE_MESSAGE(z.ok(), z.error().message);
  CHECK((*z)[0].type == TensorType{DType::kF64, {2, 3}});
}

TEST_CASE("Bernoulli gives 1 as often as it is told") {
  std::vector<float> chances(static_cast<size_t>(kCount));
  for (size_t i = 0; i < chances.size(); ++i) {
    chances[i] = i % 3 == 0 ? 0.0f : i % 3 == 1 ? 1.0f : 0.25f;
  }
  const std::vector<float> drawn =
      Drawn({.op = "Bernoulli",
             .operands = {"x"},
             .inputs = {{"x", Floats({kCount}, chances)}}});
  double ones = 0;
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (i % 3 == 0) REQUIRE(drawn[i] == 0);
    if (i % 3 == 1) REQUIRE(drawn[i] == 1);
    if (i % 3 == 2) ones += drawn[i];
  }
  CHECK(std::abs(ones / (kCount / 3.0) - 0.25) < 0.015);
}

// --- Spectra: one side, own lengths, the axis as an operand, no window ----------------

void CheckSpectrum(const OneOp& op, const std::vector<float>& expected) {
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  const std::vector<float> got = ValuesOf<float>((*y)[0]);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) < 1e-5f);
  }
}

OneOp OneSide(int64_t length, bool inverse = false) {
  return {
      .op = "DFT",
      .operands = {"x", "length", "axis"},
      .inputs = {{"x", Floats({1, 4, 1}, {1, 2, 3, 4})}},
      .constants = {{"length", Ints({}, {length})}, {"axis", Ints({}, {-2})}},
      .attributes = [=](NodeProto& node) {
        SetInt(node, "onesided", 1);
        SetInt(node, "inverse", inverse);
      }};
}

TEST_CASE("a spectrum has one side, and is of as many elements as it is told") {
  CheckSpectrum(OneSide(4), {10, 0, -2, 2, -2, 0});
  CheckSpectrum(OneSide(2), {3, 0, -1, 0});
  // Four zeros follow; of every second frequency, those of above.
  const float h = std::sqrt(0.5f);
  CheckSpectrum(OneSide(8), {10, 0,                                  //
                             1 + 2 * h - 4 * h, -2 * h - 3 - 4 * h,  //
                             -2, 2,                                  //
                             1 - 2 * h + 4 * h, -2 * h + 3 - 4 * h,  //
                             -2, 0});
}

TEST_CASE("an inverse of one side is refused") {
  const auto y = Run(OneSide(4, true));
  REQUIRE(!y.ok());
  CHECK(y.error().message.find("(DFT) is the inverse of one side") !=
        std::string::npos);
}

OneOp Frames(int64_t length) {
  return {
      .op = "STFT",
      .operands = {"x", "step", "", "length"},
      .inputs = {{"x", Floats({1, 5, 1}, {1, 2, 3, 4, 5})}},
      .constants = {{"step", Ints({}, {2})}, {"length", Ints({}, {length})}}};
}

TEST_CASE("frames without a window end where the signal does") {
  CheckSpectrum(Frames(2), {3, 0, -1, 0,  //
                            7, 0, -1, 0});
  const auto y = Run(Frames(6));
  REQUIRE(!y.ok());
  CHECK(y.error().message.find("(STFT) takes frames of 6 from (1, 5, 1)") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
