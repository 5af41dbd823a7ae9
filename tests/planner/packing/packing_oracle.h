#ifndef STOWAGE_TESTS_PLANNER_PACKING_PACKING_ORACLE_H_
#define STOWAGE_TESTS_PLANNER_PACKING_PACKING_ORACLE_H_

// A validator and a solver of packing by brute force, and random problems. Nothing here calls the
// code under test.

#include <cstdint>
#include <random>

#include "planner/packing/problem.h"

namespace stowage::packing {

/// Compares every pair of buffers. O(n^2).
bool IsGoodPacking(const Problem& problem, const Solution& solution);

/// The smallest height of any packing, by trying every offset of every buffer.
/// For a handful of buffers with small sizes.
Bytes OptimalHeight(const Problem& problem);

/// The largest sum of live sizes, by looking at every birth; or the highest
/// fixed end. O(n^2).
Bytes NaiveLowerBound(const Problem& problem);

/// A problem that CheckProblem accepts, of up to `most` buffers: alignments
/// that are powers of two and not, sizes of zero, equal sizes, lifetimes of one
/// unit and of all time, fixed buffers.
Problem RandomProblem(std::mt19937_64& random, int most);

/// A uniform number in [low, high].
int64_t Uniform(std::mt19937_64& random, int64_t low, int64_t high);

}  // namespace stowage::packing

#endif  // STOWAGE_TESTS_PLANNER_PACKING_PACKING_ORACLE_H_
