// Lion, Adafactor and Muon over 100 steps, against PyTorch and the papers' formulas:
// tests/goldens/lean_optimizers.csv, which make_lean_optimizers_goldens.py computed. What
// they keep, and which params they refuse.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "autodiff/update_rule.h"
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
  static const std::vector<Param> kParams = {{"table", {5, 4}},
                                             {"wide", {3, 5}},
                                             {"tall", {6, 3}},
                                             {"filters", {4, 2, 3, 1}},
                                             {"vector", {5}}};
  return kParams;
}

// loss = sum of s (p - target)^2 / 2 over all params, of the table over the rows that
// are looked up.
Result<Graph> Losses(DType dtype) {
  GraphBuilder g("losses");
  const Value looked_up = g.Input("looked up", DType::kI32, {7});
  Value loss;
  for (const Param& param : Params()) {
    Value p = g.Param(param.name, dtype, param.shape);
    Value target = g.Input(param.name + " target", dtype, param.shape);
    Value s = g.Input(param.name + " s", dtype, param.shape);
    if (param.name == "table") {
      p = Gather(p, looked_up);
      target = Gather(target, looked_up);
      s = Gather(s, looked_up);
    }
    const Value part =
        MulScalar(ReduceSum(Mul(s, Square(Sub(p, target)))), 0.5);
    loss = loss.ok() ? Add(loss, part) : part;
  }
  g.Output("loss", g.Name("loss", loss));
  return g.Finish();
}

// The leaves before the first step, by the script's formulas.
Tensors Leaves(const Graph& step) {
  Tensors leaves = {{"looked up", {0, 3, 1, 3, 2, 4, 0}}};
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
    leaves[info.name].resize(
        static_cast<size_t>(info.type.shape.num_elements()));
  }
  return leaves;
}

void CheckAfter(const std::vector<OpGolden>& goldens, const std::string& name,
                int t, const Tensors& leaves, size_t* compared) {
  for (const OpGolden& golden : goldens) {
    for (const Param& param : Params()) {
      if (golden.name != name || golden.what != StrCat(param.name, "@", t)) {
        continue;
      }
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
      CHECK(value == doctest::Approx(golden.value).epsilon(1e-9));
      ++*compared;
    }
  }
}

TEST_CASE("lean optimizers are those of PyTorch and of their papers") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/lean_optimizers.csv");
  const std::pair<std::string, Optimizer> optimizers[] = {
      {"lion", Lion{.decay = 0.25}},
      {"adafactor", Adafactor{.decay = 0.25}},
      {"muon", Muon{.decay = 0.25}}};
  size_t compared = 0;
  for (const auto& each : optimizers) {
    const std::string& name = each.first;
    const Optimizer& optimizer = each.second;
    CAPTURE(name);
    const Result<Graph> step =
        BuildTrainStep(*Losses(DType::kF64), "loss", {.optimizer = optimizer});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    Tensors leaves = Leaves(*step);
    for (int t = 1; t <= 100; ++t) {
      leaves["lr"] = {t <= 50 ? 0x1p-5 : 0x1p-6};
      leaves["step"] = {static_cast<double>(t)};
      if (t == 2) CheckAgainstInterpreter(*step, leaves, 1e-11);
      CarryOver(*step, Interpret(*step, leaves), &leaves);
      CheckAfter(goldens, name, t, leaves, &compared);
    }
  }
  CHECK(compared == goldens.size());
}

TEST_CASE("a matrix costs them few states, or one of its size") {
  const auto states = [](const Optimizer& optimizer) {
    std::map<std::string, std::string> types;
    const Result<Graph> step =
        BuildTrainStep(*Losses(DType::kF32), "loss", {.optimizer = optimizer});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    for (const ValueId id : step->Leaves(Role::kState)) {
      types[step->value(id).name] = step->value(id).type.ToString();
    }
    return types;
  };
  using Types = std::map<std::string, std::string>;
  CHECK(states(Lion{}) == Types{{"table.m", "f32(5, 4)"},
                                {"wide.m", "f32(3, 5)"},
                                {"tall.m", "f32(6, 3)"},
                                {"filters.m", "f32(4, 2, 3, 1)"},
                                {"vector.m", "f32(5)"}});
  CHECK(states(Adafactor{}) == Types{{"table.row_var", "f32(5, 1)"},
                                     {"table.col_var", "f32(1, 4)"},
                                     {"wide.row_var", "f32(3, 1)"},
                                     {"wide.col_var", "f32(1, 5)"},
                                     {"tall.row_var", "f32(6, 1)"},
                                     {"tall.col_var", "f32(1, 3)"},
                                     {"filters.row_var", "f32(4, 1)"},
                                     {"filters.col_var", "f32(1, 6)"},
                                     {"vector.v", "f32(5)"}});
  CHECK(states(Muon{}) == Types{{"table.m", "f32(5, 4)"},
                                {"table.v", "f32(5, 4)"},
                                {"wide.momentum", "f32(3, 5)"},
                                {"tall.momentum", "f32(6, 3)"},
                                {"filters.momentum", "f32(4, 2, 3, 1)"},
                                {"vector.m", "f32(5)"},
                                {"vector.v", "f32(5)"}});
}

