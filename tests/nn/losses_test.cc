#include "nn/losses.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/golden_rows.h"

namespace stowage {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kWidth = 3;

// --- The formula of make_goldens.py -------------------------------------------

uint64_t Bits(std::string_view name, int64_t index) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  uint64_t z = hash + (static_cast<uint64_t>(index) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::vector<double> Numbers(std::string_view name, int64_t count) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(2 *
                      (static_cast<double>(Bits(name, i) >> 11) * 0x1p-52 - 1));
  }
  return numbers;
}

std::vector<double> Signs(std::string_view name, int64_t count) {
  std::vector<double> signs = Numbers(name, count);
  for (double& sign : signs) sign = sign > 0 ? 1 : -1;
  return signs;
}

// --- The cases of make_losses_goldens.py --------------------------------------

using Operands = std::map<std::string, std::vector<double>>;

Operands AllOperands() {
  const int64_t size = kRows * kWidth;
  Operands all = {{"x", Numbers("x", size)},
                  {"y", Numbers("y", size)},
                  {"t", Numbers("t", size)},
                  {"sides", Signs("sides", size)},
                  {"row_sides", Signs("row_sides", kRows)}};
  all["x"][0] = 0;
  for (double& t : all["t"]) t = (t / 2 + 1) / 2;
  all["zero_some"] = all["t"];
  all["zero_some"][1 * kWidth + 1] = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    all["labels"].push_back(static_cast<double>(Bits("labels", i) % kWidth));
  }
  all["some"] = all["labels"];
  all["some"][1] = -100;
  return all;
}

/// Declares an operand by its name when a loss asks for it.
class Declared {
 public:
  Declared(GraphBuilder& g, DType dtype) : g_(g), dtype_(dtype) {}

  Value operator()(const std::string& name) {
    if (name == "x") return Once(name, dtype_, {kRows, kWidth}, true);
    if (name == "labels" || name == "some") {
      return Once(name, DType::kI32, {kRows}, false);
    }
    if (name == "row_sides") return Once(name, dtype_, {kRows}, false);
    return Once(name, dtype_, {kRows, kWidth}, false);
  }

 private:
  Value Once(const std::string& name, DType dtype, const Shape& shape,
             bool param) {
    const auto known = values_.find(name);
    if (known != values_.end()) return known->second;
    const Value value =
        param ? g_.Param(name, dtype, shape) : g_.Input(name, dtype, shape);
    values_[name] = value;
    return value;
  }

  GraphBuilder& g_;
  const DType dtype_;
  std::map<std::string, Value> values_;
};

using Case = std::function<Value(Declared&)>;

