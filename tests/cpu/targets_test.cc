#include "cpu/targets.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/op_kind.h"
#include "nn/models.h"
#include "planner/fit/fuse/fuse.h"
#include "runtime/session.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using cpu::ChooseCpuTarget;
using cpu::CpuTarget;
using cpu::CpuTargets;
using cpu::FindCpuTarget;
using cpu::RunningCpuTarget;
using testing::Differences;
using testing::LargestDifference;
using testing::RunSteps;
using testing::Visible;

// As a processor with AVX2 and without AVX-512 has them.
constexpr std::array kTargets = {CpuTarget{.name = "v2", .runs = true},
                                 CpuTarget{.name = "v3", .runs = true},
                                 CpuTarget{.name = "v4", .runs = false}};

std::string Chosen(std::string_view name, std::string_view variable) {
  const auto chosen = ChooseCpuTarget(kTargets, name, variable);
  if (chosen.ok()) return std::string((*chosen)->name);
  CHECK(chosen.error().code == ErrorCode::kInvalidArgument);
  return chosen.error().message;
}

TEST_CASE("the highest target that the processor runs is chosen") {
  CHECK(Chosen("", "") == "v3");
}

TEST_CASE("the variable names another target, and a name counts before it") {
  CHECK(Chosen("", "v2") == "v2");
  CHECK(Chosen("v3", "v2") == "v3");
  CHECK(Chosen("v2", "v9") == "v2");
}

TEST_CASE("an unknown target is refused, with the names of this build") {
  CHECK(Chosen("v5", "") ==
        "[cpu-target] there is no CPU target \"v5\" in this build; expected "
        "v2, v3, v4");
  CHECK(Chosen("", "AVX2") ==
        "[cpu-target] STOWAGE_CPU_TARGET is \"AVX2\": there is no CPU target "
        "\"AVX2\" in this build; expected v2, v3, v4");
}

TEST_CASE("a target of other builds is refused with what has it") {
  const auto chosen = [](std::string_view name) {
    constexpr std::array kNative = {CpuTarget{.name = "native", .runs = true}};
    const auto found = ChooseCpuTarget(kNative, name, "");
    REQUIRE(!found.ok());
    CHECK(found.error().code == ErrorCode::kInvalidArgument);
    return found.error().message;
  };
  const std::string no_v3 =
      "[cpu-target] there is no CPU target \"v3\" in this build; expected "
      "native ";
  const std::string no_armv8 =
      "[cpu-target] there is no CPU target \"armv8\" in this build; expected "
      "native ";
#if defined(__aarch64__)
  CHECK(chosen("v3") == no_v3 + "(v3 is for x86-64, this build for AArch64)");
  CHECK(chosen("armv8") ==
        no_armv8 + "(a build with --config=armv8 has armv8)");
#else
  CHECK(chosen("v3") == no_v3 + "(a build with --config=portable has v3)");
  CHECK(chosen("armv8") ==
        no_armv8 + "(armv8 is for AArch64, this build for x86-64)");
#endif
}

TEST_CASE("a target that the processor cannot run is refused by name") {
  CHECK(Chosen("v4", "") ==
        "[cpu-target] CPU target \"v4\" needs instructions that this processor "
        "lacks, to compute its scratch as well as to run; expected v2, v3");
  CHECK(Chosen("", "v4") ==
        "[cpu-target] STOWAGE_CPU_TARGET is \"v4\": CPU target \"v4\" needs "
        "instructions that this processor lacks, to compute its scratch as "
        "well as to run; expected v2, v3");
}

TEST_CASE("targets have names and kernels of their own") {
  REQUIRE(!CpuTargets().empty());
  CHECK(CpuTargets().front().runs);
  std::set<std::string_view> names;
  std::set<cpu::CpuKernel::RunFn> kernels;
  for (const CpuTarget& target : CpuTargets()) {
    names.insert(target.name);
    kernels.insert(GetKernel(OpKind::kMatMul, *target.kernels).run);
  }
  CHECK(names.size() == CpuTargets().size());
  CHECK(kernels.size() == CpuTargets().size());
}

