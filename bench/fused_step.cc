// Compares a training step, or a forward program, without and with fused ops, alternately: the
// memory traffic, the times of ops, and the median times.
//
//   fused_step MODEL BATCH SEQ STEPS THREADS [evaluate|generate]
//
// Generation reads SEQ tokens after those in its caches, which have the model's maximum length.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "report/traffic.h"
#include "runtime/session.h"

namespace {

using stowage::Graph;
using stowage::Plan;
using Clock = std::chrono::steady_clock;

template <typename T>
T Must(stowage::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

stowage::Session Open(Graph graph, Plan plan, stowage::Backend& cpu) {
  std::vector<stowage::SessionProgram> programs;
  programs.push_back({"step", std::move(graph), std::move(plan)});
  stowage::Session session =
      Must(stowage::Session::Create(std::move(programs), cpu));
  session.Initialize(1);
  stowage::Runner& runner = session.front();
  for (const stowage::ValueInfo& value : runner.graph().values()) {
    if (value.role != stowage::Role::kInput) continue;
    const std::vector<std::byte> zeros(static_cast<size_t>(value.type.bytes()));
    STOWAGE_CHECK(runner.WriteBytes(value.name, value.type.dtype, zeros).ok());
  }
  if (runner.graph().Find("step")) {
    STOWAGE_CHECK(runner.Write("step", int64_t{1}).ok());
  }
  STOWAGE_CHECK(runner.ClearCaches().ok());
  return session;
}

double Median(std::vector<double> of) {
  std::ranges::sort(of);
  return 1e3 * of[of.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string purpose = argc == 7 ? argv[6] : "train";
  const bool generates = purpose == "generate";
  if (argc < 6 || argc > 7 ||
      (purpose != "train" && purpose != "evaluate" && !generates)) {
    std::fprintf(stderr,
                 "usage: fused_step MODEL BATCH SEQ STEPS THREADS "
                 "[evaluate|generate]\n");
    return 2;
  }
  stowage::ModelOptions options;
  options.batch = std::atoll(argv[2]);
  options.seq = std::atoll(argv[3]);
  if (generates) options.cache = Must(stowage::FindModel(argv[1])).max_seq;
  const int steps = std::atoi(argv[4]);
  const auto cpu = stowage::MakeCpuBackend({.threads = std::atoi(argv[5])});
  const Graph forward = Must(stowage::BuildModel(
      argv[1],
      generates               ? stowage::ModelPurpose::kGenerate
      : purpose == "evaluate" ? stowage::ModelPurpose::kEvaluate
                              : stowage::ModelPurpose::kTrain,
      options));
  const Graph step = purpose == "train"
                         ? Must(stowage::BuildTrainStep(forward, "loss"))
                         : forward;
  const stowage::PlanOptions planning = {.device = cpu->Needs()};
  const Plan plan = Must(stowage::PlanMemory(step, planning));
  stowage::PlannedGraph fused = Must(stowage::PlanProgram(step, planning));
  std::printf("%s", ToText(stowage::CountTraffic(step)).c_str());
  std::printf("%s", ToText(stowage::CountTraffic(fused.graph)).c_str());
  std::printf("arena %lld, fused %lld\n",
              static_cast<long long>(plan.arena_bytes()),
              static_cast<long long>(fused.plan.arena_bytes()));
  stowage::Session sessions[] = {
      Open(step, plan, *cpu),
      Open(std::move(fused.graph), std::move(fused.plan), *cpu)};
  std::vector<double> seconds[2], ratios;
  for (int i = -3; i < steps; ++i) {
    double of[2];
    for (int k = 0; k < 2; ++k) {
      const int which = i % 2 == 0 ? k : 1 - k;
      // The last of three finds the caches as its own kind left them.
      for (int run = 0; run < 3; ++run) {
        const Clock::time_point start = Clock::now();
        STOWAGE_CHECK(sessions[which].front().Step() == stowage::StepCode::kOk);
        of[which] = std::chrono::duration<double>(Clock::now() - start).count();
      }
    }
    if (i < 0) continue;
    for (int k = 0; k < 2; ++k) seconds[k].push_back(of[k]);
    ratios.push_back(of[1] / of[0] / 1e3);
  }
  for (stowage::Session& session : sessions) {
    stowage::Runner& runner = session.front();
    stowage::OpTimes times;
    std::vector<double> of(static_cast<size_t>(runner.graph().num_nodes()));
    for (int i = 0; i < std::min(steps, 50); ++i) {
      STOWAGE_CHECK(runner.StepTimed(of) == stowage::StepCode::kOk);
      times.Add(runner.graph(), 1, of);
    }
    std::printf("%s\n", times.ToText().c_str());
  }
  std::printf(
      "medians of %d steps: apart %.3f ms, fused %.3f ms; by pairs %.4f\n",
      steps, Median(seconds[0]), Median(seconds[1]), Median(ratios));
  std::printf("the least: apart %.3f ms, fused %.3f ms\n",
              1e3 * *std::ranges::min_element(seconds[0]),
              1e3 * *std::ranges::min_element(seconds[1]));
  return 0;
}