const std::map<std::string, Case>& Cases() {
  constexpr Reduction kSum = Reduction::kSum;
  static const std::vector<double> kWeights = {0.5, 2, 1};
  static const std::map<std::string, Case> kCases = {
      {"l1", [](Declared& v) { return L1Loss(v("x"), v("y")); }},
      {"l1_sum", [](Declared& v) { return L1Loss(v("x"), v("y"), kSum); }},
      {"mse", [](Declared& v) { return MseLoss(v("x"), v("y")); }},
      {"mse_sum", [](Declared& v) { return MseLoss(v("x"), v("y"), kSum); }},
      {"huber", [](Declared& v) { return HuberLoss(v("x"), v("y"), 0.75); }},
      {"huber_sum",
       [](Declared& v) { return HuberLoss(v("x"), v("y"), 1, kSum); }},
      {"smooth_l1",
       [](Declared& v) { return SmoothL1Loss(v("x"), v("y"), 0.75); }},
      {"smooth_l1_sum",
       [](Declared& v) { return SmoothL1Loss(v("x"), v("y"), 1, kSum); }},
      {"bce", [](Declared& v) { return BceWithLogits(v("x"), v("t")); }},
      {"bce_sum",
       [](Declared& v) {
         return BceWithLogits(v("x"), v("t"), {.reduction = kSum});
       }},
      {"bce_weighted",
       [](Declared& v) {
         return BceWithLogits(v("x"), v("t"), {.positive_weight = 3});
       }},
      {"bce_large",
       [](Declared& v) {
         return BceWithLogits(MulScalar(v("x"), 50), v("t"));
       }},
      {"kl",
       [](Declared& v) {
         return KlDivergence(LogSoftmax(v("x")), v("zero_some"));
       }},
      {"kl_sum",
       [](Declared& v) {
         return KlDivergence(LogSoftmax(v("x")), v("t"), kSum);
       }},
      {"cosine",
       [](Declared& v) { return ReduceSum(CosineSimilarity(v("x"), v("y"))); }},
      {"cosine_embedding",
       [](Declared& v) {
         return CosineEmbeddingLoss(v("x"), v("y"), v("row_sides"));
       }},
      {"cosine_embedding_margin",
       [](Declared& v) {
         return CosineEmbeddingLoss(v("x"), v("y"), v("row_sides"),
                                    {.margin = -0.5, .reduction = kSum});
       }},
      {"hinge", [](Declared& v) { return HingeLoss(v("x"), v("sides")); }},
      {"hinge_sum",
       [](Declared& v) { return HingeLoss(v("x"), v("sides"), kSum); }},
      {"nll",
       [](Declared& v) { return NllLoss(LogSoftmax(v("x")), v("labels")); }},
      {"nll_weighted",
       [](Declared& v) {
         return NllLoss(LogSoftmax(v("x")), v("some"),
                        {.ignored_label = -100, .class_weights = kWeights});
       }},
      {"nll_sum",
       [](Declared& v) {
         return NllLoss(LogSoftmax(v("x")), v("some"),
                        {.ignored_label = -100,
                         .class_weights = kWeights,
                         .reduction = kSum});
       }},
      {"classes",
       [](Declared& v) { return ClassCrossEntropy(v("x"), v("labels"), {}); }},
      {"classes_ignored",
       [](Declared& v) {
         return ClassCrossEntropy(v("x"), v("some"), {.ignored_label = -100});
       }},
      {"classes_smoothed",
       [](Declared& v) {
         return ClassCrossEntropy(v("x"), v("labels"),
                                  {.label_smoothing = 0.1});
       }},
      {"classes_all",
       [](Declared& v) {
         return ClassCrossEntropy(v("x"), v("some"),
                                  {.ignored_label = -100,
                                   .class_weights = kWeights,
                                   .label_smoothing = 0.1});
       }},
      {"classes_all_sum",
       [](Declared& v) {
         return ClassCrossEntropy(v("x"), v("some"),
                                  {.ignored_label = -100,
                                   .class_weights = kWeights,
                                   .label_smoothing = 0.1,
                                   .reduction = kSum});
       }},
  };
  return kCases;
}

// --- Running them ---------------------------------------------------------------

struct Outcome {
  StepCode code = StepCode::kOk;
  double loss = 0;
  std::vector<double> gradient;
};

