#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_REVOLVE_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_REVOLVE_H_

// In what order to make the states of a chain again, so that they can be read last
// first while only some are there at a time.
//
// State 0 is always there; each other is made of the one before it. To read them in
// reverse, a few are kept as the chain runs, and what lies between two of these is
// made again from the first, some of it kept in its turn: Revolve (A. Griewank and
// A. Walther, "Algorithm 799: Revolve", ACM Transactions on Mathematical Software
// 26(1), 2000). With c places for states, state 0's included and that of the state
// that is being made left out, l states take
//
//   t(l, c) = r l - beta(c + 1, r - 1),  beta(s, r) = (s + r)! / (s! r!),
//
// steps, r being the only number with beta(c, r - 1) < l <= beta(c, r); no order
// takes fewer (their Theorem 1). Of these steps the first l - 1 are the chain itself.
//
//   RevolveSteps(1000, 10) - 999;           // made again: 2,637 states
//   for (const RevolveStep& step : RevolveStepsAgain(1000, 10)) {
//     step.made;  // is made of state step.made - 1, right before
//     step.read;  // is read
//   }

#include <cstdint>
#include <vector>

namespace stowage::fit {

/// t(states, places), the first run of the chain included. Preconditions: both are
/// positive. Takes time with the result divided by `states`.
int64_t RevolveSteps(int64_t states, int64_t places);

/// State `made` is made again, on the way to state `read`, which is read next.
struct RevolveStep {
  int64_t read = 0;
  int64_t made = 0;
};

/// What is made again, in order; state states - 1 is read before any of it. A state
/// has its place until it was read, or was the start of what was made for the last
/// time before it is made again. Linear in the result.
std::vector<RevolveStep> RevolveStepsAgain(int64_t states, int64_t places);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_REVOLVE_H_
