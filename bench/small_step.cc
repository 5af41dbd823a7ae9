// Measures a step of the smallest model from C++, including writing inputs and reading the loss,
// for comparison with bench/python_steps.py.
//
//   bazel run //bench:small_step

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "nn/models.h"
#include "train/training.h"

int main() {
  using namespace stowage;
  constexpr int64_t kBatch = 32;
  constexpr int kSteps = 20'000;
  Result<Training> training = Train(
      {.model =
           [](int64_t batch) {
             return BuildModel("mlp", ModelPurpose::kTrain, {.batch = batch});
           },
       .batch = kBatch,
       .training = {.optimizer = Sgd{}}},
      {.name = "cpu", .threads = 1});
  if (!training.ok()) {
    std::puts(training.error().message.c_str());
    return 1;
  }
  training->Initialize(/*seed=*/1);
  Runner& run = training->step();
  const std::vector<float> x(kBatch * 64, 0.5f);
  const std::vector<int32_t> y(kBatch, 1);
  std::vector<double> microseconds;
  for (int64_t i = 1; i <= kSteps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const bool good =
        run.Write("x", x).ok() && run.Write("y", y).ok() &&
        run.Write("lr", 1e-3f).ok() && run.Write("step", i).ok() &&
        run.Step() == StepCode::kOk && run.ReadScalar("loss").ok();
    if (!good) return 1;
    microseconds.push_back(std::chrono::duration<double, std::micro>(
                               std::chrono::steady_clock::now() - start)
                               .count());
  }
  std::ranges::nth_element(microseconds, microseconds.begin() + kSteps / 2);
  std::printf("%.2f\n", microseconds[kSteps / 2]);
}