// One step of plain descent at a rate of 1, which leaves x - gradient.
template <typename T>
Outcome Run(const Case& make, const Operands& operands) {
  GraphBuilder g("loss");
  Declared declared(g, DTypeOf<T>());
  g.Output("loss", g.Name("loss", make(declared)));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> step =
      BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const auto backend = MakeCpuBackend({.threads = 1});
  const Result<Plan> plan = PlanMemory(*step, {.device = backend->Needs()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  Result<Session> session = Session::Create({{"step", *step, *plan}}, *backend);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(1);
  Runner& runner = session->front();
  for (const ValueId id : forward->Leaves(Role::kInput)) {
    const ValueInfo& info = forward->value(id);
    const std::vector<double>& values = operands.at(info.name);
    const Status written =
        info.type.dtype == DType::kI32
            ? runner.Write(info.name,
                           std::vector<int32_t>(values.begin(), values.end()))
            : runner.Write(info.name,
                           std::vector<T>(values.begin(), values.end()));
    REQUIRE_MESSAGE(written.ok(), written.error().message);
  }
  const std::vector<T> before(operands.at("x").begin(), operands.at("x").end());
  REQUIRE(runner.Write("x", before).ok());
  REQUIRE(runner.Write("lr", 1.0f).ok());
  REQUIRE(runner.Write("step", int64_t{1}).ok());
  Outcome outcome;
  outcome.code = runner.Step();
  if (outcome.code != StepCode::kOk) return outcome;
  std::vector<T> loss(1), after(before.size());
  REQUIRE(runner.Read("loss", &loss).ok());
  REQUIRE(runner.Read("x", &after).ok());
  outcome.loss = loss[0];
  for (size_t i = 0; i < after.size(); ++i) {
    outcome.gradient.push_back(static_cast<double>(before[i]) - after[i]);
  }
  return outcome;
}

std::map<std::string, std::vector<OpGolden>> ReadGoldens() {
  std::map<std::string, std::vector<OpGolden>> goldens;
  for (const OpGolden& row : ReadOpGoldens("tests/goldens/losses.csv")) {
    goldens[row.name].push_back(row);
  }
  return goldens;
}

template <typename T>
void CompareAll(double tolerance) {
  const auto goldens = ReadGoldens();
  REQUIRE(goldens.size() == Cases().size());
  for (const auto& golden : goldens) {
    const std::string& name = golden.first;
    CAPTURE(name);
    REQUIRE(Cases().contains(name));
    const Outcome outcome = Run<T>(Cases().at(name), AllOperands());
    REQUIRE(outcome.code == StepCode::kOk);
    REQUIRE(golden.second.size() == 1 + kRows * kWidth);
    for (const OpGolden& row : golden.second) {
      const double value = row.what == "loss"
                               ? outcome.loss
                               : outcome.gradient.at(std::stoul(row.index));
      CAPTURE(row.what);
      CAPTURE(row.index);
      CAPTURE(value);
      CAPTURE(row.value);
      CHECK(std::abs(value - row.value) <=
            tolerance * std::max(1.0, std::abs(row.value)));
    }
  }
}

TEST_CASE("every loss and its gradient are PyTorch's, in f64") {
  CompareAll<double>(1e-9);
}

TEST_CASE("every loss and its gradient are PyTorch's, in f32") {
  CompareAll<float>(1e-4);
}

TEST_CASE("where every row is ignored, the loss and its gradient are 0") {
  Operands operands = AllOperands();
  operands["some"].assign(kRows, -100);
  for (const std::string name : {"nll_weighted", "classes_all"}) {
    CAPTURE(name);
    const Outcome outcome = Run<float>(Cases().at(name), operands);
    REQUIRE(outcome.code == StepCode::kOk);
    CHECK(outcome.loss == 0);
    for (const double g : outcome.gradient) CHECK(g == 0);
  }
}

TEST_CASE("a label that is out of range, and not ignored, is reported") {
  for (const double label : {-1.0, 3.0}) {
    Operands operands = AllOperands();
    operands["some"][2] = label;
    operands["labels"][2] = label;
    for (const std::string name : {"nll", "classes", "classes_all"}) {
      CAPTURE(name);
      CHECK(Run<float>(Cases().at(name), operands).code ==
            StepCode::kIndexOutOfRange);
    }
  }
}

TEST_CASE("what a loss cannot take is refused with what was given") {
  const auto refuse = [](const std::function<Value(GraphBuilder&)>& make) {
    GraphBuilder g("loss");
    g.Output("loss", make(g));
    const Result<Graph> graph = g.Finish();
    REQUIRE_FALSE(graph.ok());
    return graph.error().message;
  };
  const auto x = [](GraphBuilder& g) {
    return g.Input("x", DType::kF32, {4, 3});
  };
  const auto mentions = [](const std::string& message, std::string_view text) {
    INFO(message);
    CHECK(message.find(text) != std::string::npos);
  };
  mentions(refuse([&](GraphBuilder& g) {
             return L1Loss(x(g), g.Input("y", DType::kF32, {3}));
           }),
           "[l1_loss] the operands are f32(4, 3) and f32(3); expected one "
           "shape and float type");
  mentions(refuse([&](GraphBuilder& g) {
             const Value a = x(g);
             return HuberLoss(a, a, 0);
           }),
           "[huber_loss] delta is 0; expected a finite number above 0");
  mentions(refuse([&](GraphBuilder& g) {
             return NllLoss(x(g), g.Input("l", DType::kI32, {3}));
           }),
           "[nll_loss] the rows are f32(4, 3) and the labels i32(3); expected "
           "floats (..., V) and i32 or i64 (...)");
  mentions(refuse([&](GraphBuilder& g) {
             return NllLoss(x(g), g.Input("l", DType::kI32, {4}),
                            {.label_smoothing = 0.1});
           }),
           "[nll_loss] label smoothing is 0.1; it is for "
           "class_cross_entropy, expected 0");
  mentions(refuse([&](GraphBuilder& g) {
             return ClassCrossEntropy(x(g), g.Input("l", DType::kI32, {4}),
                                      {.class_weights = {1, 2}});
           }),
           "[class_cross_entropy] 2 class weights are given for 3 classes");
  mentions(refuse([&](GraphBuilder& g) {
             return ClassCrossEntropy(x(g), g.Input("l", DType::kI32, {4}),
                                      {.class_weights = {1, 2, -1}});
           }),
           "[class_cross_entropy] class weight 2 is -1; expected a finite "
           "number of at least 0");
}

}  // namespace
}  // namespace stowage
