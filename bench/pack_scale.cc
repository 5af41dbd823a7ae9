// How packing scales: a table over problems of a thousand to a million buffers
// that look like steps of training.
//
//   bazel run //bench:pack_scale -- [largest number of buffers]

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "planner/packer.h"
#include "planner/problem.h"
#include "planner/validate.h"

namespace {

using stowage::Bytes;
using stowage::Problem;
using stowage::Time;

// About `count` buffers: layers forward and backward, in runs of equal layers.
// Activations saved by a layer live until its backward, which shapes the
// timeline like a U; parameters live always; scratch lives for one time.
Problem TrainingStep(int count) {
  std::mt19937_64 random(1);
  const auto pick = [&](Bytes most) {
    return static_cast<Bytes>(random() % static_cast<uint64_t>(most)) + 1;
  };
  const int per_layer = 8;
  const Time layers = count / per_layer;
  const Time end = 2 * layers;
  Bytes width = 0;
  Problem problem;
  for (Time t = 0; t < layers; ++t) {
    if (t % 24 == 0) width = 4096 * pick(64);
    const Time back = end - t - 1;
    const auto add = [&](Time lower, Time upper, Bytes size) {
      problem.buffers.push_back(
          {.lower = lower, .upper = upper, .size = size, .alignment = 64});
    };
    add(0, end, 12 * width);             // parameters
    add(t, back + 1, width);             // saved for backward
    add(t, back + 1, 4 * width);         // saved for backward
    add(t, t + 1 + pick(3), 3 * width);  // forward scratch
    add(t, t + 1, 64 * pick(1 << 12));   // a workspace of odd size
    add(back, back + 2, width);          // the gradient handed down
    add(back, back + 1, 4 * width);      // backward scratch
    add(back, back + pick(3), 64 * pick(1 << 12));
  }
  return problem;
}

void Report(int count, const Problem& problem, stowage::Packer packer) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto packing = stowage::Pack(problem, {.packer = packer});
  const auto packed = Clock::now();
  if (!packing.ok()) {
    std::printf("%s\n", packing.error().message.c_str());
    std::exit(1);
  }
  const bool valid = stowage::Validate(problem, packing->solution).empty();
  const auto validated = Clock::now();
  const std::chrono::duration<double> packing_time = packed - start;
  const std::chrono::duration<double> validation_time = validated - packed;
  std::printf("%9d  %-26s %10.3f %12.6f  %-7s %9.3f  %s\n", count,
              packing->packer.c_str(), packing_time.count(),
              static_cast<double>(packing->solution.height) /
                  static_cast<double>(packing->lower_bound),
              packing->optimal ? "yes" : "no", validation_time.count(),
              valid ? "valid" : "INVALID");
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 1000000;
  std::printf("%9s  %-26s %10s %12s  %-7s %9s\n", "buffers", "packer",
              "seconds", "height/bound", "optimal", "validate");
  for (int count = 1000; count <= most; count *= 10) {
    const Problem problem = TrainingStep(count);
    Report(count, problem, stowage::Packer::kLinear);
    Report(count, problem, stowage::Packer::kGreedy);
  }
  return 0;
}
