// What optimizers do over several steps, against formulas written out here, the states
// they keep, and the errors of what they are given.

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "math/optimizer.h"
#include "math/small_floats.h"
#include "tests/autodiff/built_step.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;
using Strings = std::vector<std::string>;
using Numbers = std::vector<double>;

// loss = mean over 4 rows of (x w + b - y)^2, w of 2 and b of 1 element.
Graph Regression() {
  return Build("regression", [](GraphBuilder& g) {
    const Value x = g.Input("x", kF32, {4, 2});
    const Value w = g.Param("w", kF32, {2, 1});
    const Value b = g.Param("b", kF32, {1});
    const Value y = g.Input("y", kF32, {4, 1});
    g.Output("loss", MeanSquaredError(Add(MatMul(x, w), b), y));
  });
}

constexpr double kX[4][2] = {{1, 2}, {-1, 0.5}, {0.25, -2}, {3, 1}};
constexpr double kY[4] = {1, -2, 0.5, 4};

// Params p = (w0, w1, b) and what an optimizer keeps for them.
struct Reference {
  double p[3] = {0.5, -0.25, 0.125};
  double first[3] = {};   // velocity, or first moment
  double second[3] = {};  // second moment

  double Loss() const {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += Error(i) * Error(i);
    return sum / 4;
  }
  double Error(int i) const {
    return kX[i][0] * p[0] + kX[i][1] * p[1] + p[2] - kY[i];
  }
  double Gradient(int j) const {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      sum += 2 * Error(i) * (j < 2 ? kX[i][j] : 1) / 4;
    }
    return sum;
  }
  double GradientNorm() const {
    return std::sqrt(Gradient(0) * Gradient(0) + Gradient(1) * Gradient(1) +
                     Gradient(2) * Gradient(2));
  }
};

// Three steps of the graph beside three of `advance`, which gets the gradients
// (times `clip`, 1 or the clip factor), the learning rate and the step's
// number.
void CheckThreeSteps(const TrainOptions& options,
                     const std::function<void(Reference&, const double*, double,
                                              int)>& advance) {
  const Graph step = Step(Regression(), options);
  Reference reference;
  Tensors leaves = {{"w", {0.5, -0.25}}, {"b", {0.125}}};
  for (const double(&row)[2] : kX) {
    leaves["x"].insert(leaves["x"].end(), {row[0], row[1]});
  }
  leaves["y"] = Numbers(kY, kY + 4);
  for (const ValueId id : step.Leaves(Role::kState)) {
    const ValueInfo& info = step.value(id);
    leaves[info.name].resize(
        static_cast<size_t>(info.type.shape.num_elements()));
  }
  for (int t = 1; t <= 3; ++t) {
    const double lr = 0.1 / t;  // it may change from step to step
    leaves["lr"] = {lr};
    leaves["step"] = {static_cast<double>(t)};
    const Tensors values = Interpret(step, leaves);
    CHECK(values.at("loss")[0] == doctest::Approx(reference.Loss()));
    double clip = 1;
    if (options.clip_norm) {
      const double norm = reference.GradientNorm();
      CHECK(values.at("grad_norm")[0] == doctest::Approx(norm));
      clip = std::min(1.0, *options.clip_norm / (norm + 1e-6));
    }
    double gradients[3];
    for (int j = 0; j < 3; ++j) gradients[j] = clip * reference.Gradient(j);
    advance(reference, gradients, lr, t);
    CarryOver(step, values, &leaves);
    const double actual[3] = {leaves["w"][0], leaves["w"][1], leaves["b"][0]};
    for (int j = 0; j < 3; ++j) {
      CHECK(actual[j] == doctest::Approx(reference.p[j]).epsilon(1e-12));
    }
  }
}

TEST_CASE("three steps of SGD with decay follow the formula") {
  CheckThreeSteps({.optimizer = Sgd{.decay = 0.01}},
                  [](Reference& r, const double* g, double lr, int) {
                    for (int j = 0; j < 3; ++j)
                      r.p[j] -= lr * (g[j] + 0.01 * r.p[j]);
                  });
}

TEST_CASE("three steps of momentum follow the formula") {
  CheckThreeSteps({.optimizer = Momentum{.momentum = 0.8, .decay = 0.02}},
                  [](Reference& r, const double* g, double lr, int) {
                    for (int j = 0; j < 3; ++j) {
                      r.first[j] = 0.8 * r.first[j] + g[j] + 0.02 * r.p[j];
                      r.p[j] -= lr * r.first[j];
                    }
                  });
}

