// Norms, cosines and deviations of zeros: their gradients are PyTorch's, and finite.

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "tests/onnx/one_op.h"
#include "train/training.h"

namespace stowage {
namespace {

using onnx::pb::NodeProto;

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
