// Convolutions and their gradients against PyTorch's, by the interpreter and by
// the CPU's kernels in f64: tests/goldens/convolutions.csv, which
// make_conv_goldens.py computed.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "runtime/kernel.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

// --- The formula of make_goldens.py ----------------------------------------

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

// --- Goldens -----------------------------------------------------------------

struct GoldenRow {
  std::string name, what, index;
  double value;
};

std::vector<GoldenRow> ReadGoldens() {
  std::ifstream in("tests/goldens/convolutions.csv");
  std::string line;
  REQUIRE(std::getline(in, line));
  REQUIRE(line == "case,what,index,value");
  std::vector<GoldenRow> rows;
  while (std::getline(in, line)) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ',') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    REQUIRE(fields.size() == 4);
    rows.push_back({fields[0], fields[1], fields[2], std::stod(fields[3])});
  }
  return rows;
}

struct Case {
  const char* name;
  Shape x, w;
  std::function<Value(Value, Value)> build;
};

// Those of the script.
std::vector<Case> Cases() {
  const auto conv = [](ConvOptions options) {
    return [options](Value x, Value w) { return Conv(x, w, options); };
  };
  const auto transposed = [](ConvTransposeOptions options) {
    return [options](Value x, Value w) { return ConvTranspose(x, w, options); };
  };
  return {
      {"conv plain", {2, 3, 8, 7}, {4, 3, 3, 2}, conv({})},
      {"conv strides and dilation",
       {2, 4, 9, 10},
       {6, 2, 3, 3},
       conv({.stride = {2, 1},
             .padding = {1, 2},
             .dilation = {1, 2},
             .groups = 2})},
      {"conv depthwise",
       {2, 5, 7, 7},
       {5, 1, 3, 3},
       conv({.stride = 2, .padding = 1, .groups = 5})},
      {"conv one dimension",
       {3, 2, 11},
       {4, 2, 4},
       conv({.stride = 3, .padding = 2})},
      {"conv three dimensions",
       {1, 2, 4, 5, 6},
       {3, 2, 2, 3, 2},
       conv({.stride = {1, 2, 1}, .padding = {1, 0, 1}})},
      {"transposed twofold",
       {2, 6, 4, 5},
       {6, 3, 2, 2},
       transposed({.stride = 2})},
      {"transposed with output padding",
       {2, 4, 5, 4},
       {4, 3, 3, 3},
       transposed({.stride = {2, 3},
                   .padding = 1,
                   .groups = 2,
                   .output_padding = {1, 2}})},
      {"transposed with dilation",
       {1, 3, 6},
       {3, 2, 3},
       transposed({.stride = 2, .padding = 1, .dilation = 2})},
  };
}

// Forward and backward, of a loss that weighs each element of y.
Graph WithGradients(const Case& c, Shape* y_shape) {
  GraphBuilder g(c.name);
  const Value x = g.Param("x", DType::kF64, c.x);
  const Value w = g.Param("w", DType::kF64, c.w);
  const Value y = g.Name("y", c.build(x, w));
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

TEST_CASE("convolutions and their gradients are PyTorch's") {
  const std::vector<GoldenRow> goldens = ReadGoldens();
  size_t compared = 0;
  for (const Case& c : Cases()) {
    const std::string name = c.name;
    Shape y;
    const Graph graph = WithGradients(c, &y);
    const Tensors leaves = {{"x", Values(name + " x", c.x)},
                            {"w", Values(name + " w", c.w)},
                            {"weights", Values(name + " weights", y)}};
    const CpuRun run = RunOnCpu(graph, leaves);
    REQUIRE(run.code == StepCode::kOk);
    const Tensors interpreted = Interpret(graph, leaves);
    for (const Tensors* values : {&interpreted, &run.values}) {
      for (const GoldenRow& row : goldens) {
        if (row.name != name) continue;
        INFO(name << " " << row.what << " " << row.index);
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
  }
  CHECK(compared == 2 * goldens.size());
}

}  // namespace
}  // namespace stowage
