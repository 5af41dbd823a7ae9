// Compares the packers over the problems in a folder of CSV files, or over generated ones with
// a known optimum.
//
//   bazel run -c opt //bench:pack_table -- FOLDER [capacity]
//   bazel run -c opt //bench:pack_table
//
// Columns in per mille are heights above the lower bound. "online" is an allocator without a
// plan: best fit with splitting and coalescing. Seconds are CPU time.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "tests/planner/packing/planted.h"

namespace {

using stowage::Bytes;
using stowage::packing::Buffer;
using stowage::packing::Packer;
using stowage::packing::Packing;
using stowage::packing::Problem;
using stowage::packing::Time;

// Frees come before allocations at the same time.
Bytes OnlineBestFit(const Problem& problem) {
  struct Event {
    Time time;
    bool birth;
    size_t buffer;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].size == 0) continue;
    events.push_back({problem.buffers[i].lower, true, i});
    events.push_back({problem.buffers[i].upper, false, i});
  }
  std::stable_sort(
      events.begin(), events.end(), [](const Event& a, const Event& b) {
        return a.time != b.time ? a.time < b.time : a.birth < b.birth;
      });
  std::map<Bytes, Bytes> free;  // from begin to end
  std::vector<Bytes> offsets(problem.buffers.size());
  Bytes top = 0;
  for (const Event& event : events) {
    const Bytes size = problem.buffers[event.buffer].size;
    if (event.birth) {
      auto best = free.end();
      for (auto it = free.begin(); it != free.end(); ++it) {
        const Bytes room = it->second - it->first;
        if (room < size) continue;
        if (best == free.end() || room < best->second - best->first) best = it;
      }
      Bytes begin = top;
      if (best != free.end()) {
        begin = best->first;
        const Bytes end = best->second;
        free.erase(best);
        if (begin + size < end) free[begin + size] = end;
      } else {
        // What is free at the very top grows.
        if (!free.empty() && std::prev(free.end())->second == top) {
          begin = std::prev(free.end())->first;
          free.erase(std::prev(free.end()));
        }
        top = begin + size;
      }
      offsets[event.buffer] = begin;
    } else {
      Bytes begin = offsets[event.buffer];
      Bytes end = begin + size;
      auto above = free.lower_bound(begin);
      if (above != free.end() && above->first == end) {
        end = above->second;
        above = free.erase(above);
      }
      if (above != free.begin() && std::prev(above)->second == begin) {
        begin = std::prev(above)->first;
      }
      free[begin] = end;
    }
  }
  return top;
}

struct Timed {
  Packing packing;
  double seconds = 0;
};

// Without a packing when `packer` does not fit the capacity.
std::optional<Timed> TimedPack(const Problem& problem, Packer packer) {
  const std::clock_t start = std::clock();
  auto packing = stowage::packing::Pack(problem, {.packer = packer});
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!packing.ok()) return std::nullopt;
  if (!stowage::packing::Validate(problem, packing->solution).empty()) {
    std::fprintf(stderr, "a packing is not valid\n");
    std::exit(1);
  }
  return Timed{std::move(*packing), seconds};
}

void PrintRow(const std::string& name, const Problem& problem,
              std::optional<Bytes> capacity) {
  const Bytes bound = stowage::packing::ComputeLowerBound(problem).bytes;
  const auto above = [&](Bytes height) {
    return 1000.0 * static_cast<double>(height - bound) /
           static_cast<double>(std::max<Bytes>(bound, 1));
  };
  const auto linear = TimedPack(problem, Packer::kLinear);
  const auto greedy = TimedPack(problem, Packer::kGreedy);
  Problem limited = problem;
  limited.capacity = capacity;
  const auto best = TimedPack(limited, Packer::kBest);
  std::printf("%-22s %7zu %16lld %12.1f %9.3f %10.4f %7.3f ", name.c_str(),
              problem.buffers.size(), static_cast<long long>(bound),
              above(linear->packing.solution.height),
              above(OnlineBestFit(problem)),
              above(greedy->packing.solution.height), greedy->seconds);
  if (best) {
    std::printf("%10.4f %7.3f %s\n", above(best->packing.solution.height),
                best->seconds, best->packing.optimal ? "optimal" : "");
  } else {
    std::printf("misses the capacity\n");
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("%-22s %7s %16s %12s %9s %10s %7s %10s %7s\n", "problem", "n",
              "bound", "linear", "online", "greedy", "s", "best", "s");
  if (argc < 2) {
    int seed = 0;
    for (const int buffers : {50, 100, 150, 200, 300}) {
      for (const Time width : {50, 150, 400}) {
        ++seed;
        const Problem problem = stowage::packing::PlantedProblem(
            {.buffers = buffers, .width = width}, static_cast<uint64_t>(seed));
        PrintRow(
            "planted " + std::to_string(buffers) + ", " + std::to_string(width),
            problem, std::nullopt);
      }
    }
    return 0;
  }
  std::optional<Bytes> capacity;
  if (argc > 2) capacity = std::atoll(argv[2]);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto problem = stowage::packing::ParseProblemCsv(text);
    if (!problem.ok()) {
      std::fprintf(stderr, "%s: %s\n", file.c_str(),
                   problem.error().message.c_str());
      return 1;
    }
    PrintRow(file.stem(), *problem, capacity);
  }
  return 0;
}
