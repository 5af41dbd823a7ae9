// Optimizer updates on the CPU: over several chunks; and of split or low-precision numbers over
// 100 steps, against tests/goldens/compact_optimizers.csv (make_compact_optimizers_goldens.py).
// Threads and the placement of operands change no bit; non-finite numbers are reported.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/element_groups.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "math/optimizer.h"
#include "math/small_floats.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/golden_rows.h"
#include "tests/support/interpret.h"

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

// --- Split and low-precision numbers --------------------------------------------------

constexpr int64_t kSize = 600;  // three blocks, the last one not full
constexpr AdamWOptions kAdamW = {.beta2 = 0.99, .decay = 0.1};
constexpr int64_t kId = 7;

// One update of "w", whose states are called as in a training step.
Graph Update(const std::string& states, const std::string& weight,
             int64_t size = kSize) {
  return MakeGraph("update", [&](GraphBuilder& g) {
    const Shape shape{size};
    const bool splits = weight != "whole";
    const DType dtype = splits ? DType::kBF16 : DType::kF32;
    const auto state = [&](const char* name, DType type) {
      return g.State(name, type, shape);
    };
    const Value w = g.Param("w", dtype, shape);
    const DType rest = weight == "short" ? DType::kU8 : DType::kI16;
    const Value delta = splits ? state("delta", rest) : Value();
    const Value dw = g.Input("g", dtype, shape);
    const Value lr = g.Input("lr", DType::kF32, {});
    const Value step = g.Input("step", DType::kI64, {});
    const Value seed = g.Input("seed", DType::kI64, {});
    const auto give = [&](const char* name, Value value) {
      if (value.ok()) g.Output(name, value);
    };
    if (states == "momentum bf16") {
      const Value velocity = state("velocity", DType::kBF16);
      if (splits) {
        const MomentumSplitResults r = MomentumBf16SplitUpdate(
            w, delta, velocity, dw, lr, step, seed, Value(), 0.9, 0.1, {kId});
        give("new w", r.w);
        give("new delta", r.delta);
        give("new velocity", r.velocity);
      } else {
        const MomentumResults r = MomentumBf16Update(
            w, velocity, dw, lr, step, seed, Value(), 0.9, 0.1, {kId});
        give("new w", r.w);
        give("new velocity", r.velocity);
      }
      return;
    }
    const DType kept = states == "adamw full"   ? DType::kF32
                       : states == "adamw bf16" ? DType::kBF16
                                                : DType::kU8;
    const Value m = state("m", kept), v = state("v", kept);
    if (kept == DType::kU8) {
      const auto code = states == "adamw companded" ? MomentCode::kCompanded
                                                    : MomentCode::kDynamic;
      const Moments8Bit moments = {
          m, v, g.State("m_scale", DType::kF32, MomentScales(shape)),
          g.State("v_scale", DType::kF32, MomentScales(shape))};
      const AdamW8BitResults r =
          splits ? AdamW8BitSplitUpdate(w, delta, moments, dw, lr, step,
                                        Value(), kAdamW, code)
                 : AdamW8BitUpdate(w, moments, dw, lr, step, Value(), kAdamW,
                                   code);
      give("new w", r.w);
      give("new delta", r.delta);
      give("new m", r.moments.m);
      give("new v", r.moments.v);
      give("new m_scale", r.moments.m_scale);
      give("new v_scale", r.moments.v_scale);
      return;
    }
    if (!splits) {
      const AdamWResults r =
          AdamWBf16Update(w, m, v, dw, lr, step, seed, Value(), kAdamW, {kId});
      give("new w", r.w);
      give("new m", r.m);
      give("new v", r.v);
      return;
    }
    const AdamWSplitResults r =
        kept == DType::kF32
            ? AdamWSplitUpdate(w, delta, m, v, dw, lr, step, Value(),
                               kAdamW.beta1, kAdamW.beta2, kAdamW.eps,
                               kAdamW.decay)
            : AdamWBf16SplitUpdate(w, delta, m, v, dw, lr, step, seed, Value(),
                                   kAdamW, {kId});
    give("new w", r.w);
    give("new delta", r.delta);
    give("new m", r.m);
    give("new v", r.v);
  });
}

double NearestBf16(double x) {
  return math::BFloat16ToFloat(math::FloatToBFloat16(static_cast<float>(x)));
}

// The leaves before the first step, and the gradient of each, by the script's
// formulas.
Tensors Leaves(const Graph& graph, const std::string& weight) {
  Tensors leaves;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    leaves[info.name].resize(
        static_cast<size_t>(info.type.shape.num_elements()));
  }
  for (size_t i = 0; i < leaves["w"].size(); ++i) {
    const double w = std::sin(static_cast<double>(i) + 1);
    leaves["w"][i] = weight == "whole" ? w : NearestBf16(w);
  }
  leaves["seed"] = {12345678901};
  return leaves;
}
void SetStep(int step, const std::string& weight, Tensors* leaves) {
  (*leaves)["lr"] = {step <= 50 ? 0x1p-5 : 0x1p-6};
  (*leaves)["step"] = {static_cast<double>(step)};
  std::vector<double>& g = (*leaves)["g"];
  for (size_t i = 0; i < g.size(); ++i) {
    const auto at = static_cast<double>(i);
    const double size = std::pow(10.0, -static_cast<double>(i % 4));
    g[i] = i % 11 == 5 ? 0 : size * std::sin(0.37 * at + 1.3 * step);
    if (weight != "whole") g[i] = NearestBf16(g[i]);
  }
}

