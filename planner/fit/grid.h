#ifndef STOWAGE_PLANNER_FIT_GRID_H_
#define STOWAGE_PLANNER_FIT_GRID_H_

// All candidates (planner/fit/variant.h) for a training step: numbers of micro-batches by shares
// on the host, by how iterations of loops are recomputed (planner/fit/recompute/iterations.h),
// by levels of recomputation in bodies (planner/fit/recompute/bodies.h). Each is made on first
// use and kept. Candidates that a bound excludes are never searched.
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

/// How iterations of loops are recomputed: not at all; one at a time; or in segments, as many at
/// a time as take the fewest bytes, at slightly more operations.
enum class Iterations : uint8_t { kKept, kEach, kInSegments };

/// The changes to loops and branches: how iterations are recomputed, and the level of
/// recomputation in bodies; level 0 leaves them unmodified.
struct InsideWay {
  Iterations iterations = Iterations::kKept;
  size_t level = 0;
  friend auto operator<=>(const InsideWay&, const InsideWay&) = default;
};

/// The same, and the number of micro-batches.
using Way = std::pair<InsideWay, int64_t>;

class Grid {
 public:
  Grid(StepBuilder build, Variant::Options options)
      : build_(std::move(build)), options_(std::move(options)) {}
  Grid(const Grid&) = delete;  // variants call back
  Grid& operator=(const Grid&) = delete;

  /// The candidate with these micro-batches, share on the host, and changes to loops and
  /// branches. Errors: the builder's, and the planner's.
  Result<Variant*> Get(int64_t micro_batches, Share share,
                       InsideWay inside = {});

  /// The cheapest step found that fits with these optimizations, if any costs less than
  /// `most_cost`. A larger set of optimizations, or a larger budget, never costs more.
  Result<std::optional<FittedStep>> Cheapest(
      Bytes budget, const MemoryOptimizations& optimizations,
      double most_cost = kAnyCost);

  struct Need {
    Variant* variant = nullptr;
    Bytes bytes = 0;
  };
  /// The smallest budget that Cheapest meets with these optimizations, and its candidate.
  Result<Need> Smallest(const MemoryOptimizations& optimizations);

  /// All Pareto points, by falling arena and rising cost. If only states are moved, Cheapest
  /// may find more points between two of these.
  Result<std::vector<ParetoPoint>> Frontier(
      const MemoryOptimizations& optimizations);

 private:
  struct Sample {
    SampledStep step;
    std::vector<Offloadable> movable;
    Bytes largest_node = 0;  // LargestNode
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
  // Whether such a candidate is tried: not if a single node needs more than the budget, and not
  // with params on the host if a loop repeats the micro-batch, since bodies read nothing there.
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
  std::map<int64_t, Sample> samples_;  // by micro-batches
  std::map<std::tuple<int64_t, Share, InsideWay>, std::unique_ptr<Variant>>
      variants_;
  // The values to try, kKept first, once known.
  std::vector<Iterations> iterations_;
  // By micro-batches and iterations.
  std::map<std::pair<int64_t, Iterations>, std::vector<BodyLevel>> levels_;
  std::map<std::pair<int64_t, size_t>, Bytes> by_states_;  // their arenas
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_GRID_H_