void AdvanceAdamW(Reference& r, const double* g, double lr, int t) {
  for (int j = 0; j < 3; ++j) {
    r.first[j] = 0.9 * r.first[j] + (1 - 0.9) * g[j];
    r.second[j] = 0.999 * r.second[j] + (1 - 0.999) * g[j] * g[j];
    const double m_hat = r.first[j] / (1 - std::pow(0.9, t));
    const double v_hat = r.second[j] / (1 - std::pow(0.999, t));
    r.p[j] -= lr * 0.01 * r.p[j];
    r.p[j] -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
  }
}

TEST_CASE("three steps of AdamW follow the formula") {
  CheckThreeSteps({.optimizer = AdamW{}}, AdvanceAdamW);
}

TEST_CASE(
    "three clipped steps follow the formula, whether the clip bites or not") {
  // The first gradient's norm is between 5 and 6.
  CHECK(Reference().GradientNorm() > 5);
  CHECK(Reference().GradientNorm() < 6);
  for (const double max_norm : {0.5, 100.0}) {
    CheckThreeSteps({.optimizer = AdamW{}, .clip_norm = max_norm},
                    AdvanceAdamW);
    CheckThreeSteps({.optimizer = Sgd{}, .clip_norm = max_norm},
                    [](Reference& r, const double* g, double lr, int) {
                      for (int j = 0; j < 3; ++j) r.p[j] -= lr * g[j];
                    });
  }
}

TEST_CASE(
    "a bf16 param moves as its f32 weight does, by steps it cannot tell") {
  // loss = sum w x, so that gradients are x whatever w is. Ten steps of 1e-4
  // leave w = 1 where it is, for the next bf16 number is 2^-8 away.
  const Numbers x = {1, -2, 0.5};
  const Graph forward = Build("sum", [](GraphBuilder& g) {
    const Value w = g.Param("w", kBF16, {3});
    const Value product = Mul(w, g.Input("x", kBF16, {3}));
    g.Output("loss", ReduceSum(Cast(product, kF32)));
  });
  const Graph step = Step(forward, {.optimizer = AdamW{}});
  Strings states;
  for (const ValueId id : step.Leaves(Role::kState)) {
    states.push_back(step.value(id).name + " " +
                     step.value(id).type.ToString());
  }
  CHECK(states == Strings{"w.delta i16(3)", "w.m f32(3)", "w.v f32(3)"});
  Tensors leaves = {{"w", {1, -2, 3}}, {"x", x}, {"lr", {1e-4}}};
  for (const char* state : {"w.delta", "w.m", "w.v"}) leaves[state] = {0, 0, 0};
  Reference reference{.p = {1, -2, 3}};
  for (int t = 1; t <= 10; ++t) {
    leaves["step"] = {static_cast<double>(t)};
    AdvanceAdamW(reference, x.data(), 1e-4, t);
    CarryOver(step, Interpret(step, leaves), &leaves);
    for (size_t j = 0; j < 3; ++j) {
      const auto weight =
          math::FloatToBFloat16(static_cast<float>(leaves["w"][j]));
      const auto delta = static_cast<int16_t>(leaves["w.delta"][j]);
      CHECK(math::Join({weight, delta}) ==
            doctest::Approx(reference.p[j]).epsilon(1e-6));
    }
  }
  CHECK(leaves["w"] == Numbers{1, -2, 3});
  CHECK(reference.p[0] < 0.9991);
}

// --- Names and mistakes ---

TEST_CASE("optimizers are found by the names they have") {
  for (const char* name :
       {"sgd",         "momentum", "momentum-bf16", "nesterov",   "rmsprop",
        "adagrad",     "adam",     "adamw",         "adamw-bf16", "adamw8bit",
        "flash-adamw", "nadam",    "radam",         "adamax",     "adadelta",
        "asgd",        "rprop",    "lion",          "adafactor",  "muon"}) {
    const Result<Optimizer> optimizer = ParseOptimizer(name);
    REQUIRE(optimizer.ok());
    CHECK(OptimizerName(*optimizer) == name);
  }
  CHECK(ParseOptimizer("lamb").error().message ==
        "[optimizer] there is no optimizer \"lamb\"; expected sgd, momentum, "
        "momentum-bf16, nesterov, rmsprop, adagrad, adam, adamw, adamw-bf16, "
        "adamw8bit, flash-adamw, nadam, radam, adamax, adadelta, asgd, rprop, "
        "lion, adafactor or muon");
  CHECK(NamedOptimizers().size() == 20);
}

