#include "planner/packing/best.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "planner/packing/canonical_search.h"
#include "planner/packing/greedy.h"

namespace stowage::packing {

namespace {

// The share of the effort that one question may take.
constexpr int64_t kQuestions = 32;

Problem Select(const Problem& problem, const std::vector<size_t>& buffers) {
  Problem selected;
  selected.buffers.reserve(buffers.size());
  for (const size_t i : buffers) selected.buffers.push_back(problem.buffers[i]);
  return selected;
}

}  // namespace

Misfit FindMisfit(const Problem& problem, Bytes capacity, int64_t effort,
                  Deadline deadline) {
  Misfit misfit;
  misfit.buffers.resize(problem.buffers.size());
  std::iota(misfit.buffers.begin(), misfit.buffers.end(), 0);

  int64_t left = effort;
  for (size_t chunk = (misfit.buffers.size() + 1) / 2; chunk > 0; chunk /= 2) {
    misfit.irreducible = chunk == 1;
    for (size_t begin = 0; begin < misfit.buffers.size();) {
      const size_t end = std::min(begin + chunk, misfit.buffers.size());
      std::vector<size_t> rest = misfit.buffers;
      rest.erase(rest.begin() + begin, rest.begin() + end);
      const Problem without = Select(problem, rest);
      RestartingSearch search(without);
      const auto outcome = search.Try(
          capacity, std::min(left, effort / kQuestions + 1), deadline);
      left -= search.steps() + static_cast<int64_t>(rest.size());
      if (outcome == CanonicalSearch::Outcome::kInfeasible) {
        misfit.buffers = std::move(rest);
        continue;
      }
      if (outcome == CanonicalSearch::Outcome::kStopped) {
        misfit.irreducible = false;
      }
      begin = end;
      const bool ends = left <= 0 || IsPast(deadline);
      if (ends && begin < misfit.buffers.size()) {
        misfit.irreducible = false;
        return misfit;
      }
    }
  }
  return misfit;
}

namespace {

using Outcome = CanonicalSearch::Outcome;

// What the search takes on; its memory is proportional to the conflicts, its
// recursion at most as deep as there are buffers.
constexpr size_t kMaxBuffers = 8000;
constexpr int64_t kMaxConflicts = 8'000'000;

// Of the effort, this share goes to the goal before any other height is tried,
// and this share to each step of the first bisection. A goal that was asked for
// is worth more than one that may not exist.
constexpr int64_t kBoundShare = 8;
constexpr int64_t kCapacityShare = 2;
constexpr int64_t kStepShare = 24;

// Bisection ends when what can be gained is at most this share of the height.
constexpr Bytes kFineness = 4096;

// How much work of the greedy packer stands for the effort, when all is left to
// it: its steps are more expensive.
constexpr int64_t kGreedyShare = 4;

class Ladder {
 public:
  Ladder(const Problem& problem, Bytes bound, const BestOptions& options,
         BestPacking* best)
      : problem_(problem),
        options_(options),
        goal_(std::max(bound, problem.capacity.value_or(bound))),
        search_(problem),
        best_(best) {}

  void Climb() {
    const int64_t share = problem_.capacity ? kCapacityShare : kBoundShare;
    if (Try(goal_, options_.effort / share) == Outcome::kFound) return;
    if (best_->proven > goal_ && problem_.capacity) return;
    Bisect();
    Descend();
  }

 private:
  int64_t Left() const { return options_.effort - search_.steps(); }

  Outcome Try(Bytes height, int64_t effort) {
    const Outcome outcome =
        search_.Try(height, std::min(effort, Left()), options_.deadline);
    if (outcome == Outcome::kFound &&
        search_.solution().height < best_->solution.height) {
      best_->solution = search_.solution();
      best_->method = "search";
    }
    if (outcome == Outcome::kInfeasible) {
      best_->proven = std::max(best_->proven, height + 1);
    }
    return outcome;
  }

  bool Ends() const {
    return best_->solution.height <= std::max(goal_, best_->proven) ||
           Left() <= 0 || IsPast(options_.deadline);
  }

  // Halves what lies between the best packing and the heights that a short
  // search did not reach.
  void Bisect() {
    Bytes low = std::max(goal_, best_->proven);
    while (!Ends() && best_->solution.height - low > Fine()) {
      const Bytes height = low + (best_->solution.height - low) / 2;
      if (Try(height, options_.effort / kStepShare) != Outcome::kFound) {
        low = height + 1;
      }
    }
  }

  // Goes down from the best packing with what effort is left, in smaller steps
  // and longer searches after each failure.
  void Descend() {
    Bytes stride = 4 * Fine();
    int64_t effort = 2 * options_.effort / kStepShare;
    while (!Ends()) {
      const Bytes height =
          std::max({best_->solution.height - stride, goal_, best_->proven});
      if (Try(height, effort) == Outcome::kFound) {
        stride = CheckedMul(stride, 2).value_or(stride);
      } else {
        stride = std::max<Bytes>(stride / 2, 1);
        effort = std::min(2 * effort, options_.effort);
      }
    }
  }

  Bytes Fine() const { return best_->solution.height / kFineness; }

  const Problem& problem_;
  const BestOptions& options_;
  const Bytes goal_;
  RestartingSearch search_;
  BestPacking* best_;
};

}  // namespace

BestPacking PackBest(const Problem& problem, Bytes bound,
                     const BestOptions& options) {
  BestPacking best;
  best.proven = bound;
  GreedyPacking greedy =
      PackGreedily(problem, bound, kGreedyWork, options.deadline);
  best.solution = std::move(greedy.solution);
  best.method = std::move(greedy.order);

  const Bytes capacity = problem.capacity.value_or(bound);
  if (best.solution.height <= std::max(bound, capacity)) return best;
  if (capacity < bound || IsPast(options.deadline)) return best;

  if (problem.buffers.size() > kMaxBuffers ||
      CountConflicts(problem) > kMaxConflicts) {
    greedy = PackGreedily(problem, bound, options.effort / kGreedyShare,
                          options.deadline);
    if (greedy.solution.height < best.solution.height) {
      best.solution = std::move(greedy.solution);
      best.method = std::move(greedy.order);
    }
    return best;
  }

  Ladder(problem, bound, options, &best).Climb();
  if (problem.capacity && best.proven > *problem.capacity) {
    best.misfit = FindMisfit(problem, *problem.capacity, options.effort,
                             options.deadline);
  }
  return best;
}

}  // namespace stowage::packing
