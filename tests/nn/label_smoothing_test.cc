// Smoothed losses and their gradients beside the formula of
// torch.nn.CrossEntropyLoss(label_smoothing=s): each target is 1 - s at its label and
// s / V at every class.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/verify.h"
#include "nn/losses.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr int64_t kRows = 4, kWidth = 2, kClasses = 3;
const std::vector<double> kX = {0.5, -1, 2, 0.25, 1, 1, -3, 0.5};
const std::vector<double> kW = {1, -0.5, 0.25, 2, -1, 0.75};
const std::vector<double> kLabels = {2, 0, 1, 1};
const std::vector<double> kWeights = {1.5, 0, 2, 0.5};

// Logits x w^T, with the class axis of the head's matrix (V, C).
Graph Model(bool is_linear, bool is_weighted) {
  GraphBuilder g("model");
  const Value x = g.Input("x", DType::kF64, {kRows, kWidth});
  const Value labels = g.Input("labels", DType::kI32, {kRows});
  const Value w = g.Param("w", DType::kF64, {kClasses, kWidth});
  Value weights;
  if (is_weighted) weights = g.Input("weights", DType::kF64, {kRows});
  const Value loss =
      is_linear
          ? LinearCrossEntropy(x, w, labels, /*chunk=*/2, {.weights = weights})
          : CrossEntropy(MatMul(x, w, false, true), labels);
  g.Output("loss", g.Name("loss", loss));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

// The loss, and what a step of SGD at the rate 1 makes of w.
struct Expected {
  double loss = 0;
  std::vector<double> w = kW;
};
Expected ByHand(double smoothing, const std::vector<double>& weights) {
  Expected expected;
  for (size_t row = 0; row < kRows; ++row) {
    double logits[kClasses] = {}, sum = 0;
    for (size_t v = 0; v < kClasses; ++v) {
      for (size_t c = 0; c < kWidth; ++c) {
        logits[v] += kX[row * kWidth + c] * kW[v * kWidth + c];
      }
      sum += std::exp(logits[v]);
    }
    const double share = weights[row] / kRows;
    for (size_t v = 0; v < kClasses; ++v) {
      const double target =
          (v == static_cast<size_t>(kLabels[row]) ? 1 - smoothing : 0) +
          smoothing / kClasses;
      const double p = std::exp(logits[v]) / sum;
      expected.loss -= share * target * std::log(p);
      for (size_t c = 0; c < kWidth; ++c) {
        expected.w[v * kWidth + c] -=
            share * (p - target) * kX[row * kWidth + c];
      }
    }
  }
  return expected;
}

void Check(const Graph& graph, double smoothing, bool is_weighted) {
  const std::vector<double> ones(kRows, 1);
  const Expected expected = ByHand(smoothing, is_weighted ? kWeights : ones);
  const Result<Graph> step =
      BuildTrainStep(graph, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(Verify(*step).ok());
  Tensors leaves = {{"x", kX},
                    {"labels", kLabels},
                    {"w", kW},
                    {"lr", {1.0}},
                    {"step", {1.0}}};
  if (is_weighted) leaves["weights"] = kWeights;
  const Tensors values = Interpret(*step, leaves);
  CHECK(values.at("loss")[0] == doctest::Approx(expected.loss).epsilon(1e-9));
  for (size_t i = 0; i < expected.w.size(); ++i) {
    CAPTURE(i);
    CHECK(values.at("new:w")[i] ==
          doctest::Approx(expected.w[i]).epsilon(1e-9));
  }
}

TEST_CASE("losses and gradients are those of smoothed targets") {
  for (const double smoothing : {0.0, 0.1, 0.5}) {
    for (const bool is_linear : {false, true}) {
      for (const bool is_weighted : {false, true}) {
        if (is_weighted && !is_linear) continue;
        CAPTURE(smoothing);
        CAPTURE(is_linear);
        CAPTURE(is_weighted);
        const Result<Graph> graph =
            WithLabelSmoothing(Model(is_linear, is_weighted), smoothing);
        REQUIRE_MESSAGE(graph.ok(), graph.error().message);
        Check(*graph, smoothing, is_weighted);
      }
    }
  }
}

TEST_CASE("no smoothing leaves the graph as it is") {
  const Graph model = Model(true, false);
  const Result<Graph> same = WithLabelSmoothing(model, 0);
  REQUIRE(same.ok());
  CHECK(Equal(*same, model));
}

TEST_CASE("what cannot be smoothed is refused") {
  const auto message = [](const Graph& graph, double smoothing) {
    const Result<Graph> refused = WithLabelSmoothing(graph, smoothing);
    return refused.ok() ? std::string() : refused.error().message;
  };
  for (const double bad : {-0.1, 1.0, std::nan("")}) {
    CHECK(message(Model(false, false), bad)
              .find("is out of range; expected at least 0 and below 1") !=
          std::string::npos);
  }
  GraphBuilder g("regression");
  const Value w = g.Param("w", DType::kF32, {2});
  const Value y = g.Input("y", DType::kF32, {2});
  g.Output("loss", g.Name("loss", MeanSquaredError(w, y)));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(message(*graph, 0.1).find("[label-smoothing] the loss is made by ") ==
        0);
  CHECK(message(*graph, 0.1)
            .find("in graph \"regression\"; expected a loss that is a "
                  "cross_entropy") != std::string::npos);
}

}  // namespace
}  // namespace stowage
