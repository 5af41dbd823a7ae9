#include "train/evaluation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/models.h"
#include "tests/support/interpret.h"
#include "train/state_backup.h"

namespace stowage {
namespace {

// Class 3 has neither a label nor a prediction, class 5 a prediction alone.
const std::vector<int64_t> kLabels = {0, 1, 2, 2, 4, 0, 1, 2, 4, 4, 2, 0};
const std::vector<int64_t> kPredictions = {0, 2, 2, 2, 4, 0, 1, 0, 4, 2, 2, 5};

TEST_CASE("metrics are those of scikit-learn") {
  ClassCounts counts(7);
  for (const Metric metric :
       {Metric::kAccuracy, Metric::kTop5, Metric::kF1Macro, Metric::kF1Micro,
        Metric::kMeanIou}) {
    CHECK(std::isnan(counts.Value(metric)));
  }
  for (const int rounds : {1, 2}) {
    if (rounds == 2) counts.Clear();
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < kLabels.size(); ++i) {
        // Ranks 0 to 6 in turn: of 12 rows, 10 are within the first five.
        counts.Add(kPredictions[i], kLabels[i], static_cast<int64_t>(i % 7));
      }
    }
    // accuracy_score, f1_score and jaccard_score of scikit-learn 1.9.1. By hand, of
    // classes 0, 1, 2, 4 and 5: F1 4/6, 2/3, 6/9, 4/5, 0; IoU 2/4, 1/2, 3/6, 2/3, 0.
    CHECK(counts.Value(Metric::kAccuracy) == doctest::Approx(8.0 / 12));
    CHECK(counts.Value(Metric::kF1Micro) == doctest::Approx(8.0 / 12));
    CHECK(counts.Value(Metric::kF1Macro) == doctest::Approx(0.56));
    CHECK(counts.Value(Metric::kMeanIou) ==
          doctest::Approx(0.4333333333333333));
    CHECK(counts.Value(Metric::kTop5) == doctest::Approx(10.0 / 12));
  }
}

TEST_CASE("the sums of parts are those of the whole") {
  ClassCounts whole(7), first(7), second(7);
  for (size_t i = 0; i < kLabels.size(); ++i) {
    whole.Add(kPredictions[i], kLabels[i], 0);
    (i < 5 ? first : second).Add(kPredictions[i], kLabels[i], 0);
  }
  for (size_t i = 0; i < first.sums().size(); ++i) {
    first.sums()[i] += second.sums()[i];
  }
  CHECK(first.Value(Metric::kF1Macro) == whole.Value(Metric::kF1Macro));
  CHECK(first.Value(Metric::kMeanIou) == whole.Value(Metric::kMeanIou));
  CHECK(first.Value(Metric::kTop5) == 1);
}

TEST_CASE("a label that is no class is not counted") {
  ClassCounts counts(3);
  counts.Add(std::vector<int32_t>{0, 1, 2, 0},
             std::vector<int32_t>{0, -100, 1, 3},
             std::vector<int32_t>{0, 0, 5, 0});
  CHECK(counts.Value(Metric::kAccuracy) == 0.5);
  CHECK(counts.Value(Metric::kTop5) == 0.5);
}

TEST_CASE("an unknown metric names those there are") {
  for (const char* const name :
       {"accuracy", "top5", "f1_macro", "f1_micro", "mean_iou"}) {
    CHECK(MetricName(ParseMetric(name).OrDie()) == name);
  }
  const Result<Metric> unknown = ParseMetric("f1");
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().message ==
        "[metrics] there is no metric \"f1\"; expected accuracy, top5, "
        "f1_macro, f1_micro or mean_iou");
}

// Of labels of (2, 2), such as those of pixels.
Graph Pixels(bool predicts) {
  GraphBuilder g("pixels");
  const Value x = g.Input("x", DType::kF32, {2, 2, 3});
  const Value y = g.Input("y", DType::kI32, {2, 2});
  const Value logits = MulScalar(x, 2);
  if (predicts) g.Output("predictions", ArgMax(logits));
  g.Output("loss", AddScalar(CrossEntropy(logits, y), 1));
  return g.Finish().OrDie();
}

