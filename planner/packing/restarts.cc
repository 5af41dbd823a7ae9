#include "planner/packing/restarts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/part.h"

namespace stowage::packing {

namespace {

// Packs all buffers that take bytes; the others go to offset 0 or where they are
// fixed.
GreedyPacking PackAll(const Problem& problem, Bytes target, int64_t work,
                      Deadline deadline) {
  const Columns columns = ComputeColumns(problem);
  GreedyPacking packing;
  std::vector<Bytes>& offsets = packing.solution.offsets;
  Bytes& height = packing.solution.height;
  offsets.resize(problem.buffers.size());
  Part all;
  all.columns = columns.count;
  std::vector<uint32_t> indices;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.offset) {
      offsets[i] = *b.offset;
      height = std::max(height, *b.offset + b.size);
    }
    if (b.size == 0) continue;
    all.items.push_back({.range = columns.ranges[i],
                         .size = b.size,
                         .alignment = b.alignment,
                         .offset = b.offset.value_or(Item::kFree),
                         .lower = b.lower,
                         .upper = b.upper});
    indices.push_back(static_cast<uint32_t>(i));
  }
  if (indices.empty()) return packing;
  PartPacking best = PackDivided(all, target, work, deadline);
  for (size_t k = 0; k < indices.size(); ++k) {
    offsets[indices[k]] = best.offsets[k];
  }
  height = std::max(height, best.height);
  packing.order = std::move(best.order);
  return packing;
}

}  // namespace

GreedyPacking PackGreedily(const Problem& problem, Bytes target, int64_t work,
                           Deadline deadline) {
  GreedyPacking best = PackAll(problem, target, work, deadline);
  // Padding and fixed buffers can make reuse the worse choice.
  if (best.solution.height > target) {
    Solution linear = PackLinearly(problem);
    if (linear.height < best.solution.height) {
      best = {std::move(linear), "no reuse"};
    }
  }
  return best;
}

namespace {

// The portfolio: every run multiplies lifetime, or one in three lifetime x size,
// by the share of the conflicts that a buffer had a part in.
constexpr int64_t kPortfolio = 3;
constexpr int64_t kByArea = 0;

// The shortest run: this many steps, or this many times what it takes to place
// every buffer without ever turning back, roughly.
constexpr int64_t kShortRun = 500'000;
constexpr int64_t kPasses = 32;

// From the second round of the portfolio on, each priority is lowered by up to
// this share, at random.
constexpr double kNoise = 0.2;

// The share of the conflicts of those that had none, so that their order counts.
constexpr double kMinShare = 1e-9;

std::vector<size_t> Occupying(const Problem& problem) {
  std::vector<size_t> buffers;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].size > 0) buffers.push_back(i);
  }
  return buffers;
}

CanonicalSearch MakeSearch(const Problem& problem,
                           const std::vector<size_t>& buffers) {
  const Columns columns = ComputeColumns(problem);
  std::vector<SearchItem> items;
  items.reserve(buffers.size());
  for (const size_t i : buffers) {
    const Buffer& b = problem.buffers[i];
    items.push_back({columns.ranges[i], b.size, b.alignment, b.offset});
  }
  return CanonicalSearch(std::move(items), columns.count);
}

// 1 1 2 1 1 2 4 ...; `k` counts from 0.
int64_t Luby(int64_t k) {
  ++k;
  while (true) {
    int64_t power = 1;
    while (2 * power - 1 < k) power *= 2;
    if (2 * power - 1 == k) return power;
    k -= power - 1;
  }
}

double Lifetime(const Buffer& b) {
  return static_cast<double>(b.upper) - static_cast<double>(b.lower);
}

}  // namespace

RestartingSearch::RestartingSearch(const Problem& problem)
    : problem_(problem),
      buffers_(Occupying(problem)),
      search_(MakeSearch(problem, buffers_)),
      random_(1) {
  priorities_.resize(buffers_.size());
  short_run_ = std::max(kShortRun, kPasses * CountConflicts(problem));
}

CanonicalSearch::Outcome RestartingSearch::Try(Bytes capacity, int64_t effort,
                                               Deadline deadline) {
  using Outcome = CanonicalSearch::Outcome;
  const int64_t most_steps = search_.steps() + effort;
  while (true) {
    const int64_t left = most_steps - search_.steps();
    if (left <= 0) return Outcome::kStopped;
    if (IsPast(deadline)) return Outcome::kStopped;
    Prioritize(runs_);
    const int64_t limit = std::min(left, short_run_ * Luby(runs_));
    ++runs_;
    const Outcome outcome = search_.Run(capacity, priorities_, limit, deadline);
    if (outcome == Outcome::kFound) TakeSolution();
    if (outcome != Outcome::kStopped) return outcome;
  }
}

void RestartingSearch::Prioritize(int64_t run) {
  const std::vector<double>& conflicts = search_.conflicts();
  double most = 0;
  for (const double c : conflicts) most = std::max(most, c);
  for (size_t k = 0; k < buffers_.size(); ++k) {
    const Buffer& b = problem_.buffers[buffers_[k]];
    const double share = most > 0 ? conflicts[k] / most + kMinShare : 1;
    double priority = share * Lifetime(b);
    if (run % kPortfolio == kByArea) priority *= static_cast<double>(b.size);
    if (run >= kPortfolio) {
      const double noise = static_cast<double>(random_() % 1024) / 1024;
      priority *= 1 - kNoise * noise;
    }
    priorities_[k] = priority;
  }
}

void RestartingSearch::TakeSolution() {
  solution_.offsets.assign(problem_.buffers.size(), 0);
  solution_.height = 0;
  for (size_t k = 0; k < buffers_.size(); ++k) {
    solution_.offsets[buffers_[k]] = search_.offsets()[k];
  }
  for (size_t i = 0; i < problem_.buffers.size(); ++i) {
    const Buffer& b = problem_.buffers[i];
    if (b.offset) solution_.offsets[i] = *b.offset;
    solution_.height =
        std::max(solution_.height, solution_.offsets[i] + b.size);
  }
}

int64_t CountConflicts(const Problem& problem) {
  struct Event {
    Time time;
    bool birth;
  };
  std::vector<Event> events;
  for (const Buffer& b : problem.buffers) {
    if (b.size == 0) continue;
    events.push_back({b.lower, true});
    events.push_back({b.upper, false});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.birth < b.birth;
  });
  int64_t pairs = 0;
  int64_t live = 0;
  for (const Event& event : events) {
    if (event.birth) pairs += live++;
    if (!event.birth) --live;
  }
  return pairs;
}

}  // namespace stowage::packing
