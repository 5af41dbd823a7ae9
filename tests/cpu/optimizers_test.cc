// Updates of params on the CPU over several chunks.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "ir/builder.h"
#include "ir/ops.h"
#include "math/small_floats.h"
#include "math/split_master.h"
#include "tests/cpu/check_graph.h"
#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

TEST_CASE("optimizers update in place over several chunks") {
  for (const Precision p : {kF32, kF64}) {
    const Shape shape{40001};
    const Graph graph = MakeGraph("updates", [&](GraphBuilder& g) {
      const auto param = [&](const char* name) {
        return g.Param(name, p.dtype, shape);
      };
      const auto state = [&](const char* name) {
        return g.State(name, p.dtype, shape);
      };
      const Value gradient = g.Input("g", p.dtype, shape);
      const Value lr = g.Input("lr", DType::kF32, {});
      const Value scale = g.Input("scale", DType::kF32, {});
      const Value step = g.Input("step", DType::kI64, {});
      g.Output("new w1", SgdUpdate(param("w1"), gradient, lr, Value(), 0.1));
      const MomentumResults momentum = MomentumUpdate(
          param("w2"), state("u"), gradient, lr, scale, 0.9, 0.1);
      g.Output("new w2", momentum.w);
      g.Output("new u", momentum.velocity);
      const AdamWResults adamw =
          AdamWUpdate(param("w3"), state("m"), state("v"), gradient, lr, step,
                      scale, 0.9, 0.999, 1e-8, 0.01);
      g.Output("new w3", adamw.w);
      g.Output("new m", adamw.m);
      g.Output("new v", adamw.v);
    });
    Tensors leaves = RandomLeaves(graph);
    for (double& x : leaves["v"]) x = std::abs(x);
    leaves["lr"] = {0.125};
    leaves["step"] = {3};
    leaves["scale"] = {0.75};
    CheckAgainstInterpreter(graph, leaves, p.tolerance);
  }
}

TEST_CASE("a split f32 weight moves bit for bit as a whole one does") {
  const Shape shape{40001};
  const auto build = [&](bool splits) {
    return MakeGraph("updates", [&](GraphBuilder& g) {
      const Value w = g.Param("w", splits ? DType::kBF16 : DType::kF32, shape);
      const Value m = g.State("m", DType::kF32, shape);
      const Value v = g.State("v", DType::kF32, shape);
      const Value lr = g.Input("lr", DType::kF32, {});
      const Value scale = g.Input("scale", DType::kF32, {});
      const Value step = g.Input("step", DType::kI64, {});
      const Value dw = g.Input("g", w.dtype(), shape);
      if (splits) {
        const AdamWSplitResults results =
            AdamWSplitUpdate(w, g.State("delta", DType::kI16, shape), m, v, dw,
                             lr, step, scale, 0.9, 0.999, 1e-8, 0.01);
        g.Output("new w", results.w);
        g.Output("new delta", results.delta);
        g.Output("new m", results.m);
        g.Output("new v", results.v);
      } else {
        const AdamWResults results =
            AdamWUpdate(w, m, v, dw, lr, step, scale, 0.9, 0.999, 1e-8, 0.01);
        g.Output("new w", results.w);
        g.Output("new m", results.m);
        g.Output("new v", results.v);
      }
    });
  };
  const Graph split = build(true);
  Tensors leaves = RandomLeaves(split);
  for (double& x : leaves["v"]) x = std::abs(x);
  leaves["lr"] = {0.125};
  leaves["step"] = {3};
  leaves["scale"] = {0.75};
  Tensors whole_leaves = leaves;
  std::mt19937_64 random(3);
  for (size_t i = 0; i < leaves["w"].size(); ++i) {
    const double master = static_cast<double>(random() >> 40) * 0x1p-23 - 1;
    const math::SplitMaster parts = math::Split(static_cast<float>(master));
    whole_leaves["w"][i] = master;
    leaves["w"][i] = math::BFloat16ToFloat(parts.weight);
    leaves["delta"][i] = parts.delta;
  }
  // Of w: 8 bits. The rest of a weight near 0, where large numbers cancel, depends on
  // whether the machine rounds a product before its sum; bits are compared below.
  CheckAgainstInterpreter(split, leaves, 0.1);
  CpuRun run = RunOnCpu(split, leaves);
  CpuRun whole = RunOnCpu(build(false), whole_leaves);
  int64_t wrong = 0;
  for (size_t i = 0; i < leaves["w"].size(); ++i) {
    const auto weight =
        math::FloatToBFloat16(static_cast<float>(run.values["new w"][i]));
    const auto delta = static_cast<int16_t>(run.values["new delta"][i]);
    wrong += math::Join({weight, delta}) != whole.values["new w"][i];
  }
  CHECK(wrong == 0);
  CHECK(run.bytes["new m"] == whole.bytes["new m"]);
  CHECK(run.bytes["new v"] == whole.bytes["new v"]);
}

}  // namespace
}  // namespace stowage