TEST_CASE("every optimizer has a learning rate to start from") {
  CHECK(DefaultLearningRate(Sgd{}) == 0.1);
  CHECK(DefaultLearningRate(Momentum{}) == 0.02);
  CHECK(DefaultLearningRate(AdamW{}) == 0.001);
  CHECK(DefaultLearningRate(Nesterov{}) == 0.02);
  // PyTorch's defaults.
  CHECK(DefaultLearningRate(RmsProp{}) == 0.01);
  CHECK(DefaultLearningRate(Adagrad{}) == 0.01);
  CHECK(DefaultLearningRate(Adam{}) == 0.001);
  CHECK(DefaultLearningRate(NAdam{}) == 0.002);
  CHECK(DefaultLearningRate(RAdam{}) == 0.001);
  CHECK(DefaultLearningRate(Adamax{}) == 0.002);
  CHECK(DefaultLearningRate(Adadelta{}) == 1);
  CHECK(DefaultLearningRate(Asgd{}) == 0.01);
  CHECK(DefaultLearningRate(Rprop{}) == 0.01);
  CHECK(DefaultLearningRate(Adafactor{}) == 0.01);
  CHECK(DefaultLearningRate(Muon{}) == 0.001);
  // A tenth of AdamW's, as its paper advises.
  CHECK(DefaultLearningRate(Lion{}) == 0.0001);
}

TEST_CASE("states are named after their param") {
  CHECK(StateNames(Sgd{}, "w", {kF32, {5}}).empty());
  CHECK(StateNames(Momentum{}, "w", {kF32, {5}}) == Strings{"w.velocity"});
  CHECK(StateNames(AdamW{}, "fc.w", {kF32, {5}}) ==
        Strings{"fc.w.m", "fc.w.v"});
  CHECK(StateNames(Nesterov{}, "w", {kF32, {5}}) == Strings{"w.velocity"});
  CHECK(StateNames(RmsProp{}, "w", {kF32, {5}}) == Strings{"w.v"});
  CHECK(StateNames(Adagrad{}, "w", {kF32, {5}}) == Strings{"w.v"});
  CHECK(StateNames(Adam{}, "w", {kBF16, {5}}) == Strings{"w.m", "w.v"});
  CHECK(StateNames(Adam{}, "w", {DType::kF16, {5}}) ==
        Strings{"w.rest", "w.m", "w.v"});
  CHECK(StateNames(Momentum{}, "w", {kBF16, {5}}) == Strings{"w.velocity"});
  CHECK(StateNames(AdamW{}, "fc.w", {kBF16, {5}}) ==
        Strings{"fc.w.delta", "fc.w.m", "fc.w.v"});
}

TEST_CASE("moments in fewer bits have states of their own") {
  const Optimizer by_8bit = *ParseOptimizer("adamw8bit");
  const Shape large{64, 64}, small{64, 63};
  const Strings coded = {"w.m", "w.v", "w.m_scale", "w.v_scale"};
  CHECK(StateNames(by_8bit, "w", {kF32, large}) == coded);
  CHECK(StateNames(by_8bit, "w", {kF32, small}) == Strings{"w.m", "w.v"});
  const auto states = [&](const char* name, DType dtype, const Shape& shape) {
    GraphBuilder g("model");
    const Value w = g.Param("w", dtype, shape);
    g.Output("loss", g.Name("loss", Cast(ReduceSum(Square(w)), kF32)));
    const Result<Graph> forward = g.Finish();
    REQUIRE(forward.ok());
    const Result<Graph> step =
        BuildTrainStep(*forward, "loss", {.optimizer = *ParseOptimizer(name)});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    CHECK(step->Find("seed").has_value() ==
          (std::string_view(name).ends_with("-bf16")));
    Strings types;
    for (const ValueId id : step->Leaves(Role::kState)) {
      const ValueInfo& info = step->value(id);
      types.push_back(info.name + " " + info.type.ToString());
    }
    return types;
  };
  CHECK(states("adamw8bit", kF32, large) ==
        Strings{"w.m u8(64, 64)", "w.v u8(64, 64)", "w.m_scale f32(16)",
                "w.v_scale f32(16)"});
  CHECK(states("adamw8bit", kBF16, large) ==
        Strings{"w.delta u8(64, 64)", "w.m u8(64, 64)", "w.v u8(64, 64)",
                "w.m_scale f32(16)", "w.v_scale f32(16)"});
  CHECK(states("flash-adamw", kBF16, small) ==
        Strings{"w.delta u8(64, 63)", "w.m f32(64, 63)", "w.v f32(64, 63)"});
  CHECK(states("adamw-bf16", kF32, small) ==
        Strings{"w.m bf16(64, 63)", "w.v bf16(64, 63)"});
  CHECK(states("adamw-bf16", kBF16, small) ==
        Strings{"w.delta i16(64, 63)", "w.m bf16(64, 63)", "w.v bf16(64, 63)"});
  CHECK(states("momentum-bf16", kF32, small) ==
        Strings{"w.velocity bf16(64, 63)"});
  CHECK(states("momentum-bf16", kBF16, small) ==
        Strings{"w.delta i16(64, 63)", "w.velocity bf16(64, 63)"});
}

