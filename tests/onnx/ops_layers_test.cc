// Attention of operator set 23 against its formula; gradients of norms, cosines and deviations
// at zeros, which are PyTorch's and finite.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"
#include "train/training.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

std::vector<float> Numbers(int64_t count, double from) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(
        static_cast<float>(std::sin(from + 0.7 * static_cast<double>(i))));
  }
  return numbers;
}

// Batch 2, 4 heads of queries over 2 of keys, 3 queries, 5 places, a width of 4.
constexpr int64_t kB = 2, kH = 4, kG = 2, kT = 3, kS = 5, kD = 4;
const std::vector<float> kQ = Numbers(kB * kH * kT * kD, 0.1);
const std::vector<float> kK = Numbers(kB * kG * kS * kD, 0.2);
const std::vector<float> kV = Numbers(kB * kG * kS * kD, 0.3);

// softmax(q k^T / sqrt(D) + bias) v, (B, H, T, D).
std::vector<double> Expected(
    const std::function<double(int64_t b, int64_t h, int64_t t, int64_t s)>&
        bias) {
  std::vector<double> y;
  for (int64_t b = 0; b < kB; ++b) {
    for (int64_t h = 0; h < kH; ++h) {
      const int64_t g = b * kG + h / (kH / kG);
      for (int64_t t = 0; t < kT; ++t) {
        std::vector<double> weights;
        double sum = 0;
        for (int64_t s = 0; s < kS; ++s) {
          double product = 0;
          for (int64_t d = 0; d < kD; ++d) {
            product +=
                kQ[static_cast<size_t>(((b * kH + h) * kT + t) * kD + d)] *
                kK[static_cast<size_t>((g * kS + s) * kD + d)];
          }
          weights.push_back(std::exp(product / 2 + bias(b, h, t, s)));
          sum += weights.back();
        }
        for (int64_t d = 0; d < kD; ++d) {
          double mixed = 0;
          for (int64_t s = 0; s < kS; ++s) {
            mixed += weights[static_cast<size_t>(s)] / sum *
                     kV[static_cast<size_t>((g * kS + s) * kD + d)];
          }
          y.push_back(mixed);
        }
      }
    }
  }
  return y;
}

void CheckAttention(const OneOp& op, const std::vector<double>& expected) {
  const auto y = Run(op);
  REQUIRE_MESSAGE(y.ok(), y.error().message);
  const std::vector<float> got = ValuesOf<float>((*y)[0]);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) < 1e-5);
  }
}

OneOp FourDimensions() {
  return {.op = "Attention",
          .version = 23,
          .operands = {"q", "k", "v"},
          .inputs = {{"q", Floats({kB, kH, kT, kD}, kQ)},
                     {"k", Floats({kB, kG, kS, kD}, kK)},
                     {"v", Floats({kB, kG, kS, kD}, kV)}}};
}

const double kInfinity = INFINITY;

TEST_CASE("attention is softmax(q k / sqrt(d)) v, of heads in groups") {
  CheckAttention(FourDimensions(),
                 Expected([](auto, auto, auto, auto) { return 0.0; }));
}

TEST_CASE("a mask is added, or says what is read") {
  const std::vector<float> mask = Numbers(kT * kS, 0.4);
  OneOp added = FourDimensions();
  added.operands.push_back("mask");
  added.inputs.push_back({"mask", Floats({kT, kS}, mask)});
  CheckAttention(
      added, Expected([&](auto, auto, int64_t t, int64_t s) {
        return static_cast<double>(mask[static_cast<size_t>(t * kS + s)]);
      }));
  OneOp chosen = FourDimensions();
  std::vector<int64_t> reads;
  for (int64_t i = 0; i < kB * kS; ++i) reads.push_back(i % 3 != 1);
  chosen.operands.push_back("mask");
  chosen.inputs.push_back(
      {"mask", ArrayOf(DType::kBool, {kB, 1, 1, kS}, reads)});
  CheckAttention(chosen, Expected([&](int64_t b, auto, auto, int64_t s) {
                   return reads[static_cast<size_t>(b * kS + s)] ? 0
                                                                 : -kInfinity;
                 }));
}

// The first query reads the first place alone, however many places there are.
TEST_CASE("a causal mask begins at the first place") {
  OneOp op = FourDimensions();
  op.attributes = [](NodeProto& node) { SetInt(node, "is_causal", 1); };
  CheckAttention(op, Expected([](auto, auto, int64_t t, int64_t s) {
                   return s <= t ? 0 : -kInfinity;
                 }));
}

// Two places are kept from before, so that the last query reads all five.
TEST_CASE("what is kept from before stands before the first query") {
  const auto part = [](const std::vector<float>& all, int64_t from,
                       int64_t to) {
    std::vector<float> numbers;
    for (int64_t row = 0; row < kB * kG; ++row) {
      for (int64_t i = from * kD; i < to * kD; ++i) {
        numbers.push_back(all[static_cast<size_t>(row * kS * kD + i)]);
      }
    }
    return Floats({kB, kG, to - from, kD}, numbers);
  };
  OneOp op = FourDimensions();
  op.operands = {"q", "k", "v", "", "past_k", "past_v"};
  op.inputs[1].array = part(kK, 2, 5);
  op.inputs[2].array = part(kV, 2, 5);
  op.inputs.push_back({"past_k", part(kK, 0, 2)});
  op.inputs.push_back({"past_v", part(kV, 0, 2)});
  op.attributes = [](NodeProto& node) { SetInt(node, "is_causal", 1); };
  op.results = 3;
  CheckAttention(op, Expected([](auto, auto, int64_t t, int64_t s) {
                   return s <= t + 2 ? 0 : -kInfinity;
                 }));
  const auto results = Run(op);
  REQUIRE(results.ok());
  CHECK(ValuesOf<float>((*results)[1]) == kK);
  CHECK(ValuesOf<float>((*results)[2]) == kV);
}

