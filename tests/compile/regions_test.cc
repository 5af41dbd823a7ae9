// Steps in C whose buffers are in several memories compute what they compute in one arena.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "compile/compile.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "nn/models.h"
#include "planner/plan_memory.h"
#include "tests/compile/host_library.h"
#include "tests/support/elements.h"
#include "tests/support/files.h"
#include "tests/support/instances.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using testing::HostLibrary;
using testing::Instances;
using testing::OutputOf;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Graph StepOf(const std::string& model, const ModelOptions& options) {
  const Result<Graph> forward =
      BuildModel(model, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> step =
      BuildTrainStep(*forward, "loss", {.optimizer = AdamW{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

Plan PlanOf(const Graph& graph) {
  const Result<Plan> plan =
      PlanMemory(graph, {.alignment = kCAlignment, .device = NeedsOfC()});
  REQUIRE(plan.ok());
  return *plan;
}

Placement PlacementOf(const std::vector<CProgram>& programs,
                      const std::vector<MemoryRegion>& regions) {
  std::vector<ProgramPlan> planned;
  for (const CProgram& program : programs) {
    planned.push_back({program.graph, program.plan});
  }
  Result<Placement> placement = PlaceInRegions(planned, regions, TrafficOfC);
  REQUIRE_MESSAGE(placement.ok(), placement.error().message);
  return *std::move(placement);
}

using Files = std::map<std::string, std::string>;

CompiledStep AddFiles(const std::vector<CProgram>& programs,
                      const std::string& prefix, CompileOptions options,
                      Files* files) {
  options.prefix = prefix;
  options.header = prefix + ".h";
  const Result<CompiledStep> compiled = CompileToC(programs, options);
  REQUIRE_MESSAGE(compiled.ok(), compiled.error().message);
  (*files)[prefix + ".h"] = compiled->header;
  (*files)[prefix + ".c"] = compiled->source;
  return *compiled;
}

// Writes all inputs of a program, the same of each step and of each build.
void WriteInputs(const HostLibrary& library, const std::string& prefix,
                 const Graph& graph, int64_t step) {
  testing::Rng random(static_cast<uint64_t>(step));
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const ValueInfo& value = graph.value(id);
    auto* const to = reinterpret_cast<std::byte*>(
        library.Get<void*()>(StrCat(prefix, "_input_", value.name))());
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      const double element = value.name == "lr"     ? 0.01
                             : value.name == "step" ? static_cast<double>(step)
                             : IsFloat(value.type.dtype)
                                 ? random.Uniform(-1, 1)
                                 : static_cast<double>(random.Below(10));
      EncodeElement(value.type.dtype, element,
                    to + i * SizeOf(value.type.dtype));
    }
  }
}

std::vector<uint8_t> SavedBy(const HostLibrary& library,
                             const std::string& prefix, Bytes size) {
  std::vector<uint8_t> saved(static_cast<size_t>(size));
  library.Get<void(uint8_t*)>(prefix + "_save")(saved.data());
  return saved;
}

// The bits of the loss of each step.
std::vector<uint32_t> Train(const HostLibrary& library,
                            const std::string& prefix, const Graph& graph,
                            int steps) {
  library.Get<void(uint64_t)>(prefix + "_init")(42);
  std::vector<uint32_t> losses;
  for (int64_t i = 1; i <= steps; ++i) {
    WriteInputs(library, prefix, graph, i);
    REQUIRE(library.Get<int()>(prefix + "_step")() == 0);
    const float loss = *library.Get<const float*()>(prefix + "_output_loss")();
    std::memcpy(&losses.emplace_back(), &loss, sizeof loss);
  }
  return losses;
}

TEST_CASE("traffic is what kernels load and store, repeated reads included") {
  const auto traffic_of = [](int64_t m, int64_t n) {
    GraphBuilder b("net");
    const Value x = b.Input("x", DType::kF32, {m, 32});
    const Value w = b.Param("w", DType::kF32, {32, n});
    b.Output("y", MatMul(x, w));
    const Graph graph = *b.Finish();
    return TrafficOfC(graph, ComputeLayouts(graph), graph.node(0), 0);
  };
  // Twice as many columns: x is read twice as often, each element of w as often as before.
  const NodeTraffic once = traffic_of(64, 64), wide = traffic_of(64, 128),
                    tall = traffic_of(128, 64);
  CHECK(once.operands[0] >= 64 * 32 * 4);
  CHECK(wide.operands[0] == 2 * once.operands[0]);
  CHECK(wide.operands[1] == 2 * once.operands[1]);
  CHECK(tall.operands[0] == 2 * once.operands[0]);
  CHECK(tall.operands[1] == 2 * once.operands[1]);
  CHECK(once.operands[1] > 2 * 32 * 64 * 4);
  CHECK(once.results[0] == 64 * 64 * 4);
  // A sum reads and writes each element once.
  GraphBuilder b("sum");
  const Value x = b.Input("x", DType::kF32, {6, 10});
  b.Output("y", Add(x, b.Input("z", DType::kF32, {10})));
  const Graph sum = *b.Finish();
  const NodeTraffic traffic =
      TrafficOfC(sum, ComputeLayouts(sum), sum.node(sum.num_nodes() - 1), 0);
  CHECK(traffic.operands[0] == 60 * 4);
  CHECK(traffic.operands[1] == 60 * 4);  // a broadcast row is read each time
  CHECK(traffic.results[0] == 60 * 4);
}

TEST_CASE("losses and params in several regions are those in one arena") {
  struct Net {
    std::string model;
    ModelOptions options;
  };
  for (const Net& net : Instances<Net>({{"mlp", {.batch = 4}},
                                        {"cnn-small", {.batch = 2}},
                                        {"gpt-nano", {.batch = 2, .seq = 8}}},
                                       3)) {
    CAPTURE(net.model);
    const Graph step = StepOf(net.model, net.options);
    const Plan plan = PlanOf(step);
    const std::vector<CProgram> programs = {{"step", step, plan}};
    const Bytes arena = plan.arena_bytes();
    Files files;
    const CompiledStep whole = AddFiles(programs, "whole", {}, &files);
    const std::map<std::string, std::vector<MemoryRegion>> splits = {
        {"tenth", {{"sram", arena / 10}, {"psram", arena}}},
        {"halves", {{"sram", arena / 2}, {"psram", arena * 6 / 10}}},
        {"three",
         {{"dtcm", arena / 20}, {"sram", arena / 4}, {"psram", arena}}}};
    for (const auto& [prefix, regions] : splits) {
      const Placement placement = PlacementOf(programs, regions);
      MESSAGE(net.model, " ", prefix, ": ",
              100 * placement.use[0].traffic / placement.traffic,
              " % of the traffic in ", placement.use[0].bytes, " of ", arena,
              " bytes, at most ",
              100 * placement.fastest_bound / placement.traffic, " %");
      CHECK(placement.use[0].traffic > 0.85 * placement.fastest_bound);
      const CompiledStep built =
          AddFiles(programs, prefix, {.placement = placement}, &files);
      CHECK(built.arena == placement.bytes());
      CHECK(built.saved == whole.saved);
    }
    const HostLibrary library("regions_" + net.model, files);
    const std::vector<uint32_t> losses = Train(library, "whole", step, 5);
    CHECK(std::set(losses.begin(), losses.end()).size() == losses.size());
    const std::vector<uint8_t> saved = SavedBy(library, "whole", whole.saved);
    for (const auto& split : splits) {
      const std::string& prefix = split.first;
      CAPTURE(prefix);
      CHECK(Train(library, prefix, step, 5) == losses);
      CHECK(SavedBy(library, prefix, whole.saved) == saved);
      // What one build has saved goes on in another.
      library.Get<void(uint64_t)>(prefix + "_init")(7);
      CHECK(SavedBy(library, prefix, whole.saved) != saved);
      CHECK(library.Get<int(const uint8_t*)>(prefix + "_load")(saved.data()) ==
            0);
      CHECK(SavedBy(library, prefix, whole.saved) == saved);
    }
  }
}

// The outputs of a run of `graph`, whose functions are `prefix`_... and get `blocks`.
template <typename... Block>
std::vector<double> OutputsOf(const HostLibrary& library,
                              const std::string& prefix, const Graph& graph,
                              uint64_t seed, Block*... blocks) {
  library.Get<void(Block * ..., uint64_t)>(prefix + "_init")(blocks..., seed);
  testing::Rng random(seed);
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const ValueInfo& value = graph.value(id);
    auto* const to =
        reinterpret_cast<std::byte*>(library.Get<void*(Block * ...)>(
            StrCat(prefix, "_input_", value.name))(blocks...));
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      const bool is_float = IsFloat(value.type.dtype);
      EncodeElement(value.type.dtype, is_float ? random.Uniform(-1, 1) : 1,
                    to + i * SizeOf(value.type.dtype));
    }
  }
  REQUIRE(library.Get<int(Block * ...)>(prefix + "_step")(blocks...) == 0);
  std::vector<double> elements;
  const Layouts layouts = ComputeLayouts(graph);
  for (const GraphOutput& output : graph.outputs()) {
    const TensorType& type = graph.value(output.value).type;
    const auto* const from = reinterpret_cast<const std::byte*>(
        library.Get<const void*(Block * ...)>(
            StrCat(prefix, "_output_", output.name))(blocks...));
    Layout layout = layouts[static_cast<size_t>(output.value)];
    layout.byte_offset = 0;  // the accessor has added it
    for (int64_t i = 0; i < type.shape.num_elements(); ++i) {
      elements.push_back(
          DecodeElement(type.dtype, from + ElementOffset(i, type, layout)));
    }
  }
  return elements;
}

TEST_CASE("loops and branches whose buffers are in two regions give the same") {
  struct Each {
    Graph graph;
    Plan plan;
    Placement placement;
  };
  std::vector<Each> all;
  Files files;
  for (uint64_t seed = 0; seed < Instances(60u); ++seed) {
    const bool is_step = seed % 3 == 0;
    Graph graph = testing::MakeRandomControlFlow(seed, /*branches=*/!is_step);
    if (is_step) graph = *BuildTrainStep(graph, "loss", {.optimizer = Sgd{}});
    const Plan plan = PlanOf(graph);
    Each& each = all.emplace_back(Each{graph, plan, {}});
    const std::vector<CProgram> programs = {{"step", each.graph, each.plan}};
    const Bytes bytes = plan.arena_bytes();
    each.placement =
        PlacementOf(programs, {{"fast", bytes / 3 + 16}, {"slow", bytes}});
    AddFiles(programs, StrCat("one", seed), {.caller_arena = true}, &files);
    AddFiles(programs, StrCat("two", seed),
             {.caller_arena = true, .placement = each.placement}, &files);
  }
  const HostLibrary library("two_regions", files, "-O0");
  for (uint64_t seed = 0; seed < all.size(); ++seed) {
    INFO("seed ", seed);
    const Each& each = all[seed];
    // Full of NaN.
    GuardedBuffer fast(each.placement.use[0].bytes, kCAlignment);
    GuardedBuffer slow(each.placement.use[1].bytes, kCAlignment);
    GuardedBuffer arena(each.plan.arena_bytes(), kCAlignment);
    CHECK(OutputsOf(library, StrCat("two", seed), each.graph, seed, fast.data(),
                    slow.data()) == OutputsOf(library, StrCat("one", seed),
                                              each.graph, seed, arena.data()));
    CHECK(fast.intact());
    CHECK(slow.intact());
  }
}

TEST_CASE("an evaluation shares the params in all regions") {
  const Graph step = StepOf("mlp", {.batch = 4});
  const Plan plan = PlanOf(step);
  const Graph evaluation =
      *BuildModel("mlp", ModelPurpose::kEvaluate, {.batch = 4});
  const Result<Plan> planned =
      PlanMemory(evaluation, {.alignment = kCAlignment,
                              .weights = WeightLayout::FromForward(step, plan),
                              .device = NeedsOfC()});
  REQUIRE(planned.ok());
  const std::vector<CProgram> programs = {{"step", step, plan},
                                          {"evaluate", evaluation, *planned}};
  const Bytes arena = plan.arena_bytes();
  // Regions that both have params.
  Placement placement;
  const auto regions_of_params = [&] {
    std::set<int32_t> regions;
    for (const ValueId id : step.Leaves(Role::kParam)) {
      const auto buffer =
          static_cast<size_t>(plan.buffer_of[static_cast<size_t>(id)]);
      regions.insert(placement.programs[0].buffers[buffer].region);
    }
    return regions.size();
  };
  for (const int part : {2, 4, 6, 8, 12}) {
    placement =
        PlacementOf(programs, {{"sram", arena / part}, {"psram", arena}});
    if (regions_of_params() == 2) break;
  }
  CHECK(regions_of_params() == 2);
  Files files;
  AddFiles(programs, "one", {}, &files);
  AddFiles(programs, "two", {.placement = placement}, &files);
  const HostLibrary library("evaluate_regions", files);
  const auto evaluate = [&](const std::string& prefix) {
    WriteInputs(library, prefix + "_evaluate", evaluation, 99);
    REQUIRE(library.Get<int()>(prefix + "_evaluate")() == 0);
    return *library.Get<const float*()>(prefix + "_evaluate_output_loss")();
  };
  CHECK(Train(library, "two", step, 3) == Train(library, "one", step, 3));
  const float first = evaluate("one");
  CHECK(evaluate("two") == first);
  CHECK(Train(library, "two", step, 6) == Train(library, "one", step, 6));
  CHECK(evaluate("two") == evaluate("one"));
  CHECK(evaluate("one") != first);
}

TEST_CASE("each region is an array in the section that its macro names") {
  const Graph step = StepOf("mlp", {.batch = 2});
  const Plan plan = PlanOf(step);
  const std::vector<CProgram> programs = {{"step", step, plan}};
  const Placement placement = PlacementOf(
      programs,
      {{"sram", plan.arena_bytes() / 4}, {"psram", plan.arena_bytes()}});
  Files files;
  AddFiles(programs, "net", {.placement = placement}, &files);
  CHECK(Contains(files["net.h"], StrCat("NET_REGION_SRAM_BYTES ",
                                        placement.use[0].bytes, "\n")));
  CHECK(Contains(files["net.h"], StrCat("NET_REGION_PSRAM_BYTES ",
                                        placement.use[1].bytes, "\n")));
  CHECK(!Contains(files["net.h"], "NET_ARENA_BYTES"));
  const std::string folder = testing::EmptyFolder("sections");
  for (const auto& [name, text] : files) {
    std::ofstream(folder + "/" + name) << text;
  }
  const auto sections = [&](const std::string& flags) {
    OutputOf(StrCat("cd ", folder, " && gcc ", testing::kStrictC, " ", flags,
                    " -c net.c -o net.o"));
    std::map<std::string, Bytes> bytes;
    std::istringstream lines(OutputOf("size -A " + folder + "/net.o"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name;
      Bytes size = 0;
      if (words >> name >> size) bytes[name] = size;
    }
    return bytes;
  };
  CHECK(sections("")[".bss"] >= placement.bytes());
  auto bytes = sections(
      "'-DNET_SECTION_SRAM=__attribute__((section(\".bss.sram\")))' "
      "'-DNET_SECTION_PSRAM=__attribute__((section(\".bss.psram\")))'");
  CHECK(bytes[".bss.sram"] == placement.use[0].bytes);
  CHECK(bytes[".bss.psram"] == placement.use[1].bytes);
  CHECK(bytes[".bss"] == 0);
}

TEST_CASE("regions that C cannot name and other placements are refused") {
  const Graph step = StepOf("mlp", {.batch = 2});
  const Plan plan = PlanOf(step);
  const std::vector<CProgram> programs = {{"step", step, plan}};
  const Bytes arena = plan.arena_bytes();
  const auto refusal = [&](const Placement& placement) {
    const auto compiled = CompileToC(programs, {.placement = placement});
    REQUIRE(!compiled.ok());
    CHECK(compiled.error().code == ErrorCode::kInvalidArgument);
    return compiled.error().message;
  };
  for (const char* const name : {"on-chip", "2nd", "a b"}) {
    CHECK(Contains(refusal(PlacementOf(programs, {{name, arena}})),
                   "C identifier"));
  }
  CHECK(Contains(
      refusal(PlacementOf(programs, {{"sram", arena / 2}, {"SRAM", arena}})),
      "\"SRAM\""));
  Placement moved =
      PlacementOf(programs, {{"sram", arena / 2}, {"psram", arena}});
  moved.programs[0].buffers[0].offset = arena;
  CHECK(Contains(refusal(moved), "is outside of region"));
  moved.programs.clear();
  CHECK(Contains(refusal(moved), "PlaceInRegions"));
}

}  // namespace
}  // namespace stowage
