#include "tests/cpu/op_goldens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "runtime/kernel.h"
#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

// The formula of make_goldens.py.
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

std::vector<double> Values(const std::string& name, const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    values.push_back(static_cast<double>(Bits(name, i) >> 11) * 0x1p-52 - 1.0);
  }
  return values;
}

// Forward and backward, of a loss that weighs each element of y.
Graph WithGradients(const GoldenCase& c, Shape* y_shape) {
  GraphBuilder g(c.name);
  std::vector<Value> operands;
  for (const auto& [name, shape] : c.operands) {
    operands.push_back(g.Param(name, DType::kF64, shape));
  }
  const Value y = g.Name("y", c.build(g, operands));
  REQUIRE(y.ok());
  *y_shape = y.shape();
  const Value weights = g.Input("weights", DType::kF64, y.shape());
  g.Output("y", y);
  g.Output("loss", ReduceSum(Mul(y, weights)));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const auto backward = BuildBackward(*forward, "loss");
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  const auto linked = LinkBackward(*forward, *backward, "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  return *linked;
}

}  // namespace

size_t CompareOp(const std::vector<OpGolden>& goldens, const GoldenCase& c) {
  Shape y;
  const Graph graph = WithGradients(c, &y);
  Tensors leaves = c.others;
  leaves["weights"] = Values(c.name + " weights", y);
  for (const auto& operand : c.operands) {
    leaves[operand.first] =
        Values(c.name + " " + operand.first, operand.second);
  }
  const CpuRun run = RunOnCpu(graph, leaves);
  REQUIRE(run.code == StepCode::kOk);
  const Tensors interpreted = Interpret(graph, leaves);
  size_t compared = 0;
  for (const Tensors* values : {&interpreted, &run.values}) {
    for (const OpGolden& row : goldens) {
      if (row.name != c.name) continue;
      INFO(c.name << " " << row.what << " " << row.index);
      const std::vector<double>& have =
          values->at(row.what == "y" ? "y" : "grad:" + row.what.substr(1));
      double value = 0;
      if (row.index == "norm2") {
        for (const double element : have) value += element * element;
        value = std::sqrt(value);
      } else {
        value = have.at(static_cast<size_t>(std::stoll(row.index)));
      }
      CHECK(std::abs(value - row.value) <=
            1e-12 * std::max(1.0, std::abs(row.value)));
      ++compared;
    }
  }
  return compared;
}

}  // namespace stowage
