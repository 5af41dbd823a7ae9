// Nets that torch.onnx exported (tests/goldens/make_onnx_goldens.py): what they give,
// and five steps of training, are PyTorch's; within the smallest budget, too.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "onnx/onnx.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/onnx/run_onnx.h"
#include "train/training.h"

namespace stowage {
namespace {

constexpr char kFolder[] = "tests/goldens/onnx/";

struct Net {
  std::string name, exporter;
  std::string first =
      {};  // what the first dimension is called, if it has a name
};

const std::vector<Net>& Nets() {
  static const auto& nets = *new std::vector<Net>{
      {"images", "dynamo", "batch"},
      {"images", "script", "batch"},
      {"recurrent", "dynamo"},
      {"recurrent", "script"},
      {"vit", "dynamo"},
      {"vit", "script"},
      {"gpt2", "dynamo"},
      {"llama", "dynamo"},
      {"bert", "dynamo"},
      {"bert", "script"},
      {"looped", "script", "time"},
      {"scanned", "dynamo"},
  };
  return nets;
}

Array Golden(const Net& net, std::string_view name) {
  std::ifstream file(StrCat(kFolder, net.name, ".npz"), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const auto arrays = ParseNpz(bytes.str(), net.name);
  REQUIRE(arrays.ok());
  for (const NamedArray& array : *arrays) {
    if (array.name == name) return array.array;
  }
  FAIL("no golden " << name);
  return {};
}

OnnxModel ModelOf(const Net& net) {
  const auto model =
      ReadOnnx(StrCat(kFolder, net.name, "_", net.exporter, ".onnx"));
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  return *model;
}

OnnxBuildOptions OptionsOf(const Net& net, int64_t size) {
  OnnxBuildOptions options;
  if (!net.first.empty()) options.dims[net.first] = size;
  return options;
}

TrainingSpec SpecOf(const Net& net, const OnnxModel& model, const Array& x,
                    const Array& labels) {
  OnnxLoss loss;
  loss.labels_shape =
      std::vector<int64_t>(labels.type.shape.begin(), labels.type.shape.end());
  TrainingSpec spec{.model =
                        [net, model, loss](int64_t batch) {
                          OnnxBuildOptions options = OptionsOf(net, batch);
                          options.loss = loss;
                          return model.Build(options);
                        },
                    .batch = x.type.shape[0]};
  spec.training.optimizer = Sgd{};
  spec.optimizations =
      AllOptimizations(/*batch=*/1);  // pieces would add up in another order
  return spec;
}

TEST_CASE("an exported net gives what PyTorch gives") {
  for (const Net& net : Nets()) {
    CAPTURE(net.name);
    CAPTURE(net.exporter);
    const OnnxModel model = ModelOf(net);
    const Array x = Golden(net, "x");
    const auto graph = model.Build(OptionsOf(net, x.type.shape[0]));
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    const auto outputs = RunOnnx(model, *graph, {{model.inputs()[0].name, x}});
    REQUIRE_MESSAGE(outputs.ok(), outputs.error().message);
    const Array expected = Golden(net, "outputs");
    REQUIRE((*outputs)[0].type == expected.type);
    const auto got = ValuesOf<float>((*outputs)[0]);
    const auto want = ValuesOf<float>(expected);
    double apart = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      REQUIRE(std::isfinite(got[i]));  // std::max passes NaN over
      apart = std::max(apart, std::abs(double{got[i]} - want[i]));
    }
    CHECK(apart < 1e-4);
  }
}

TEST_CASE("an exported net gives the same bits fused, in no more bytes") {
  int fewer = 0;
  for (const Net& net : Nets()) {
    CAPTURE(net.name);
    CAPTURE(net.exporter);
    const OnnxModel model = ModelOf(net);
    const Array x = Golden(net, "x");
    const auto graph = model.Build(OptionsOf(net, x.type.shape[0]));
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});
    const PlanOptions options{.device = cpu->Needs()};
    const auto apart = PlanMemory(*graph, options);
    const auto fused = PlanProgram(*graph, options);
    REQUIRE_MESSAGE(apart.ok(), apart.error().message);
    REQUIRE_MESSAGE(fused.ok(), fused.error().message);
    CHECK(fused->plan.arena_bytes() <= apart->arena_bytes());
    fewer += graph->num_nodes() - fused->graph.num_nodes();
    const std::vector<NamedArray> inputs = {{model.inputs()[0].name, x}};
    const auto before = RunOnnx(model, {*graph, *apart}, *cpu, inputs);
    const auto after = RunOnnx(model, *fused, *cpu, inputs);
    REQUIRE_MESSAGE(before.ok(), before.error().message);
    REQUIRE_MESSAGE(after.ok(), after.error().message);
    REQUIRE(after->size() == before->size());
    for (size_t i = 0; i < before->size(); ++i) {
      CHECK((*after)[i].bytes == (*before)[i].bytes);
    }
  }
  CHECK(fewer > 60);
}

TEST_CASE("five steps of an exported net are PyTorch's") {
  for (const Net& net : Nets()) {
    // The search for the smallest budget is slow, and the net is no matter to it.
    const bool also_tight = !net.first.empty() || net.name == "gpt2";
    for (int tight = 0; tight <= (also_tight ? 1 : 0); ++tight) {
      CAPTURE(net.name);
      CAPTURE(net.exporter);
      CAPTURE(tight);
      const OnnxModel model = ModelOf(net);
      const Array x = Golden(net, "x"), labels = Golden(net, "labels");
      const auto expected = ValuesOf<float>(Golden(net, "losses"));
      const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});
      TrainingSpec spec = SpecOf(net, model, x, labels);
      if (tight) {
        auto planner = TrainingPlanner::Make(spec, cpu->Needs());
        REQUIRE_MESSAGE(planner.ok(), planner.error().message);
        const auto smallest = planner->step().SmallestBudget();
        REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
        const auto whole = planner->Plan();
        REQUIRE(whole.ok());
        CHECK(*smallest <= whole->arena_bytes());
        spec.budget = *smallest;
      }
      auto training = Train(spec, *cpu);
      REQUIRE_MESSAGE(training.ok(), training.error().message);
      training->Initialize(/*seed=*/1);
      Runner& step = training->step();
      const Status loaded =
          model.ForEachWeight(step.graph(), [&](const NamedArray& weight) {
            return step.WriteBytes(weight.name, weight.array.type.dtype,
                                   weight.array.data());
          });
      REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
      REQUIRE(
          step.WriteBytes(model.inputs()[0].name, x.type.dtype, x.data()).ok());
      REQUIRE(step.WriteBytes("labels", labels.type.dtype, labels.data()).ok());
      REQUIRE(step.Write("lr", 0.1f).ok());
      for (size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(step.Write("step", static_cast<int64_t>(i + 1)).ok());
        REQUIRE(step.Step() == StepCode::kOk);
        const auto loss = step.ReadScalar("loss");
        REQUIRE(loss.ok());
        CHECK(std::abs(*loss - expected[i]) < 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace stowage