// loss = the sum of p * g over all params, so that g is the gradient, exactly.
Result<Graph> Slopes(DType dtype) {
  GraphBuilder g("slopes");
  Value loss;
  for (const Param& param : Params()) {
    Value p = g.Param(param.name, dtype, param.shape);
    const Value slope = g.Input(param.name + " slope", dtype, param.shape);
    // A table of which rows are taken is another matter to Muon.
    if (param.name == "table") p = Gather(p, g.Input("rows", DType::kI32, {5}));
    const Value part = ReduceSum(Mul(p, slope));
    loss = loss.ok() ? Add(loss, part) : part;
  }
  g.Output("loss", g.Name("loss", loss));
  return g.Finish();
}

double Bf16Of(double x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(x)) &
                              0xFFFF0000);
}

// The f32 whose bits are those of `upper` and `rest` more.
double JoinedBits(double upper, double rest) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(upper));
  return std::bit_cast<float>(
      bits + static_cast<uint32_t>(static_cast<int32_t>(rest)));
}

TEST_CASE("a bf16 param and its delta are what the f32 param is") {
  for (const Optimizer& optimizer :
       {Optimizer(Lion{.decay = 0.25}), Optimizer(Adafactor{.decay = 0.25}),
        Optimizer(Muon{.decay = 0.25})}) {
    CAPTURE(OptimizerName(optimizer));
    const auto make = [&](DType dtype) {
      const Result<Graph> step = BuildTrainStep(
          *Slopes(dtype), "loss", {.optimizer = optimizer, .clip_norm = 2});
      REQUIRE_MESSAGE(step.ok(), step.error().message);
      return *step;
    };
    const Graph whole = make(DType::kF32), split = make(DType::kBF16);
    Tensors of_whole = Leaves(whole);
    for (auto& [name, values] : of_whole) {
      for (double& value : values) value = Bf16Of(value);
    }
    of_whole["rows"] = {0, 1, 2, 3, 4};
    Tensors of_split = of_whole;
    for (const ValueId id : split.Leaves(Role::kState)) {
      const ValueInfo& info = split.value(id);
      of_split[info.name].resize(
          static_cast<size_t>(info.type.shape.num_elements()));
    }
    double most_lost = 0;
    for (int t = 1; t <= 20; ++t) {
      for (const Param& param : Params()) {
        std::vector<double> slope;
        for (int64_t i = 0; i < param.shape.num_elements(); ++i) {
          slope.push_back(Bf16Of(std::sin(static_cast<double>(i + 7 * t))));
        }
        of_whole[param.name + " slope"] = slope;
        of_split[param.name + " slope"] = slope;
      }
      for (Tensors* leaves : {&of_whole, &of_split}) {
        (*leaves)["lr"] = {0x1p-8};
        (*leaves)["step"] = {static_cast<double>(t)};
      }
      CarryOver(whole, Interpret(whole, of_whole), &of_whole);
      CarryOver(split, Interpret(split, of_split, Rounding::kTo16Bits),
                &of_split);
      for (const Param& param : Params()) {
        CAPTURE(param.name);
        const std::vector<double>& want = of_whole.at(param.name);
        const std::vector<double>& upper = of_split.at(param.name);
        const std::vector<double>& rest = of_split.at(param.name + ".delta");
        for (size_t i = 0; i < want.size(); ++i) {
          // Of the f32, whose roundings add up; a bf16 would lose 2^-9.
          CHECK(JoinedBits(upper[i], rest[i]) ==
                doctest::Approx(want[i]).epsilon(0x1p-18));
          most_lost = std::max(most_lost, std::abs(upper[i] - want[i]));
        }
      }
    }
    CHECK(most_lost > 0x1p-12);  // so that the bits of deltas matter
  }
}

TEST_CASE("in f16, what rounding would lose is refused") {
  const std::pair<Optimizer, const char*> rows[] = {
      {Lion{}, "lion updates params in f32, bf16 or f64; \"vector\" is f16(5)"},
      {Adafactor{},
       "adafactor updates params in f32, bf16 or f64; \"vector\" is f16(5)"},
      {Muon{},
       "muon updates params in f32, bf16 or f64; \"filters\" is "
       "f16(4, 2, 3, 1)"}};
  for (const auto& [optimizer, message] : rows) {
    const Result<Graph> step =
        BuildTrainStep(*Losses(DType::kF16), "loss", {.optimizer = optimizer});
    REQUIRE(!step.ok());
    CHECK(step.error().message == StrCat("[optimizer] ", message));
  }
}

}  // namespace
}  // namespace stowage
