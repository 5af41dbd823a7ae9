#ifndef STOWAGE_TESTS_PLANNER_PACKING_PACKING_ORACLE_H_
#define STOWAGE_TESTS_PLANNER_PACKING_PACKING_ORACLE_H_

// Provides a brute-force validator and solver for packing problems, and random problems. They share
// no code with the packers that they test.

#include <cstdint>
#include <random>

#include "planner/packing/problem.h"

namespace stowage::packing {

/// Returns whether `solution` is a valid packing. Compares every pair of
/// buffers, in O(n^2).
bool IsGoodPacking(const Problem& problem, const Solution& solution);

/// Returns the minimum height of any packing. Tries every offset of every
/// buffer, so it is only for a few buffers with small sizes.
Bytes OptimalHeight(const Problem& problem);

/// Returns the largest sum of the sizes of live buffers at any time, or the
/// highest end of a buffer with a fixed offset if that is larger. Computes the
/// sum at the start of every lifetime, in O(n^2).
Bytes NaiveLowerBound(const Problem& problem);

/// Returns a random problem with up to `most` buffers, which CheckProblem
/// accepts. Alignments include numbers that are not powers of two. Some buffers
/// have size 0, equal sizes, lifetimes of one unit or of the whole time, or
/// fixed offsets.
Problem RandomProblem(std::mt19937_64& random, int most);

/// Returns a uniform random number in [low, high].
int64_t Uniform(std::mt19937_64& random, int64_t low, int64_t high);

}  // namespace stowage::packing

#endif  // STOWAGE_TESTS_PLANNER_PACKING_PACKING_ORACLE_H_
