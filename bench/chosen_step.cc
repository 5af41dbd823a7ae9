// Compares training steps with default and autotuned blockings (cpu/blocking.h), alternately:
// the time to bind each, and the median step times. With one thread, times are CPU times, which
// other processes hardly affect.
//
//   chosen_step MODEL BATCH SEQ STEPS THREADS FOLDER
//
// FOLDER is the autotune cache.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "bench/must.h"
#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "runtime/session.h"

namespace {

using stowage::bench::Must;

double Milliseconds(int threads) {
  timespec now;
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC,
                &now);
  return 1e3 * static_cast<double>(now.tv_sec) +
         1e-6 * static_cast<double>(now.tv_nsec);
}

stowage::Session Open(const stowage::PlannedGraph& step, stowage::Backend& cpu,
                      int threads) {
  const double start = Milliseconds(threads);
  stowage::Session session =
      Must(stowage::Session::Create({{"step", step.graph, step.plan}}, cpu));
  std::printf("bound in %.1f ms\n", Milliseconds(threads) - start);
  session.Initialize(1);
  stowage::Runner& runner = session.front();
  for (const stowage::ValueInfo& value : runner.graph().values()) {
    if (value.role != stowage::Role::kInput) continue;
    const std::vector<std::byte> zeros(static_cast<size_t>(value.type.bytes()));
    STOWAGE_CHECK(runner.WriteBytes(value.name, value.type.dtype, zeros).ok());
  }
  STOWAGE_CHECK(runner.Write("step", int64_t{1}).ok());
  return session;
}

double Median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr,
                 "usage: chosen_step MODEL BATCH SEQ STEPS THREADS FOLDER\n");
    return 2;
  }
  stowage::ModelOptions options;
  options.batch = std::atoll(argv[2]);
  if (std::atoll(argv[3]) > 0) options.seq = std::atoll(argv[3]);
  const int steps = std::atoi(argv[4]);
  const int threads = std::atoi(argv[5]);
  const std::unique_ptr<stowage::Backend> backends[] = {
      stowage::MakeCpuBackend({.threads = threads}),
      stowage::MakeCpuBackend(
          {.threads = threads, .blocking_folder = argv[6]})};
  const stowage::Graph step = Must(stowage::BuildTrainStep(
      Must(
          stowage::BuildModel(argv[1], stowage::ModelPurpose::kTrain, options)),
      "loss"));
  const stowage::PlannedGraph planned =
      Must(stowage::PlanProgram(step, {.device = backends[0]->Needs()}));
  std::printf("arena %lld\n",
              static_cast<long long>(planned.plan.arena_bytes()));
  stowage::Session sessions[] = {Open(planned, *backends[0], threads),
                                 Open(planned, *backends[1], threads)};
  std::vector<double> times[2], ratios;
  for (int i = -2; i < steps; ++i) {
    double of[2];
    for (int k = 0; k < 2; ++k) {
      const int which = i % 2 == 0 ? k : 1 - k;
      // The last of two finds the caches as its own kind left them.
      for (int run = 0; run < 2; ++run) {
        const double start = Milliseconds(threads);
        STOWAGE_CHECK(sessions[which].front().Step() == stowage::StepCode::kOk);
        of[which] = Milliseconds(threads) - start;
      }
    }
    if (i < 0) continue;
    for (int k = 0; k < 2; ++k) times[k].push_back(of[k]);
    ratios.push_back(of[1] / of[0]);
  }
  std::printf("medians: default %.3f ms, chosen %.3f ms; by pairs %.4f\n",
              Median(times[0]), Median(times[1]), Median(ratios));
  const double least[] = {*std::ranges::min_element(times[0]),
                          *std::ranges::min_element(times[1])};
  std::printf("the least: default %.3f ms, chosen %.3f ms; %.4f\n", least[0],
              least[1], least[1] / least[0]);
  return 0;
}
