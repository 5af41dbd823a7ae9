#include "planner/fit/order/search.h"

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>

namespace stowage::fit {
namespace {

constexpr size_t kMostFailed = 1 << 20;  // some 60 MB

}  // namespace

OrderSearch::OrderSearch(const OrderProblem& problem) : state_(problem) {
  std::mt19937_64 random(1);  // the same in every process
  for (int32_t task = 0; task < problem.num_tasks(); ++task) {
    task_hashes_.push_back({random(), random()});
  }
}

void OrderSearch::Run(int32_t task) {
  const Hash& hash = task_hashes_[static_cast<size_t>(task)];
  hash_.low ^= hash.low;
  hash_.high ^= hash.high;
  state_.Run(task);
  order_.push_back(task);
}

void OrderSearch::TakeBackTo(size_t mark) {
  while (order_.size() > mark) {
    const int32_t task = order_.back();
    order_.pop_back();
    state_.TakeBack(task);
    const Hash& hash = task_hashes_[static_cast<size_t>(task)];
    hash_.low ^= hash.low;
    hash_.high ^= hash.high;
  }
}

void OrderSearch::RunObvious(Bytes limit) {
  for (size_t i = 0; i < state_.ready().size();) {
    const int32_t task = state_.ready()[i];
    ++steps_;
    if (state_.LiveAfter(task) > state_.live() ||
        state_.LiveDuring(task) > limit) {
      ++i;
      continue;
    }
    Run(task);
    i = 0;  // what it frees may make others obvious
  }
}

std::vector<int32_t> OrderSearch::Candidates(Bytes limit,
                                             std::span<const int32_t> ranks,
                                             OrderTaste taste) {
  struct Candidate {
    Bytes live;
    int32_t rank;
    int32_t task;
  };
  std::vector<Candidate> candidates;
  for (const int32_t task : state_.ready()) {
    ++steps_;
    const Bytes during = state_.LiveDuring(task);
    if (during > limit) {
      next_ = std::min(next_, during);
      continue;
    }
    const Bytes after =
        taste == OrderTaste::kFewest ? state_.LiveAfter(task) : 0;
    candidates.push_back({after, ranks[static_cast<size_t>(task)], task});
  }
  // The last is tried first.
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return std::tie(a.live, a.rank, a.task) >
                     std::tie(b.live, b.rank, b.task);
            });
  std::vector<int32_t> tasks;
  for (const Candidate& candidate : candidates) tasks.push_back(candidate.task);
  return tasks;
}

OrderSearch::Outcome OrderSearch::Try(Bytes limit,
                                      std::span<const int32_t> ranks,
                                      OrderTaste taste, int64_t effort) {
  if (limit != failed_limit_) {
    failed_.clear();
    failed_limit_ = limit;
    next_ = std::numeric_limits<Bytes>::max();
  }
  const int64_t last = steps_ + effort;
  TakeBackTo(0);
  if (state_.live() > limit) {
    next_ = state_.live();
    return Outcome::kInfeasible;
  }
  // The branches above the current set; each ran tasks since its mark.
  struct Branch {
    size_t mark;
    Hash hash;
    std::vector<int32_t> untried;
  };
  std::vector<Branch> branches;
  size_t mark = 0;
  for (;;) {
    RunObvious(limit);
    if (state_.done()) return Outcome::kFound;
    if (!failed_.contains(hash_)) {
      branches.push_back({mark, hash_, Candidates(limit, ranks, taste)});
    } else {
      TakeBackTo(mark);
    }
    while (!branches.empty() && branches.back().untried.empty()) {
      failed_.insert(branches.back().hash);
      TakeBackTo(branches.back().mark);
      branches.pop_back();
    }
    if (branches.empty()) return Outcome::kInfeasible;
    if (steps_ > last || failed_.size() > kMostFailed) return Outcome::kStopped;
    mark = order_.size();
    const int32_t task = branches.back().untried.back();
    branches.back().untried.pop_back();
    Run(task);
  }
}

}  // namespace stowage::fit