TEST_CASE("a program has predictions, and ranks of the labels") {
  const Tensors leaves = {{"x",
                           {3, 1, 2,     //
                            -1, -2, -3,  //
                            5, 5, 4,     //
                            0, 9, 7}},
                          {"y", {1, 0, 1, 2}}};
  for (const bool predicts : {false, true}) {
    const Graph pixels = Pixels(predicts);
    CHECK(ClassesOf(pixels) == 3);
    const Graph graph = WithPredictions(pixels).OrDie();
    CHECK(graph.outputs().size() == 4);
    const Tensors values = Interpret(graph, leaves);
    // Of two that are equal, the first is predicted, and neither is larger.
    CHECK(values.at("predictions") == std::vector<double>{0, 0, 0, 1});
    CHECK(values.at("label_classes") == leaves.at("y"));
    CHECK(values.at("label_ranks") == std::vector<double>{2, 0, 0, 1});
    CHECK(values.at("loss") == Interpret(pixels, leaves).at("loss"));
  }
}

TEST_CASE("a loss that is no cross-entropy has no classes") {
  GraphBuilder g("mse");
  const Value x = g.Input("x", DType::kF32, {2, 3});
  const Value y = g.Input("y", DType::kI32, {2});
  g.Output("other", CrossEntropy(x, y));
  g.Output("loss", ReduceMean(Square(x)));
  const Graph graph = g.Finish().OrDie();
  CHECK(!ClassesOf(graph));
  CHECK(WithPredictions(graph).OrDie().outputs().size() == 2);
  CHECK(ClassesOf(graph, "other") == 3);

  GraphBuilder two("two");
  const Value z = two.Input("z", DType::kF32, {2, 3});
  const Value label = two.Input("y", DType::kI32, {2});
  two.Output("loss",
             Add(CrossEntropy(z, label), CrossEntropy(MulScalar(z, 2), label)));
  CHECK(!ClassesOf(two.Finish().OrDie()));
}

TEST_CASE("the built-in classifiers have classes") {
  for (const ModelInfo& info : Models()) {
    const Graph graph =
        BuildModel(info.name, ModelPurpose::kEvaluate, {.batch = 2}).OrDie();
    const bool classifies = info.data != ModelData::kText;
    CAPTURE(info.name);
    if (classifies) CHECK(ClassesOf(graph) == info.vocabulary);
  }
}

TEST_CASE("evaluations are counted since the lowest loss") {
  EvaluationHistory history;
  CHECK(history.Add(10, 2.5));
  CHECK(history.Add(20, 1.5));
  CHECK_FALSE(history.Add(30, 1.5));  // equal is no improvement
  CHECK_FALSE(history.Add(40, std::numeric_limits<double>::quiet_NaN()));
  CHECK(history == EvaluationHistory{.last_step = 40,
                                     .best_step = 20,
                                     .best_loss = 1.5,
                                     .since_best = 2});
  CHECK(history.Add(50, 1.25));
  CHECK(history.since_best == 0);
  CHECK(history.best_step == 50);
}

TEST_CASE("a loss of 0 or below is a loss") {
  EvaluationHistory history;
  CHECK(history.Add(1, 0));
  CHECK_FALSE(history.Add(2, 0.5));
  CHECK(history.Add(3, -1));
}

TEST_CASE("a history as text is the same again") {
  EvaluationHistory history;
  history.Add(7, 0.1 + 0.2);  // of 17 digits
  history.Add(14, 3);
  const auto parsed = ParseEvaluationHistory(ToText(history));
  REQUIRE(parsed.ok());
  CHECK(*parsed == history);
  CHECK(*ParseEvaluationHistory(ToText({})) == EvaluationHistory{});
  for (const char* text : {"", "1", "1 2 0.5", "1 2 0.5 0", "2 1 nan 0",
                           "2 1 0.5 0 3", "2 1 0.5 -1", "a 1 0.5 0"}) {
    INFO(text);
    const auto refused = ParseEvaluationHistory(text);
    REQUIRE(!refused.ok());
    CHECK(refused.error().message.find("is no history of evaluations") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace stowage
