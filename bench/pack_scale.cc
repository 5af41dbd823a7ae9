// Measures packing from a thousand to a million buffers. Some problems resemble training steps:
// generated ones, and one step, from a CSV file or generated, repeated as in an unrolled loop.
// Others are random: short or long lifetimes, nested or overlapping, with random sizes and
// alignments.
//
//   bazel run -c opt //bench:pack_scale -- [largest number of buffers [STEP.csv]]
//
// "by size" is the height of greedy packing by size, relative to the bound, for problems that
// resemble training. Bytes per buffer are the increase of peak resident memory during packing,
// without the solution; after a large problem, smaller ones show none. Seconds are CPU time.

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "planner/packing/free_space.h"
#include "planner/packing/packer.h"
#include "planner/packing/part.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"

namespace {

using stowage::Bytes;
using stowage::packing::Problem;
using stowage::packing::Time;

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

// `times` steps one after the other; what lives through a step lives through
// all.
Problem Repeated(const Problem& step, int times) {
  Time first = step.buffers[0].lower;
  Time last = step.buffers[0].upper;
  for (const stowage::packing::Buffer& b : step.buffers) {
    first = std::min(first, b.lower);
    last = std::max(last, b.upper);
  }
  const Time length = last - first;
  Problem problem;
  for (int k = 0; k < times; ++k) {
    for (stowage::packing::Buffer b : step.buffers) {
      b.id.clear();
      const bool lasts = b.lower == first && b.upper == last;
      if (lasts && k > 0) continue;
      b.lower += k * length;
      b.upper += (lasts ? times - 1 : k) * length;
      problem.buffers.push_back(b);
    }
  }
  return problem;
}

// Lifetimes of any kind.
enum class Lifetimes { kShort, kThousand, kLong, kNested, kStairs, kAll };

struct Shape {
  const char* name;
  Lifetimes lifetimes;
  bool equal_sizes = false;
  bool mixed_alignments = false;  // 1 to 4096; else 64
};

constexpr Shape kShapes[] = {
    {.name = "short", .lifetimes = Lifetimes::kShort},
    {.name = "short, mixed",
     .lifetimes = Lifetimes::kShort,
     .mixed_alignments = true},
    {.name = "thousand", .lifetimes = Lifetimes::kThousand},
    {.name = "long", .lifetimes = Lifetimes::kLong},
    {.name = "long, mixed",
     .lifetimes = Lifetimes::kLong,
     .mixed_alignments = true},
    {.name = "long, equal", .lifetimes = Lifetimes::kLong, .equal_sizes = true},
    {.name = "nested, mixed",
     .lifetimes = Lifetimes::kNested,
     .mixed_alignments = true},
    {.name = "stairs, mixed",
     .lifetimes = Lifetimes::kStairs,
     .mixed_alignments = true},
    {.name = "all, mixed",
     .lifetimes = Lifetimes::kAll,
     .mixed_alignments = true},
};

Problem RandomOfShape(const Shape& shape, int count) {
  std::mt19937_64 random(1);
  const auto pick = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  Problem problem;
  for (int k = 0; k < count; ++k) {
    stowage::packing::Buffer b;
    b.size = shape.equal_sizes ? 4096 : 1 + pick(1 << 20);
    b.alignment = shape.mixed_alignments ? Bytes{1} << pick(13) : 64;
    b.lower = pick(count);
    switch (shape.lifetimes) {
      case Lifetimes::kShort:
        b.upper = b.lower + 1 + pick(20);
        break;
      case Lifetimes::kThousand:
        b.upper = b.lower + 1 + pick(1000);
        break;
      case Lifetimes::kLong:
        b.upper = pick(count);
        if (b.upper < b.lower) std::swap(b.lower, b.upper);
        ++b.upper;
        break;
      case Lifetimes::kNested:
        b.lower = k;
        b.upper = 2 * Time{count} - k;
        break;
      case Lifetimes::kStairs:
        b.lower = k;
        b.upper = k + 1000;
        break;
      case Lifetimes::kAll:
        b.lower = 0;
        b.upper = 1;
        break;
    }
    problem.buffers.push_back(std::move(b));
  }
  return problem;
}

double Seconds(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

int64_t PeakResidentBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

Bytes HeightBySize(const Problem& problem) {
  const stowage::packing::Columns columns =
      stowage::packing::ComputeColumns(problem);
  stowage::packing::Hold hold(columns.count);
  std::vector<size_t> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].size > problem.buffers[b].size;
  });
  Bytes height = 0;
  for (const size_t i : order) {
    const stowage::packing::Buffer& b = problem.buffers[i];
    if (b.size == 0) continue;
    const Bytes at = hold.LowestFit(columns.ranges[i], b.size, b.alignment);
    hold.Occupy(columns.ranges[i], at, at + b.size);
    height = std::max(height, at + b.size);
  }
  return height;
}

void Report(const char* kind, const Problem& problem, bool by_size) {
  const int64_t before = PeakResidentBytes();
  const std::clock_t start = std::clock();
  const auto packing = stowage::packing::Pack(problem);
  const double seconds = Seconds(start);
  if (!packing.ok()) {
    std::printf("%s\n", packing.error().message.c_str());
    std::exit(1);
  }
  const auto count = static_cast<double>(problem.buffers.size());
  const double bytes =
      static_cast<double>(PeakResidentBytes() - before) / count -
      double{sizeof(Bytes)};
  const bool valid =
      stowage::packing::Validate(problem, packing->solution).empty();
  const auto bound = static_cast<double>(packing->lower_bound);
  const std::string height_by_size =
      by_size ? stowage::Fixed(
                    static_cast<double>(HeightBySize(problem)) / bound, 6)
              : "";
  std::printf("%9zu  %-13s %-26s %8.3f %9.1f %12.6f %12s  %-7s  %s\n",
              problem.buffers.size(), kind, packing->packer.c_str(), seconds,
              std::max(bytes, 0.0),
              static_cast<double>(packing->solution.height) / bound,
              height_by_size.c_str(), packing->optimal ? "yes" : "no",
              valid ? "valid" : "INVALID");
  std::fflush(stdout);
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
  const int most = argc > 1 ? std::atoi(argv[1]) : 1000000;
  const Problem step = argc > 2 ? ReadStep(argv[2]) : TrainingStep(2000);
  std::printf("%9s  %-13s %-26s %8s %9s %12s %12s  %s\n", "buffers", "kind",
              "packer", "seconds", "B/buffer", "height/bound", "by size",
              "optimal");
  // The largest first, for the peak of resident memory never falls.
  for (int count = most; count >= 1000; count /= 10) {
    Report("one step", TrainingStep(count), /*by_size=*/true);
    const auto times = count / static_cast<int>(step.buffers.size());
    if (times > 1) Report("repeated", Repeated(step, times), /*by_size=*/true);
    for (const Shape& shape : kShapes) {
      Report(shape.name, RandomOfShape(shape, count), /*by_size=*/false);
    }
  }
  return 0;
}