TEST_CASE("of three dimensions the last one is heads") {
  // (B, H, T, D) -> (B, T, H * D)
  const auto flat = [](const auto& all, int64_t heads, int64_t places) {
    std::vector<float> numbers;
    for (int64_t b = 0; b < kB; ++b) {
      for (int64_t t = 0; t < places; ++t) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t d = 0; d < kD; ++d) {
            numbers.push_back(static_cast<float>(all[static_cast<size_t>(
                ((b * heads + h) * places + t) * kD + d)]));
          }
        }
      }
    }
    return numbers;
  };
  const std::vector<float> expected =
      flat(Expected([](auto, auto, auto, auto) { return 0.0; }), kH, kT);
  CheckAttention(
      {.op = "Attention",
       .version = 23,
       .operands = {"q", "k", "v"},
       .inputs = {{"q", Floats({kB, kT, kH * kD}, flat(kQ, kH, kT))},
                  {"k", Floats({kB, kS, kG * kD}, flat(kK, kG, kS))},
                  {"v", Floats({kB, kS, kG * kD}, flat(kV, kG, kS))}},
       .attributes =
           [](NodeProto& node) {
             SetInt(node, "q_num_heads", kH);
             SetInt(node, "kv_num_heads", kG);
           }},
      std::vector<double>(expected.begin(), expected.end()));
}

TEST_CASE("what Attention cannot do is told") {
  OneOp op = FourDimensions();
  op.attributes = [](NodeProto& node) { SetFloat(node, "softcap", 2); };
  auto y = Run(op);
  REQUIRE(!y.ok());
  CHECK(
      y.error().message.find("(Attention) gives out its products, caps them") !=
      std::string::npos);
  op = FourDimensions();
  op.operands.push_back("mask");
  op.inputs.push_back(
      {"mask", Floats({kT, kS - 1}, Numbers(kT * (kS - 1), 0))});
  y = Run(op);
  REQUIRE(!y.ok());
  CHECK(y.error().message.find("has a mask of (3, 4) for 5 places") !=
        std::string::npos);
}

// --- Norms ----------------------------------------------------------------------------

std::vector<NamedArray> Goldens() {
  std::ifstream file("tests/goldens/onnx/norms.npz", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const auto arrays = ParseNpz(bytes.str(), "norms.npz");
  REQUIRE(arrays.ok());
  return *arrays;
}

template <typename T>
void CheckNear(const std::vector<T>& got, const std::vector<T>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) < 1e-6);  // epsilons are floats
  }
}

TEST_CASE(
    "norms of zeros have PyTorch's gradients, in either exporter's file") {
  for (const char* const exporter : {"dynamo", "script"}) {
    CAPTURE(exporter);
    const auto model =
        ReadOnnx(StrCat("tests/goldens/onnx/norms_", exporter, ".onnx"));
    REQUIRE_MESSAGE(model.ok(), model.error().message);
    const OnnxBuildOptions options{
        .loss = OnnxLoss{.kind = OnnxLossKind::kOutput, .output = "y"}};
    TrainingSpec spec{.model = [&](int64_t) { return model->Build(options); },
                      .batch = 1};
    spec.training.optimizer = Sgd{};
    spec.training.gradients = {"*"};
    const std::unique_ptr<Backend> cpu = MakeCpuBackend({});
    auto training = Train(spec, *cpu);
    REQUIRE_MESSAGE(training.ok(), training.error().message);
    training->Initialize(/*seed=*/1);
    Runner& step = training->step();
    const Status loaded =
        model->ForEachWeight(step.graph(), [&](const NamedArray& weight) {
          return step.WriteBytes(weight.name, weight.array.type.dtype,
                                 weight.array.data());
        });
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
    const std::vector<NamedArray> goldens = Goldens();
    for (const NamedArray& golden : goldens) {
      if (golden.name != "x") continue;
      REQUIRE(step.WriteBytes("x", golden.array.type.dtype, golden.array.data())
                  .ok());
    }
    REQUIRE(step.Write("lr", 0.1f).ok());
    REQUIRE(step.Write("step", int64_t{1}).ok());
    REQUIRE(step.Step() == StepCode::kOk);
    for (const NamedArray& golden : goldens) {
      if (golden.name == "x" || golden.name == "y") continue;
      CAPTURE(golden.name);
      std::vector<double> gradient(6);
      REQUIRE(step.Read(StrCat("grad:", golden.name), &gradient).ok());
      CheckNear(gradient, ValuesOf<double>(golden.array));
    }
  }
}

TEST_CASE("a slice of zeros is normalized to zeros") {
  for (const int64_t p : {1, 2}) {
    const auto y = Run({.op = "LpNormalization",
                        .operands = {"x"},
                        .inputs = {{"x", Floats({2, 2}, {0, 0, 3, -4})}},
                        .attributes = [&](NodeProto& node) {
                          SetInt(node, "p", p);
                          SetInt(node, "axis", 1);
                        }});
    REQUIRE_MESSAGE(y.ok(), y.error().message);
    const float length = p == 1 ? 7.0f : 5.0f;
    CheckNear(ValuesOf<float>((*y)[0]), {0, 0, 3 / length, -4 / length});
  }
}

}  // namespace
}  // namespace stowage
