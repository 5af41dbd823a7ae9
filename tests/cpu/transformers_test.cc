// The CPU kernels of rms_norm, rope and glu at sizes that reach several chunks and
// ragged ends. (The op test table's cases are small.)

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

// f32 numbers between -1 and 1, integers from 0 to 100,000.
void CheckGraph(const std::string& name, double tolerance,
                const std::function<void(GraphBuilder&)>& build) {
  CAPTURE(name);
  GraphBuilder builder(name);
  build(builder);
  const Result<Graph> graph = builder.Finish();
  REQUIRE(graph.ok());
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> real(-1, 1);
  Tensors leaves;
  for (const ValueInfo& value : graph->values()) {
    if (!value.is_leaf()) continue;
    std::vector<double>& x = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      x.push_back(IsFloat(value.type.dtype)
                      ? static_cast<double>(real(random))
                      : static_cast<double>(random() % 100'000));
    }
  }
  CheckAgainstInterpreter(*graph, leaves, tolerance);
}

struct Precision {
  DType dtype;
  double tolerance;
};
constexpr Precision kPrecisions[] = {{DType::kF32, 2e-5}, {DType::kF64, 1e-12}};

TEST_CASE("rows of any length and number are normalized by their squares") {
  for (const Precision p : kPrecisions) {
    for (const Shape& shape :
         {Shape{3, 1}, Shape{5, 7}, Shape{700, 80}, Shape{31, 2100}}) {
      CheckGraph(StrCat("rms_norm ", shape.ToString()), p.tolerance,
                 [&](GraphBuilder& g) {
                   const Value x = g.Input("x", p.dtype, shape);
                   const Value gamma = g.Input("gamma", p.dtype, {shape[1]});
                   g.Output("y", RmsNorm(x, gamma));
                   const RmsNormGrads grads = RmsNormGrad(
                       x, gamma, g.Input("rstd", p.dtype, {shape[0]}),
                       g.Input("dy", p.dtype, shape));
                   g.Output("dx", grads.dx);
                   g.Output("dgamma", grads.dgamma);
                 });
    }
  }
}

TEST_CASE("rope turns many heads, of each example at its own positions") {
  for (const bool interleaved : {false, true}) {
    CheckGraph("rope in f64", 1e-10, [&](GraphBuilder& g) {
      const Value x = g.Input("x", DType::kF64, {3, 41, 7, 70});
      const Value at = g.Input("at", DType::kI32, {3, 41});
      g.Output("y", Rope(x, at, {.dims = 50, .interleaved = interleaved}));
    });
    CheckGraph("rope in f32", 1e-6, [&](GraphBuilder& g) {
      const Value x = g.Input("x", DType::kF32, {2, 300, 9, 32});
      g.Output("y", Rope(Slice(x, 2, 1, 9, 3), Value(),
                         {.base = 5e5, .interleaved = interleaved}));
    });
  }
}

TEST_CASE("rope in f32 has six digits at position 8191, as at the first") {
  CheckGraph("rope of 8192 positions", 1e-6, [](GraphBuilder& g) {
    g.Output("y", Rope(g.Input("x", DType::kF32, {1, 8192, 1, 64})));
  });
}

TEST_CASE("gates cross chunks") {
  for (const Precision p : kPrecisions) {
    for (const GluActivation activation :
         {GluActivation::kSilu, GluActivation::kGeluTanh,
          GluActivation::kGeluErf}) {
      CheckGraph("glu", p.tolerance, [&](GraphBuilder& g) {
        const Value gate = g.Input("gate", p.dtype, {321, 123});
        const Value up = g.Input("up", p.dtype, {321, 123});
        g.Output("y", Glu(gate, up, activation));
        const GluGrads grads =
            GluGrad(gate, up, g.Input("dy", p.dtype, {321, 123}), activation);
        g.Output("dgate", grads.dgate);
        g.Output("dup", grads.dup);
      });
    }
  }
}

}  // namespace
}  // namespace stowage
