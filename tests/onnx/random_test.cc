// Random draws of a file: those of the run's seed and of the step.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "formats/array.h"
#include "ir/dtype.h"
#include "ir/shape.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

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

}  // namespace
}  // namespace stowage
