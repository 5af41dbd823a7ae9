#ifndef STOWAGE_PLANNER_FIT_GRID_H_
#define STOWAGE_PLANNER_FIT_GRID_H_

// Searches all candidates for a training step. A Variant (planner/fit/variant.h) represents a
// candidate.
//
// A candidate is a combination of
//
//   - a number of micro-batches;
//   - a Share, which is the amount of values in host memory (planner/fit/offload/offload.h);
//   - a choice of how iterations of loops are recomputed (planner/fit/recompute/iterations.h);
//   - a level of recomputation in bodies (planner/fit/recompute/bodies.h).
//
// Variants are created on first use and cached. Candidates that a bound excludes are not searched.
//
//   Grid grid(build, options);
//   Result<std::optional<FittedStep>> step = grid.Cheapest(64 << 20, optimizations);

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/recompute/bodies.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/fit/variant.h"

namespace stowage::fit {

/// How loop iterations are recomputed. kKept recomputes none. kEach recomputes one iteration at a
/// time. kInSegments recomputes segments of several iterations, whose length requires the fewest
/// bytes. It needs slightly more operations than kEach.
enum class Iterations : uint8_t { kKept, kEach, kInSegments };

/// The changes to loops and branches: how iterations are recomputed, and the level of recomputation
/// in bodies. Level k is entry k - 1 of the result of FindBodyLevels. Level 0 does not modify
/// bodies.
struct InsideWay {
  Iterations iterations = Iterations::kKept;
  size_t level = 0;
  friend auto operator<=>(const InsideWay&, const InsideWay&) = default;
};

/// The changes to loops and branches, and the number of micro-batches.
using Way = std::pair<InsideWay, int64_t>;

class Grid {
 public:
  Grid(StepBuilder build, Variant::Options options)
      : build_(std::move(build)), options_(std::move(options)) {}
  Grid(const Grid&) = delete;  // variants keep a pointer to the grid
  Grid& operator=(const Grid&) = delete;

  /// Returns the candidate with this number of micro-batches, this share in host memory and these
  /// changes to loops and branches. The grid owns the result. Propagates errors of the builder and
  /// of the planner.
  Result<Variant*> Get(int64_t micro_batches, Share share,
                       InsideWay inside = {});

  /// Returns the cheapest step found that fits `budget` with these optimizations, or nullopt if no
  /// such step costs less than `most_cost`. A larger set of optimizations or a larger budget never
  /// costs more.
  Result<std::optional<FittedStep>> Cheapest(
      Bytes budget, const MemoryOptimizations& optimizations,
      double most_cost = kAnyCost);

  struct Need {
    Variant* variant = nullptr;
    Bytes bytes = 0;
  };
  /// Returns the smallest budget for which Cheapest finds a step with these optimizations, and the
  /// candidate that fits it.
  Result<Need> Smallest(const MemoryOptimizations& optimizations);

  /// Returns all Pareto points found, by falling arena and rising cost. Cheapest may find more
  /// points that offload only states, because Frontier tries at most 16 numbers of states.
  Result<std::vector<ParetoPoint>> Frontier(
      const MemoryOptimizations& optimizations);

 private:
  struct Sample {
    SampledStep step;
    std::vector<Offloadable> movable;
    // The most bytes of the arena that one node needs, except nodes with bodies.
    Bytes largest_node = 0;
  };

  std::vector<Offloadable> Movable(const Graph& graph) const;
  std::vector<Offloadable> MovableParams(const Graph& graph,
                                         bool trained) const;
  Result<const Sample*> GetSample(int64_t micro_batches);
  Result<std::unique_ptr<Variant>> MakeVariant(int64_t micro_batches,
                                               Share share,
                                               InsideWay inside = {});
  Result<bool> HasBodies(int64_t micro_batches);
  Result<std::vector<Share>> Shares(const MemoryOptimizations& optimizations);
  Result<RecomputedIterations> WithIterationsAgain(int64_t micro_batches,
                                                   const Graph& graph,
                                                   Iterations iterations) const;
  Result<std::vector<Iterations>> IterationsToTry(int64_t micro_batches);
  Result<const std::vector<BodyLevel>*> Levels(int64_t micro_batches,
                                               Iterations iterations);
  Result<std::vector<Way>> Ways(const MemoryOptimizations& optimizations);
  // Returns whether the candidate is tried. It is not tried if one node needs more than the budget.
  // It is also not tried if params are in host memory and a loop repeats more than four
  // micro-batches: bodies cannot read host memory, so the micro-batches would be unrolled.
  Result<bool> IsMade(int64_t micro_batches, Share share, Bytes budget);
  Result<Bytes> ArenaAsItIs(int64_t micro_batches, size_t states);
  Result<std::optional<FittedStep>> FitByStates(int64_t micro_batches,
                                                Bytes budget, double limit);
  Result<double> LeastExtraCost(const Variant* variant,
                                std::span<const Way> ways, Bytes budget);
  Result<bool> CannotNeedLess(Way way, Share share, Recompute recompute,
                              Bytes most);

  const StepBuilder build_;
  const Variant::Options options_;
  std::map<int64_t, Sample> samples_;  // by number of micro-batches
  std::map<std::tuple<int64_t, Share, InsideWay>, std::unique_ptr<Variant>>
      variants_;
  // The values to try, kKept first. Empty until known.
  std::vector<Iterations> iterations_;
  // By number of micro-batches and iterations.
  std::map<std::pair<int64_t, Iterations>, std::vector<BodyLevel>> levels_;
  // Arenas by number of micro-batches and of offloaded states.
  std::map<std::pair<int64_t, size_t>, Bytes> by_states_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_GRID_H_
