// PyTorch's optimizers with settings that are not their defaults, each param with its own rate
// at every step, and some with a momentum that changes: 30 steps against PyTorch's
// (tests/goldens/torch_optimizers.csv, which make_torch_optimizers_goldens.py computed).

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/step_scalars.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/golden_rows.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

struct Param {
  std::string name;
  Shape shape;
};
const std::vector<Param>& Params() {
  static const std::vector<Param> kParams = {{"filters", {2, 3, 2, 2}},
                                             {"vector", {5}}};
  return kParams;
}

struct Case {
  Optimizer optimizer;
  bool cycles = false;
  bool maximizes = false;
};
const std::map<std::string, Case>& Cases() {
  static const std::map<std::string, Case> kCases = {
      {"sgd", {Sgd{.decay = 0.1}}},
      {"dampened",
       {Momentum{.momentum = 0.8, .decay = 0.1, .dampening = 0.25}}},
      {"ascending",
       {Momentum{.momentum = 0.5, .decay = 0.5}, false, /*maximizes=*/true}},
      {"cycled momentum", {Momentum{.decay = 0.1}, /*cycles=*/true}},
      {"cycled nesterov", {Nesterov{}, true}},
      {"centered",
       {RmsProp{
           .alpha = 0.9, .decay = 0.1, .momentum = 0.5, .centered = true}}},
      {"cycled rmsprop", {RmsProp{}, true}},
      {"adagrad",
       {Adagrad{.eps = 1e-3, .decay = 0.1, .lr_decay = 0.1, .initial = 0.25}}},
      {"adam",
       {Adam{.beta1 = 0.8, .beta2 = 0.9, .decay = 0.1, .amsgrad = true}}},
      {"adamw",
       {AdamW{.beta1 = 0.8, .beta2 = 0.9, .decay = 0.1, .amsgrad = true}}},
      {"cycled adamw", {AdamW{.beta1 = 0.8, .beta2 = 0.9, .decay = 0.1}, true}},
      {"nadam", {NAdam{.decay = 0.1, .momentum_decay = 0.01}}},
      {"cycled nadam", {NAdam{.decay = 0.1, .is_decoupled = true}, true}},
      {"radam", {RAdam{.beta2 = 0.95, .decay = 0.1}}},
      {"short radam",
       {RAdam{.beta2 = 0.5, .decay = 0.1, .is_decoupled = true}}},
      {"adamax", {Adamax{.beta2 = 0.9, .decay = 0.1}}},
      {"adadelta", {Adadelta{.rho = 0.8, .eps = 1e-3, .decay = 0.1}}},
      {"asgd", {Asgd{.lambd = 0.1, .alpha = 0.6, .t0 = 4, .decay = 0.1}}},
      {"rprop",
       {Rprop{.eta_minus = 0.4,
              .eta_plus = 1.3,
              .min_step = 0.01,
              .max_step = 0.1}}},
      {"adafactor",
       {Adafactor{
           .eps1 = 1e-3, .eps2 = 1e-2, .decay = 0.1, .by_last_axes = true}}}};
  return kCases;
}

// loss = sum of s (p - target)^2 / 2
Graph Losses() {
  GraphBuilder g("losses");
  Value loss;
  for (const Param& param : Params()) {
    const Value p = g.Param(param.name, DType::kF64, param.shape);
    const Value target =
        g.Input(param.name + " target", DType::kF64, param.shape);
    const Value s = g.Input(param.name + " s", DType::kF64, param.shape);
    const Value part =
        MulScalar(ReduceSum(Mul(s, Square(Sub(p, target)))), 0.5);
    loss = loss.ok() ? Add(loss, part) : part;
  }
  g.Output("loss", g.Name("loss", loss));
  return *g.Finish();
}

