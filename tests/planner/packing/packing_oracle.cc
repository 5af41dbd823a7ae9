#include "tests/planner/packing/packing_oracle.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace stowage::packing {
namespace {

bool LiveTogether(const Buffer& a, const Buffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

// Bytes shared by [a, a + a_size) and [b, b + b_size).
bool ShareBytes(Bytes a, Bytes a_size, Bytes b, Bytes b_size) {
  return a_size > 0 && b_size > 0 && a < b + b_size && b < a + a_size;
}

// Can buffers [next, end) be placed at or below `height`, given the rest?
bool Fits(const Problem& problem, Bytes height, size_t next,
          Solution* solution) {
  if (next == problem.buffers.size()) return true;
  const Buffer& b = problem.buffers[next];
  for (Bytes offset = 0; offset + b.size <= height; ++offset) {
    if (offset % b.alignment != 0) continue;
    if (b.offset && *b.offset != offset) continue;
    bool clear = true;
    for (size_t other = 0; other < next; ++other) {
      const Buffer& o = problem.buffers[other];
      clear = clear &&
              !(LiveTogether(b, o) &&
                ShareBytes(offset, b.size, solution->offsets[other], o.size));
    }
    if (!clear) continue;
    solution->offsets[next] = offset;
    if (Fits(problem, height, next + 1, solution)) return true;
  }
  return false;
}

}  // namespace

bool IsGoodPacking(const Problem& problem, const Solution& solution) {
  const size_t count = problem.buffers.size();
  if (solution.offsets.size() != count) return false;
  Bytes top = 0;
  for (size_t i = 0; i < count; ++i) {
    const Buffer& b = problem.buffers[i];
    const Bytes offset = solution.offsets[i];
    if (offset < 0 || offset % b.alignment != 0) return false;
    if (b.offset && *b.offset != offset) return false;
    top = std::max(top, offset + b.size);
    for (size_t j = 0; j < i; ++j) {
      const Buffer& o = problem.buffers[j];
      if (LiveTogether(b, o) &&
          ShareBytes(offset, b.size, solution.offsets[j], o.size)) {
        return false;
      }
    }
  }
  if (problem.capacity && top > *problem.capacity) return false;
  return solution.height == top;
}

Bytes OptimalHeight(const Problem& problem) {
  Solution solution;
  solution.offsets.resize(problem.buffers.size());
  Bytes height = NaiveLowerBound(problem);
  while (!Fits(problem, height, 0, &solution)) ++height;
  return height;
}

Bytes NaiveLowerBound(const Problem& problem) {
  Bytes bound = 0;
  for (const Buffer& at : problem.buffers) {
    Bytes live = 0;
    for (const Buffer& b : problem.buffers) {
      if (b.lower <= at.lower && at.lower < b.upper) live += b.size;
    }
    bound = std::max(bound, live);
    if (at.offset) bound = std::max(bound, *at.offset + at.size);
  }
  return bound;
}

int64_t Uniform(std::mt19937_64& random, int64_t low, int64_t high) {
  const uint64_t width = static_cast<uint64_t>(high - low) + 1;
  return low + static_cast<int64_t>(random() % width);
}

Problem RandomProblem(std::mt19937_64& random, int most) {
  const int count = static_cast<int>(Uniform(random, 0, most));
  const Time end = Uniform(random, 1, 2 * most);
  const Bytes largest = Uniform(random, 1, 3) == 1 ? 3 : 1000;
  const bool aligned = Uniform(random, 0, 1) == 1;
  const bool fixes = Uniform(random, 0, 2) == 0;
  const Bytes alignments[] = {1, 2, 3, 4, 8, 12, 64};

  Problem problem;
  for (int i = 0; i < count; ++i) {
    Buffer b;
    if (Uniform(random, 0, 3) > 0) b.id = std::to_string(i);
    switch (Uniform(random, 0, 3)) {
      case 0:  // one unit
        b.lower = Uniform(random, 0, end - 1);
        b.upper = b.lower + 1;
        break;
      case 1:  // all time
        b.lower = 0;
        b.upper = end;
        break;
      default:
        b.lower = Uniform(random, 0, end - 1);
        b.upper = Uniform(random, b.lower + 1, end);
    }
    b.size = Uniform(random, 0, 9) == 0 ? 0 : Uniform(random, 1, largest);
    if (aligned) b.alignment = alignments[Uniform(random, 0, 6)];
    if (fixes && Uniform(random, 0, 3) == 0) {
      b.offset = b.alignment * Uniform(random, 0, 2 * largest / b.alignment);
      for (const Buffer& o : problem.buffers) {
        if (o.offset && LiveTogether(b, o) &&
            ShareBytes(*b.offset, b.size, *o.offset, o.size)) {
          b.offset.reset();
          break;
        }
      }
    }
    problem.buffers.push_back(std::move(b));
  }
  return problem;
}

}  // namespace stowage::packing
