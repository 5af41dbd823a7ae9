// How long it takes to follow a change: of a packed step of training, one buffer
// after the other gets another size or lifetime, and the packing is mended.
//
//   bazel run -c opt //bench:pack_changes -- [buffers [STEP.csv]]
//
// Milliseconds are CPU time of one change: the median, the 99th of a hundred and
// the largest. "above" is how far the height lies above the bound at most.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/packing/csv.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/repack.h"
#include "planner/packing/validate.h"

namespace {

using stowage::Bytes;
using stowage::packing::Buffer;
using stowage::packing::Problem;
using stowage::packing::Time;

Problem Step(int count) {
  std::mt19937_64 random(1);
  const auto pick = [&](Bytes most) {
    return static_cast<Bytes>(random() % static_cast<uint64_t>(most)) + 1;
  };
  const Time layers = count / 5;
  const Time end = 2 * layers;
  Problem problem;
  for (Time t = 0; t < layers; ++t) {
    const Time back = end - t - 1;
    const Bytes width = 4096 * pick(64);
    const auto add = [&](Time lower, Time upper, Bytes size) {
      problem.buffers.push_back(
          {.lower = lower, .upper = upper, .size = size, .alignment = 64});
    };
    add(0, end, 12 * width);             // parameters
    add(t, back + 1, 5 * width);         // saved for backward
    add(t, t + 1 + pick(3), 3 * width);  // forward scratch
    add(back, back + 2, width);          // the gradient handed down
    add(back, back + pick(3), 64 * pick(1 << 12));
  }
  return problem;
}

Problem ReadStep(const char* file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)),
                         std::istreambuf_iterator<char>());
  auto problem = stowage::packing::ParseProblemCsv(text);
  if (!problem.ok()) {
    std::printf("%s\n", problem.error().message.c_str());
    std::exit(1);
  }
  return std::move(*problem);
}

}  // namespace

int main(int argc, char** argv) {
  const Problem problem = argc > 2
                              ? ReadStep(argv[2])
                              : Step(argc > 1 ? std::atoi(argv[1]) : 20000);
  auto packing = stowage::packing::Pack(problem);
  if (!packing.ok()) {
    std::printf("%s\n", packing.error().message.c_str());
    return 1;
  }
  stowage::packing::Repacker repacker(problem, std::move(packing->solution));
  std::mt19937_64 random(2);
  std::vector<double> milliseconds;
  int kinds[3] = {};
  double most_above = 0;
  for (int change = 0; change < 1000; ++change) {
    const size_t index = random() % problem.buffers.size();
    Buffer b = repacker.problem().buffers[index];
    if (random() % 2 == 0) {
      b.size = std::max<Bytes>(
          1, b.size + b.size / 8 * (static_cast<Bytes>(random() % 5) - 2));
    } else {
      b.upper =
          std::max(b.lower + 1, b.upper + static_cast<Time>(random() % 5) - 2);
    }
    const std::clock_t start = std::clock();
    const auto kind = repacker.Change(index, b);
    milliseconds.push_back(1000.0 * static_cast<double>(std::clock() - start) /
                           CLOCKS_PER_SEC);
    if (!kind.ok() ||
        !Validate(repacker.problem(), repacker.solution()).empty()) {
      std::printf("change %d went wrong\n", change);
      return 1;
    }
    ++kinds[static_cast<int>(*kind)];
    most_above = std::max(most_above,
                          static_cast<double>(repacker.solution().height) /
                                  static_cast<double>(repacker.lower_bound()) -
                              1);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf(
      "%zu buffers, 1000 changes: %.2f ms median, %.2f ms 99 of 100, "
      "%.2f ms largest; %d moved, %d stretches, %d all; above %.4f %%\n",
      problem.buffers.size(), milliseconds[500], milliseconds[990],
      milliseconds.back(), kinds[0], kinds[1], kinds[2], 100 * most_above);
  return 0;
}