Graph StepOf(const Case& of) {
  TrainOptions options = {.optimizer = of.optimizer};
  for (const Param& param : Params()) {
    options.groups.push_back({.pattern = param.name,
                              .maximize = of.maximizes,
                              .name = param.name,
                              .inputs = {.lr = true, .momentum = of.cycles}});
  }
  const Result<Graph> step = BuildTrainStep(Losses(), "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

// The formulas of the script.
Tensors Leaves(const Graph& step) {
  Tensors leaves;
  for (size_t k = 0; k < Params().size(); ++k) {
    const auto& [name, shape] = Params()[k];
    const auto part = static_cast<double>(k);
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const auto at = static_cast<double>(i);
      leaves[name].push_back(std::sin(at + 1 + 10 * part));
      leaves[name + " target"].push_back(std::cos(2 * at + part));
      leaves[name + " s"].push_back(0.5 + 0.25 * std::sin(3 * at + part));
    }
  }
  for (const ValueId id : step.Leaves(Role::kState)) {
    const ValueInfo& info = step.value(id);
    const bool is_constant = info.init.kind == Init::Kind::kConstant;
    leaves[info.name].assign(
        static_cast<size_t>(info.type.shape.num_elements()),
        is_constant ? info.init.scale : 0);
  }
  return leaves;
}

void WriteStep(int t, Tensors* leaves) {
  (*leaves)["step"] = {static_cast<double>(t)};
  const double momentum = t % 5 == 0 ? 0 : 0.75 + 0.125 * std::cos(t);
  for (size_t k = 0; k < Params().size(); ++k) {
    const auto turn = static_cast<double>(1 + k);
    (*leaves)["lr:" + Params()[k].name] = {turn * 0x1p-6 *
                                           (1 + std::cos(t * turn) / 2)};
    (*leaves)["momentum:" + Params()[k].name] = {momentum};
  }
}

TEST_CASE("every setting and rate of PyTorch's optimizers is followed") {
  std::map<std::string, std::vector<OpGolden>> goldens;
  for (const OpGolden& golden :
       ReadOpGoldens("tests/goldens/torch_optimizers.csv")) {
    goldens[golden.name].push_back(golden);
  }
  CHECK(goldens.size() == Cases().size());
  for (const auto& each : Cases()) {
    const std::string& name = each.first;
    CAPTURE(name);
    const Graph step = StepOf(each.second);
    Tensors leaves = Leaves(step);
    size_t compared = 0;
    for (int t = 1; t <= 30; ++t) {
      WriteStep(t, &leaves);
      if (t == 3) CheckAgainstInterpreter(step, leaves, 1e-11);
      CarryOver(step, Interpret(step, leaves), &leaves);
      for (const OpGolden& golden : goldens[name]) {
        for (const Param& param : Params()) {
          if (golden.what != StrCat(param.name, "@", t)) continue;
          const std::vector<double>& values = leaves.at(param.name);
          double value = 0;
          if (golden.index == "norm2") {
            for (const double w : values) value += w * w;
            value = std::sqrt(value);
          } else {
            value = values.at(std::stoul(golden.index));
          }
          CAPTURE(golden.what);
          CAPTURE(golden.index);
          CHECK(value == doctest::Approx(golden.value).epsilon(1e-10));
          ++compared;
        }
      }
    }
    CHECK(compared == goldens[name].size());
    CHECK(compared > 0);
  }
}

TEST_CASE("RAdam's rectification keeps its digits in f32") {
  for (const double beta : {0.999, 0.9999}) {
    GraphBuilder g("radam");
    const Value w = g.Param("w", DType::kF32, {1});
    StepScalars scalars(&g, DType::kF32);
    EmitUpdate(RAdam{.beta1 = 0, .beta2 = beta}, {.param = "w", .elements = 1},
               w, g.Input("g", DType::kF32, {1}),
               {.lr = g.Input("lr", DType::kF32, {}),
                .step = g.Input("step", DType::kI64, {}),
                .scale = Value(),
                .scalars = &scalars});
    g.Output("y", *g.Find("new:w"));
    const Graph graph = *g.Finish();
    for (const int t : {1, 5, 6, 7, 50, 124, 126, 1000, 30000}) {
      CAPTURE(beta);
      CAPTURE(t);
      // The second moment of gradients of 1, and Liu et al. 2020, algorithm 2.
      const auto b = static_cast<long double>(beta);
      const long double power = std::pow(b, t);
      const long double limit = 2 / (1 - b) - 1;
      const long double length = limit - 2 * t * power / (1 - power);
      const long double factor = (length - 4) * (length - 2) * limit /
                                 ((limit - 4) * (limit - 2) * length);
      const double v = static_cast<double>(1 - std::pow(b, t - 1));
      const CpuRun run = RunOnCpu(graph, {{"w", {0}},
                                          {"w.m", {0}},
                                          {"w.v", {v}},
                                          {"g", {1}},
                                          {"lr", {1}},
                                          {"step", {static_cast<double>(t)}}});
      const double wanted =
          length > 5 ? static_cast<double>(std::sqrt(factor)) : 1;
      CHECK(run.values.at("y")[0] / -wanted ==
            doctest::Approx(1).epsilon(1e-6));
    }
  }
}

}  // namespace
}  // namespace stowage