TEST_CASE("this process runs the target that is found without a name") {
  const auto found = FindCpuTarget();
  REQUIRE(found.ok());
  CHECK(*found == &RunningCpuTarget());
  CHECK(
      &cpu::GetKernel(OpKind::kMatMul) ==
      RunningCpuTarget().kernels->of_op[static_cast<size_t>(OpKind::kMatMul)]);
}

Graph StepOf(const char* model, const ModelOptions& options) {
  const auto forward = BuildModel(model, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  auto step = BuildTrainStep(*forward, "loss", {.clip_norm = 1.0});
  REQUIRE(step.ok());
  return *std::move(step);
}

std::vector<std::string> NamesThatRun() {
  std::vector<std::string> names;
  for (const CpuTarget& target : CpuTargets()) {
    if (target.runs) names.emplace_back(target.name);
  }
  return names;
}

// The ops of a fused chain run by kernels of the chain's own target, or its bits would
// differ from those of its parts.
TEST_CASE("each target has one result, planned, fused and by any threads") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Graph step =
        StepOf("gpt-nano", {.batch = 2, .seq = 24, .dtype = dtype});
    std::vector<Visible> of_targets;
    for (const std::string& name : NamesThatRun()) {
      INFO(name, " in ", DTypeName(dtype));
      const auto one = MakeCpuBackend({.threads = 1, .target = name});
      const auto three = MakeCpuBackend({.threads = 3, .target = name});
      const PlanOptions options = {.device = three->Needs()};
      const auto plan = PlanMemory(step, options);
      REQUIRE(plan.ok());
      const auto fused = fit::Fuse(step, *plan, options);
      REQUIRE_MESSAGE(fused.ok(), fused.error().message);
      REQUIRE(fused->graph.num_nodes() < step.num_nodes());
      const Visible parts = RunSteps(step, *one, {.planned = false});
      CHECK(Differences(RunSteps(step, *three, {.poison = true}), parts) == "");
      CHECK(Differences(RunSteps(fused->graph, *three, {}), parts) == "");
      of_targets.push_back(parts);
    }
    for (const Visible& other : of_targets) {
      if (dtype != DType::kF32) break;
      CHECK(LargestDifference(other, of_targets[0]) < 1e-3);
    }
  }
}

TEST_CASE("a plan has the scratch of the target that it is made for") {
  const Graph step = StepOf("resnet18", {.batch = 2, .dtype = DType::kBF16});
  std::set<Bytes> scratch;
  std::set<std::string_view> vectors;
  for (const std::string& name : NamesThatRun()) {
    vectors.insert((*FindCpuTarget(name))->kernels->vectors);
    const auto backend = MakeCpuBackend({.threads = 2, .target = name});
    Bytes sum = 0;
    for (const Node& node : step.nodes()) sum += backend->Workspace(step, node);
    scratch.insert(sum);
    const auto plan = PlanMemory(step, {.device = backend->Needs()});
    REQUIRE(plan.ok());
    CHECK(Session::Create({{"train", step, *plan}}, *backend).ok());
  }
  // It consists of registers, of f32 where bf16 is not multiplied.
  CHECK(scratch.size() == vectors.size());
}

TEST_CASE("a backend of an unknown target runs no graph") {
  const Graph step = StepOf("mlp", {.batch = 2});
  const auto backend = MakeCpuBackend({.threads = 1, .target = "v5"});
  const auto plan = PlanMemory(step, {.device = backend->Needs()});
  REQUIRE(plan.ok());
  const auto session = Session::Create({{"train", step, *plan}}, *backend);
  REQUIRE(!session.ok());
  CHECK(session.error().message.starts_with(
      "[cpu-target] there is no CPU target \"v5\" in this build; expected "));
}

}  // namespace
}  // namespace stowage
