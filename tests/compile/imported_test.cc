// Models of files, trained by their steps in C and by the library: nets that torch.onnx
// exported, and low-rank adapters beside a language model in quantized blocks.

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "formats/npy.h"
#include "onnx/onnx.h"
#include "planner/fit/fit.h"
#include "tests/compile/imported_steps.h"
#include "tests/compile/loss_difference.h"
#include "train/fine_tuning.h"
#include "train/step_builder.h"

namespace stowage {
namespace {

using testing::ComparedStep;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// --- ONNX ---

ComparedStep ExportedNet(const std::string& name, const OnnxBuildOptions& sizes,
                         double learning_rate,
                         const std::vector<ParamGroup>& groups = {}) {
  const std::string folder = "tests/goldens/onnx/";
  const auto onnx = ReadOnnx(folder + name + "_script.onnx");
  REQUIRE_MESSAGE(onnx.ok(), onnx.error().message);
  std::ifstream file(folder + name + ".npz", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const auto arrays = ParseNpz(bytes.str(), name);
  REQUIRE(arrays.ok());
  ComparedStep net{.name = name,
                   .learning_rate = [=](int64_t) { return learning_rate; }};
  OnnxBuildOptions options = sizes;
  options.loss.emplace();
  for (const NamedArray& array : *arrays) {
    const auto data = array.array.data();
    const std::vector<std::byte> copy(data.begin(), data.end());
    if (array.name == "x") net.inputs[onnx->inputs()[0].name] = copy;
    if (array.name != "labels") continue;
    net.inputs["labels"] = copy;
    const Shape& shape = array.array.type.shape;
    options.loss->labels_shape =
        std::vector<int64_t>(shape.begin(), shape.end());
  }
  const auto model = [&](int64_t) { return onnx->Build(options); };
  const Result<Graph> forward = model(1);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  REQUIRE(onnx->ForEachWeight(*forward,
                              [&](const NamedArray& weight) -> Status {
                                net.contents[weight.name] =
                                    TextOf(weight.array.data());
                                return {};
                              })
              .ok());
  Result<FittedStep> step = testing::PlanBesideConstants(
      model, 1, {.optimizer = Sgd{}, .groups = groups}, net.contents);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  net.step = *std::move(step);
  return net;
}

TEST_CASE("20 steps of exported nets have the library's losses in C") {
  CHECK(testing::LossDifference(
            ExportedNet("images", {.dims = {{"batch", 4}}}, 0.02), 20) < 1e-6);
  CHECK(testing::LossDifference(ExportedNet("recurrent", {}, 0.1), 20) < 1e-6);
  CHECK(testing::LossDifference(ExportedNet("bert", {}, 0.02), 20) < 1e-6);
}

TEST_CASE("a frozen backbone takes nothing of the arena of an exported net") {
  const ComparedStep whole = ExportedNet("vit", {}, 0.02);
  const ComparedStep head =
      ExportedNet("vit", {}, 0.02,
                  {{.pattern = "*head*"}, {.pattern = "*", .frozen = true}});
  // All that is reserved for weights is what is trained.
  Bytes trained = 0;
  for (const ValueId id : head.step.graph.Leaves(Role::kParam)) {
    const ValueInfo& param = head.step.graph.value(id);
    if (param.name.find("head") == std::string::npos) continue;
    trained += AlignUp(param.type.bytes(), kCAlignment);
  }
  CHECK(trained > 0);
  CHECK(head.step.plan.regions.weights == trained);
  CHECK(whole.step.plan.regions.weights > 10 * trained);
  CHECK(testing::LossDifference(head, 20) < 1e-6);
}

// --- Language models ---

TEST_CASE("adapters beside a quantized Llama have the library's losses in C") {
  Result<testing::AdaptersStep> adapters =
      testing::PlanAdapters("tests/goldens/pretrained/llama.gguf", 12);
  REQUIRE_MESSAGE(adapters.ok(), adapters.error().message);
  const ComparedStep net{.name = "adapters",
                         .step = std::move(adapters->step),
                         .learning_rate = [](int64_t) { return 1e-3; },
                         .contents = std::move(adapters->contents)};
  // All of the base is constant, and a part of it is in blocks.
  int in_blocks = 0;
  for (const ValueId id : net.step.graph.Leaves(Role::kParam)) {
    const ValueInfo& param = net.step.graph.value(id);
    const PlannedBuffer& buffer = net.step.plan.buffers[static_cast<size_t>(
        net.step.plan.buffer_of[static_cast<size_t>(id)])];
    CAPTURE(param.name);
    CHECK((buffer.region == Region::kOutside) ==
          (param.name.find("lora_") == std::string::npos));
    in_blocks += param.type.dtype == DType::kU8;
  }
  CHECK(in_blocks > 0);
  CHECK(testing::LossDifference(net, 20) < 1e-6);
}

TEST_CASE("the smallest budget offloads what is trained, and no constant") {
  constexpr int64_t kSeq = 12;
  const auto tuning = FineTuning::Open("tests/goldens/pretrained/llama.gguf");
  REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
  std::set<std::string> base;
  for (const PretrainedParam& param : tuning->base().params()) {
    base.insert(param.name);
  }
  StepFitter fitter(
      BuildSteps(tuning->ModelOf(ModelPurpose::kTrain, kSeq), 1, "loss",
                 {.optimizer = AdamW{}, .groups = tuning->groups()}),
      {.plan = {.alignment = kCAlignment,
                .device = NeedsOfC(),
                .outside = base},
       .optimizations = {.offload = OffloadChoice::kDisk}});
  const Result<Bytes> smallest = fitter.SmallestBudget();
  REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
  const Result<FittedStep> step = fitter.Fit(*smallest);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(step->plan.regions.host_state > 0);
  for (const ValueId id : step->graph.Leaves(Role::kParam)) {
    const ValueInfo& param = step->graph.value(id);
    if (base.contains(param.name)) CHECK(!param.on_host);
  }
}

}  // namespace
}  // namespace stowage