TEST_CASE("what compact states are not for is refused") {
  GraphBuilder g("model");
  const Value w = g.Param("w", DType::kF64, {64, 64});
  g.Output("loss", g.Name("loss", ReduceSum(Square(w))));
  const Result<Graph> forward = g.Finish();
  for (const char* name :
       {"momentum-bf16", "adamw-bf16", "adamw8bit", "flash-adamw"}) {
    const Result<Graph> step =
        BuildTrainStep(*forward, "loss", {.optimizer = *ParseOptimizer(name)});
    REQUIRE_FALSE(step.ok());
    CHECK(step.error().message ==
          StrCat("[optimizer] ", name,
                 " updates params in f32 or bf16; \"w\" is f64(64, 64)"));
  }
}

TEST_CASE("constants out of range have their message") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Row {
    TrainOptions options;
    const char* message;
  };
  const Row rows[] = {
      {{.optimizer = Sgd{.decay = -0.5}},
       "[optimizer] decay is -0.5; expected a finite number of at least 0"},
      {{.optimizer = Sgd{.decay = infinity}},
       "[optimizer] decay is inf; expected a finite number of at least 0"},
      {{.optimizer = Momentum{.momentum = 1}},
       "[optimizer] momentum is 1; expected at least 0 and below 1"},
      {{.optimizer = AdamW{.beta1 = -0.1}},
       "[optimizer] beta1 is -0.1; expected at least 0 and below 1"},
      {{.optimizer = AdamW{.beta2 = nan}},
       "[optimizer] beta2 is nan; expected at least 0 and below 1"},
      {{.optimizer = AdamW{.rest_bits = 12}},
       "[optimizer] rest_bits is 12; expected 8 or 16"},
      {{.optimizer = AdamW{.eps = 0}},
       "[optimizer] eps is 0; expected a finite number above 0"},
      {{.optimizer = Lion{.beta2 = 1}},
       "[optimizer] beta2 is 1; expected at least 0 and below 1"},
      {{.optimizer = Adafactor{.beta2_decay = 0}},
       "[optimizer] beta2_decay is 0; expected a finite number below 0"},
      {{.optimizer = Adafactor{.eps2 = 0}},
       "[optimizer] eps is 0; expected a finite number above 0"},
      {{.optimizer = Adafactor{.clip = -1}},
       "[optimizer] clip is -1; expected a finite number above 0"},
      {{.optimizer = Muon{.momentum = 1.5}},
       "[optimizer] momentum is 1.5; expected at least 0 and below 1"},
      {{.optimizer = Muon{.iterations = 0}},
       "[optimizer] iterations is 0; expected 1 to 100"},
      {{.optimizer = Nesterov{.momentum = -1}},
       "[optimizer] momentum is -1; expected at least 0 and below 1"},
      {{.optimizer = RmsProp{.alpha = 1}},
       "[optimizer] alpha is 1; expected at least 0 and below 1"},
      {{.optimizer = Adagrad{.eps = -1}},
       "[optimizer] eps is -1; expected a finite number above 0"},
      {{.optimizer = Adam{.decay = -1}},
       "[optimizer] decay is -1; expected a finite number of at least 0"},
      {{.clip_norm = 0.0},
       "[optimizer] clip_norm is 0; expected a finite number above 0"},
      {{.wrt = {"x"}},
       "[autodiff] cannot train \"x\", whose role is input; expected a param"},
      {{.wrt = {"v"}},
       "[autodiff] graph \"regression\" has no param or input \"v\" to "
       "differentiate by"},
  };
  for (const Row& row : rows) {
    const Result<Graph> step =
        BuildTrainStep(Regression(), "loss", row.options);
    CAPTURE(row.message);
    REQUIRE(!step.ok());
    CHECK(step.error().message == row.message);
  }
}

}  // namespace
}  // namespace stowage
