// Random graphs of loops and branches in C give what the CPU backend gives.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "compile/compile.h"
#include "cpu/cpu_backend.h"
#include "runtime/session.h"
#include "tests/compile/host_library.h"
#include "tests/support/elements.h"
#include "tests/support/instances.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using testing::ArenaInC;
using testing::GraphInC;
using testing::HostLibrary;
using testing::Instances;

std::vector<std::byte> BytesOf(const Runner& runner, const std::string& name) {
  const Graph& graph = runner.graph();
  const TensorType& type = graph.value(*graph.Find(name)).type;
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  REQUIRE(runner.ReadBytes(name, type.dtype, bytes).ok());
  return bytes;
}

std::vector<double> ElementsOf(const Runner& runner, const std::string& name) {
  const Graph& graph = runner.graph();
  const DType dtype = graph.value(*graph.Find(name)).type.dtype;
  const std::vector<std::byte> bytes = BytesOf(runner, name);
  std::vector<double> elements;
  for (size_t at = 0; at < bytes.size();
       at += static_cast<size_t>(SizeOf(dtype))) {
    elements.push_back(DecodeElement(dtype, &bytes[at]));
  }
  return elements;
}

// Two runs of each, one after the other in one arena. The largest error of an output.
double LargestErrorOf(const GraphInC& in_c, const HostLibrary& library,
                      Backend& cpu, uint64_t seed) {
  const Result<Plan> plan = PlanMemory(in_c.graph, {.device = cpu.Needs()});
  REQUIRE(plan.ok());
  auto session = Session::Create({{"run", in_c.graph, *plan}}, cpu);
  REQUIRE(session.ok());
  session->Initialize(seed);
  Runner& runner = session->front();
  ArenaInC arena(in_c);
  library.Get<void(uint8_t*, uint64_t)>(in_c.prefix + "_init")(arena.data(),
                                                               seed);
  auto* const step = library.Get<int(uint8_t*)>(in_c.prefix + "_step");
  double largest = 0;
  for (int i = 1; i <= 2; ++i) {
    testing::WriteRandomInputs(runner, seed, i);
    for (const ValueId id : in_c.graph.Leaves(Role::kInput)) {
      const std::string& name = in_c.graph.value(id).name;
      const std::vector<std::byte> bytes = BytesOf(runner, name);
      std::memcpy(arena.At(name), bytes.data(), bytes.size());
    }
    REQUIRE(runner.Step() == StepCode::kOk);
    REQUIRE(step(arena.data()) == 0);
    for (const GraphOutput& output : in_c.graph.outputs()) {
      const double error = LargestError(arena.Read(output.name),
                                        ElementsOf(runner, output.name));
      largest = std::isnan(error) ? error : std::max(largest, error);
    }
  }
  return largest;
}

// Its outputs after a run on inputs of a seed, as bytes.
std::vector<std::vector<double>> OutputsOf(const GraphInC& in_c,
                                           const HostLibrary& library,
                                           uint64_t seed) {
  ArenaInC arena(in_c);
  library.Get<void(uint8_t*, uint64_t)>(in_c.prefix + "_init")(arena.data(),
                                                               seed);
  testing::Rng rng(seed);
  for (const ValueId id : in_c.graph.Leaves(Role::kInput)) {
    const ValueInfo& value = in_c.graph.value(id);
    std::vector<double> elements;
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      elements.push_back(IsFloat(value.type.dtype) ? rng.Uniform(-1, 1) : 1);
    }
    arena.Write(value.name, elements);
  }
  REQUIRE(library.Get<int(uint8_t*)>(in_c.prefix + "_step")(arena.data()) == 0);
  std::vector<std::vector<double>> outputs;
  for (const GraphOutput& output : in_c.graph.outputs()) {
    outputs.push_back(arena.Read(output.name));
  }
  return outputs;
}

void CheckGraphs(uint64_t count, const std::string& name,
                 const std::function<Graph(uint64_t)>& make) {
  constexpr uint64_t kAtOnce = 50;
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t first = 0; first < count; first += kAtOnce) {
    std::vector<GraphInC> graphs;
    std::map<uint64_t, GraphInC> others;
    std::map<std::string, std::string> files;
    for (uint64_t seed = first; seed < std::min(count, first + kAtOnce);
         ++seed) {
      const Graph graph = make(seed);
      graphs.push_back(GraphInC::Make(graph, StrCat("graph", seed)));
      for (const auto& file : graphs.back().files) files.insert(file);
      // Of each third graph another one: without reuse of memory, or without loops.
      if (seed % 3 != 0) continue;
      others[seed] =
          seed % 2 == 0
              ? GraphInC::Make(graph, StrCat("other", seed),
                               {.packer = Packer::kLinear, .in_place = false})
              : GraphInC::Make(testing::Unrolled(graph), StrCat("other", seed));
      for (const auto& file : others[seed].files) files.insert(file);
    }
    const HostLibrary library(StrCat(name, first), files, "-O0");
    for (size_t i = 0; i < graphs.size(); ++i) {
      INFO(name, " of seed ", first + i);
      const uint64_t seed = first + i;
      if (const auto other = others.find(seed); other != others.end()) {
        CHECK(OutputsOf(graphs[i], library, seed) ==
              OutputsOf(other->second, library, seed));
      }
      CHECK(LargestErrorOf(graphs[i], library, *cpu, seed) < 2e-5);
    }
  }
}

TEST_CASE("300 random graphs of loops and branches give the same in C") {
  CheckGraphs(Instances(300u), "branches", [](uint64_t seed) {
    return testing::MakeRandomControlFlow(seed);
  });
}

TEST_CASE("steps that train through random loops give the same in C") {
  CheckGraphs(Instances(50u), "steps", [](uint64_t seed) {
    const Graph forward =
        testing::MakeRandomControlFlow(seed, /*branches=*/false);
    return *BuildTrainStep(forward, "loss", {.optimizer = Sgd{}});
  });
}

}  // namespace
}  // namespace stowage
