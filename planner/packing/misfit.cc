#include "planner/packing/misfit.h"

#include <algorithm>
#include <numeric>

#include "planner/packing/canonical_search.h"
#include "planner/packing/restarts.h"

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

}  // namespace stowage::packing
