// Compares training steps of a built-in model in f32 and bf16, alternately, on random images or
// tokens: the median CPU times in milliseconds, and the median of the ratios of pairs. Images
// are trained by SGD with momentum, text by AdamW. With "ops", first prints the times of both
// steps' ops.
//
//   dtype_steps MODEL BATCH SIZE ROUNDS THREADS [ops]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "bench/must.h"
#include "cpu/cpu_backend.h"
#include "ir/tensor_type.h"
#include "nn/models.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "runtime/session.h"

namespace {

using stowage::DType;

using stowage::bench::Must;

double Milliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) +
         1e-6 * static_cast<double>(now.tv_nsec);
}

// Images from a normal distribution, tokens and labels below 10, steps of 1e-4.
void WriteInputs(stowage::Runner& runner) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const stowage::ValueInfo& value : runner.graph().values()) {
    if (value.role != stowage::Role::kInput) continue;
    const auto count = static_cast<size_t>(value.type.shape.num_elements());
    if (value.name == "lr") {
      STOWAGE_CHECK(runner.Write(value.name, 1e-4f).ok());
    } else if (value.type.dtype == DType::kI32) {
      std::vector<int32_t> numbers(count);
      for (int32_t& number : numbers)
        number = static_cast<int32_t>(random() % 10);
      STOWAGE_CHECK(runner.Write(value.name, numbers).ok());
    } else if (value.type.dtype == DType::kI64) {
      STOWAGE_CHECK(runner.Write(value.name, int64_t{1}).ok());
    } else {
      std::vector<float> numbers(count);
      for (float& number : numbers) number = static_cast<float>(normal(random));
      STOWAGE_CHECK(runner.Write(value.name, numbers).ok());
    }
  }
}

stowage::Session Open(const std::string& model, stowage::ModelOptions options,
                      DType dtype, stowage::Backend& cpu) {
  options.dtype = dtype;
  stowage::TrainOptions training;
  if (!options.seq) training.optimizer = stowage::Momentum{};
  const stowage::Graph step = Must(stowage::BuildTrainStep(
      Must(stowage::BuildModel(model, stowage::ModelPurpose::kTrain, options)),
      "loss", training));
  stowage::PlannedGraph planned =
      Must(stowage::PlanProgram(step, {.device = cpu.Needs()}));
  std::fprintf(stderr, "%s: an arena of %lld bytes\n", DTypeName(dtype).data(),
               static_cast<long long>(planned.plan.arena_bytes()));
  std::vector<stowage::SessionProgram> programs;
  programs.push_back(
      {"step", std::move(planned.graph), std::move(planned.plan)});
  stowage::Session session =
      Must(stowage::Session::Create(std::move(programs), cpu));
  session.Initialize(1);
  WriteInputs(session.front());
  return session;
}

double Median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6 || argc > 7) {
    std::fprintf(stderr,
                 "usage: dtype_steps MODEL BATCH SIZE ROUNDS THREADS [ops]\n");
    return 2;
  }
  const stowage::ModelInfo info = Must(stowage::FindModel(argv[1]));
  const int64_t size = std::atoll(argv[3]);
  stowage::ModelOptions options;
  options.batch = std::atoll(argv[2]);
  if (info.seq > 0) {
    options.seq = size;
  } else {
    options.images = {
        .channels = 3, .height = size, .width = size, .classes = 10};
  }
  const int rounds = std::atoi(argv[4]);
  const auto cpu = stowage::MakeCpuBackend({.threads = std::atoi(argv[5])});
  stowage::Session sessions[] = {Open(argv[1], options, DType::kF32, *cpu),
                                 Open(argv[1], options, DType::kBF16, *cpu)};
  if (argc == 7) {
    for (stowage::Session& session : sessions) {
      stowage::Runner& runner = session.front();
      stowage::OpTimes times;
      std::vector<double> of(static_cast<size_t>(runner.graph().num_nodes()));
      for (int i = 0; i < rounds; ++i) {
        STOWAGE_CHECK(runner.StepTimed(of) == stowage::StepCode::kOk);
        times.Add(runner.graph(), 1, of);
      }
      std::printf("%s\n", times.ToText().c_str());
    }
  }
  std::vector<double> milliseconds[2], ratios;
  for (int round = -1; round < rounds; ++round) {
    double of[2];
    for (int k = 0; k < 2; ++k) {
      const int which = round % 2 == 0 ? k : 1 - k;
      const double start = Milliseconds();
      STOWAGE_CHECK(sessions[which].front().Step() == stowage::StepCode::kOk);
      of[which] = Milliseconds() - start;
    }
    if (round < 0) continue;
    for (int k = 0; k < 2; ++k) milliseconds[k].push_back(of[k]);
    ratios.push_back(of[1] / of[0]);
  }
  std::printf("f32 %.3f bf16 %.3f ratio %.4f\n", Median(milliseconds[0]),
              Median(milliseconds[1]), Median(ratios));
  return 0;
}