struct Case {
  const char* states;
  const char* weight;
};
constexpr Case kCases[] = {
    {"adamw full", "long"},       {"adamw full", "short"},
    {"adamw bf16", "whole"},      {"adamw bf16", "long"},
    {"adamw bf16", "short"},      {"adamw dynamic", "whole"},
    {"adamw dynamic", "long"},    {"adamw dynamic", "short"},
    {"adamw companded", "whole"}, {"adamw companded", "long"},
    {"adamw companded", "short"}, {"momentum bf16", "whole"},
    {"momentum bf16", "long"},    {"momentum bf16", "short"}};

TEST_CASE("what is kept in few bits becomes over 100 steps what it should") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/compact_optimizers.csv");
  size_t compared = 0;
  for (const auto& [states, weight] : kCases) {
    const std::string name = StrCat(states, " ", weight);
    CAPTURE(name);
    const Graph graph = Update(states, weight);
    Tensors leaves = Leaves(graph, weight);
    for (int t = 1; t <= 100; ++t) {
      SetStep(t, weight, &leaves);
      // The kernel's bytes are the interpreter's, but where an f32's error tips one.
      if (t == 2) CheckAgainstInterpreter(graph, leaves, 1.0 / 250);
      CarryOver(graph, Interpret(graph, leaves, Rounding::kTo16Bits), &leaves);
      for (const OpGolden& golden : goldens) {
        if (golden.name != name || golden.what != StrCat("w@", t)) continue;
        const std::vector<double>& w = leaves.at("w");
        double value = 0;
        if (golden.index == "norm2") {
          for (const double x : w) value += x * x;
          value = std::sqrt(value);
        } else {
          value = w.at(std::stoul(golden.index));
        }
        CAPTURE(golden.what);
        CAPTURE(golden.index);
        // An element halfway between two numbers may have the other one there.
        CHECK(value == doctest::Approx(golden.value).epsilon(2e-5));
        ++compared;
      }
    }
  }
  CHECK(compared == goldens.size());
}

TEST_CASE("threads and chunks change no bit of compact states") {
  constexpr int64_t kMany = 3 * 16384 + 1001;
  for (const Case& c : kCases) {
    const std::string states = c.states, weight = c.weight;
    CAPTURE(states);
    CAPTURE(weight);
    const Graph graph = Update(states, weight, kMany);
    Tensors leaves = Leaves(graph, weight);
    SetStep(3, weight, &leaves);
    CpuRun one = RunOnCpu(graph, leaves, {.threads = 1});
    REQUIRE(one.code == StepCode::kOk);
    for (const int threads : {2, 5}) {
      CHECK(RunOnCpu(graph, leaves, {.threads = threads}).bytes == one.bytes);
    }
  }
}

TEST_CASE("a gradient that is not finite makes its block not finite") {
  for (const char* states : {"adamw dynamic", "adamw companded"}) {
    for (const double bad : {std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
      CAPTURE(states);
      CAPTURE(bad);
      const Graph graph = Update(states, "whole");
      Tensors leaves = Leaves(graph, "whole");
      SetStep(1, "whole", &leaves);
      leaves["g"][300] = bad;
      CpuRun run = RunOnCpu(graph, leaves);
      CHECK(std::isfinite(run.values["new m_scale"][0]));
      CHECK_FALSE(std::isfinite(run.values["new m_scale"][1]));
      CHECK_FALSE(std::isfinite(run.values["new v_scale"][1]));
      CHECK(std::isfinite(run.values["new v_scale"][2]));
      CHECK_FALSE(std::isfinite(run.values["new w"][300]));
    }
  }
}

TEST_CASE("a second moment that is not 0 stays so, and zeros stay zeros") {
  for (const char* states : {"adamw dynamic", "adamw companded"}) {
    CAPTURE(states);
    const Graph graph = Update(states, "whole", 4);
    Tensors leaves = Leaves(graph, "whole");
    SetStep(1, "whole", &leaves);
    leaves["g"] = {1, 1e-8, 0, -1};
    CpuRun run = RunOnCpu(graph, leaves);
    CHECK(run.values["new v"] == std::vector<double>{255, 1, 0, 255});
    CHECK(run.values["new m"][1] == 0);
    CHECK(run.values["new m"][2] == 0);
    leaves["g"] = {0, 0, 0, 0};
    run = RunOnCpu(graph, leaves);
    CHECK(run.values["new v_scale"] == std::vector<double>{0});
    CHECK(run.values["new v"] == std::vector<double>{0, 0, 0, 0});
  }
}

TEST_CASE(
    "bf16 moments are right on average, and as the seed and the step say") {
  // Of one value between two bf16 numbers, a quarter of the way up.
  constexpr int64_t kMany = 40000;
  const Graph graph = Update("momentum bf16", "whole", kMany);
  Tensors leaves = Leaves(graph, "whole");
  SetStep(1, "whole", &leaves);
  leaves["w"].assign(kMany, 0);
  leaves["g"].assign(kMany, 1 + 0x1p-9);
  const auto velocities = [&](double seed, double step) {
    leaves["seed"] = {seed};
    leaves["step"] = {step};
    return RunOnCpu(graph, leaves).values["new velocity"];
  };
  const std::vector<double> rounded = velocities(1, 1);
  double mean = 0;
  for (const double x : rounded) {
    REQUIRE((x == 1 || x == 1 + 0x1p-7));
    mean += x / kMany;
  }
  // Three standard deviations of the mean.
  CHECK(std::abs(mean - (1 + 0x1p-9)) < 3 * 0x1p-7 * std::sqrt(0.1875 / kMany));
  CHECK(velocities(1, 1) == rounded);
  CHECK(velocities(2, 1) != rounded);
  CHECK(velocities(1, 2) != rounded);
}

}  // namespace
}  // namespace stowage
