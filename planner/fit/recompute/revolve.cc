#include "planner/fit/recompute/revolve.h"

#include <algorithm>

#include "base/check.h"

namespace stowage::fit {
namespace {

// How many states can be read with `places`, none being made more than `times`
// times: beta(places, times), or `most` where it is more.
int64_t Reach(int64_t places, int64_t times, int64_t most) {
  const int64_t few = std::min(places, times);
  const int64_t many = std::max(places, times);
  double reach = 1;  // exact below 2^53, which is above any number of states
  for (int64_t k = 1; k <= few && reach <= static_cast<double>(most); ++k) {
    reach = reach * static_cast<double>(many + k) / static_cast<double>(k);
  }
  return reach > static_cast<double>(most) ? most : static_cast<int64_t>(reach);
}

// The only r with beta(places, r - 1) < states <= beta(places, r).
int64_t MostTimes(int64_t states, int64_t places) {
  int64_t times = 0;
  while (Reach(places, times, states) < states) ++times;
  return times;
}

}  // namespace

int64_t RevolveSteps(int64_t states, int64_t places) {
  STOWAGE_CHECK(states > 0 && places > 0);
  const int64_t times = MostTimes(states, places);
  if (times == 0) return 0;
  const int64_t all = times * states;
  return all - Reach(places + 1, times - 1, all);
}

std::vector<RevolveStep> RevolveStepsAgain(int64_t states, int64_t places) {
  STOWAGE_CHECK(states > 0 && places > 0);
  std::vector<RevolveStep> steps;
  // States first, ..., first + count - 1 are to be read, the last first; `first` is
  // there, and with it in `places` of them.
  struct Part {
    int64_t first, count, places;
    bool is_there;  // the states are being made for the first time
  };
  std::vector<Part> parts = {{0, states, places, true}};
  while (!parts.empty()) {
    const Part part = parts.back();
    parts.pop_back();
    if (part.count == 1) continue;
    // The next to keep, as far on as is best: what comes before it is made at most
    // one time fewer, what comes after it has one place fewer.
    const int64_t times = MostTimes(part.count, part.places);
    const int64_t next =
        std::min(Reach(part.places, times - 1, part.count),
                 part.count - Reach(part.places - 1, times - 1, part.count));
    for (int64_t k = 1; k <= next && !part.is_there; ++k) {
      steps.push_back({part.first + part.count - 1, part.first + k});
    }
    parts.push_back({part.first, next, part.places, false});
    parts.push_back(
        {part.first + next, part.count - next, part.places - 1, part.is_there});
  }
  return steps;
}

}  // namespace stowage::fit
