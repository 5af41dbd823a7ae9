#include "tests/compile/loss_difference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "compile/compile.h"
#include "cpu/cpu_backend.h"
#include "runtime/session.h"
#include "tests/compile/host_library.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

constexpr uint64_t kSeed = 42;

std::vector<std::byte> BytesOf(const Runner& runner, const ValueInfo& value) {
  std::vector<std::byte> bytes(static_cast<size_t>(value.type.bytes()));
  REQUIRE(runner.ReadBytes(value.name, value.type.dtype, bytes).ok());
  return bytes;
}

// Whether a leaf is at an address of the arena.
bool IsInArena(const FittedStep& step, ValueId id) {
  const auto buffer =
      static_cast<size_t>(step.plan.buffer_of[static_cast<size_t>(id)]);
  return !step.graph.value(id).on_host &&
         step.plan.buffers[buffer].region != Region::kOutside;
}

// Names of params and states in the arena that are not the same bytes.
std::string Different(const Runner& runner, const FittedStep& step,
                      ArenaInC& arena) {
  std::string names;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : step.graph.Leaves(role)) {
      if (!IsInArena(step, id)) continue;
      const ValueInfo& value = step.graph.value(id);
      const std::vector<std::byte> bytes = BytesOf(runner, value);
      if (std::memcmp(bytes.data(), arena.At(value.name), bytes.size()) != 0) {
        names += " " + value.name;
      }
    }
  }
  return names;
}

}  // namespace

double LossDifference(const ComparedStep& compared, int steps,
                      std::vector<double>* losses) {
  const FittedStep& step = compared.step;
  const auto cpu = MakeCpuBackend({.threads = 2});
  const Result<Plan> plan = PlanMemory(step.graph, {.device = cpu->Needs()});
  REQUIRE(plan.ok());
  auto session = Session::Create({{"train", step.graph, *plan}}, *cpu);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(kSeed);
  Runner& runner = session->front();
  for (const auto& [name, bytes] : compared.contents) {
    const DType dtype = step.graph.value(*step.graph.Find(name)).type.dtype;
    REQUIRE(
        runner.WriteBytes(name, dtype, std::as_bytes(std::span(bytes))).ok());
  }

  const GraphInC in_c = GraphInC::Of(step.graph, step.plan, "net",
                                     compared.contents, compared.simd);
  const HostLibrary library(compared.name, in_c.files, "-O2 -march=native");
  ArenaInC arena(in_c);
  library.Get<void(uint8_t*, uint64_t)>("net_init")(arena.data(), kSeed);
  CHECK(Different(runner, step, arena) == "");

  auto* const run = library.Get<int(uint8_t*)>("net_step");
  double largest = 0;
  for (int i = 1; i <= steps; ++i) {
    if (compared.inputs.empty()) WriteRandomInputs(runner, kSeed, i);
    for (const auto& [name, bytes] : compared.inputs) {
      const DType dtype = step.graph.value(*step.graph.Find(name)).type.dtype;
      REQUIRE(runner.WriteBytes(name, dtype, bytes).ok());
    }
    if (step.graph.Find("step")) {
      REQUIRE(runner.Write("step", int64_t{i}).ok());
    }
    REQUIRE(runner.Write("lr", compared.learning_rate(i)).ok());
    for (const ValueId id : step.graph.Leaves(Role::kInput)) {
      const ValueInfo& value = step.graph.value(id);
      const std::vector<std::byte> bytes = BytesOf(runner, value);
      std::memcpy(arena.At(value.name), bytes.data(), bytes.size());
    }
    REQUIRE(runner.Step() == StepCode::kOk);
    REQUIRE(run(arena.data()) == 0);
    const double expected = *runner.ReadScalar("loss");
    const double loss = arena.Read("loss").at(0);
    if (losses != nullptr) losses->push_back(loss);
    largest = std::max(largest, std::abs(loss - expected) / std::abs(expected));
  }
  MESSAGE(compared.name, ": losses differ by ", largest, " at most, arena ",
          step.plan.arena_bytes(), " bytes, ", step.price.micro_batches,
          " micro-batches, ", step.price.recomputed_nodes, " recomputed nodes");
  return largest;
}

}  // namespace stowage::testing
