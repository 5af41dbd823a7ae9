#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "planner/fit/recompute/chain.h"

namespace stowage::fit {
namespace {

// The fewest steps to read `states` states last first with `places`, one of them the
// first state's, by number of states: the next state to keep is any (Griewank and
// Walther 2000, equation 1).
std::vector<int64_t> FewestSteps(int64_t states, int64_t places) {
  const auto at = [](int64_t n) { return static_cast<size_t>(n); };
  std::vector<int64_t> fewest(at(states + 1), 0);
  for (int64_t n = 2; n <= states; ++n) fewest[at(n)] = n * (n - 1) / 2;
  for (int64_t c = 2; c <= places; ++c) {
    const std::vector<int64_t> one_less = fewest;
    for (int64_t n = 2; n <= states; ++n) {
      int64_t best = std::numeric_limits<int64_t>::max();
      for (int64_t m = 1; m < n; ++m) {
        best = std::min(best, m + one_less[at(n - m)] + fewest[at(m)]);
      }
      fewest[at(n)] = best;
    }
  }
  return fewest;
}

TEST_CASE("the closed form is the best of all ways to choose what is kept") {
  for (int64_t places = 1; places <= 12; ++places) {
    const std::vector<int64_t> fewest = FewestSteps(300, places);
    for (int64_t states = 1; states <= 300; ++states) {
      CHECK(RevolveSteps(states, places) ==
            fewest[static_cast<size_t>(states)]);
    }
  }
}

TEST_CASE("figures of the closed form, by hand") {
  CHECK(RevolveSteps(1, 1) == 0);
  CHECK(RevolveSteps(10, 1) == 45);  // 9 + 8 + ... + 1
  CHECK(RevolveSteps(10, 10) == 9);  // all are kept
  CHECK(RevolveSteps(10, 9) == 9);   // the last is being made
  CHECK(RevolveSteps(10, 8) == 10);  // and one is made twice
  CHECK(RevolveSteps(10, 3) == 15);  // 2 x 10 - 5: beta(3, 1) < 10 = beta(3, 2)
  CHECK(RevolveSteps(1000, 1) == 499'500);
}

// Plays the steps. How many states but the first were there at most, and how many
// steps were taken; -1 where a step could not be.
struct Played {
  size_t most = 0;
  int64_t steps = 0;
};
Played Play(int64_t states, int64_t places) {
  struct Event {
    bool is_read;
    int64_t state;
  };
  std::vector<Event> events;
  for (int64_t k = 1; k < states; ++k) events.push_back({false, k});
  events.push_back({true, states - 1});
  int64_t read = states - 1;
  const auto read_until = [&](int64_t next) {
    while (read > next) events.push_back({true, --read});
  };
  for (const RevolveStep& step : RevolveStepsAgain(states, places)) {
    read_until(step.read + 1);
    events.push_back({false, step.made});
  }
  read_until(0);
  // Backward: what is wanted later. A state that is made from is wanted.
  Played played;
  std::set<int64_t> wanted;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->is_read) {
      wanted.insert(event->state);
    } else {
      ++played.steps;
      wanted.erase(event->state);
      wanted.insert(event->state - 1);
    }
    wanted.erase(0);  // which is always there
    played.most = std::max(played.most, wanted.size());
  }
  CHECK(wanted.empty());
  return played;
}

TEST_CASE("the steps take as many as the closed form, in so many places") {
  for (const int64_t states : {1, 2, 3, 7, 30, 100, 365}) {
    for (int64_t places = 1; places <= states; ++places) {
      INFO(states, " states in ", places);
      const Played played = Play(states, places);
      CHECK(played.steps == RevolveSteps(states, places));
      // One place is the first state's; one more is that of what is being made.
      CHECK(played.most <= static_cast<size_t>(places));
    }
  }
}

}  // namespace
}  // namespace stowage::fit
