#ifndef STOWAGE_PLANNER_FIT_GRID_H_
#define STOWAGE_PLANNER_FIT_GRID_H_

// All ways to take a training step: numbers of micro-batches by shares on the host, how the
// iterations of its loops are made again, if they are (planner/fit/recompute/iterations.h), and how far
// its bodies are lowered (planner/fit/recompute/bodies.h). Each is made when it is
// first looked at, and kept; those aside of which a bound says that they cannot win
// are never searched.
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

/// Which iterations of loops are made again: none; each by itself; or as many at a time as take
/// the least bytes, where these are several, of which a little more runs again.
enum class Iterations : uint8_t { kKept, kEach, kInSegments };

/// What is done to loops and branches: which iterations are made again, and at which of the
/// levels found then bodies are, of which 0 leaves them as they are.
struct InsideWay {
  Iterations iterations = Iterations::kKept;
  size_t level = 0;
  friend auto operator<=>(const InsideWay&, const InsideWay&) = default;
};

/// That, and the number of micro-batches.
using Way = std::pair<InsideWay, int64_t>;

class Grid {
 public:
  Grid(StepBuilder build, Variant::Options options)
      : build_(std::move(build)), options_(std::move(options)) {}
  Grid(const Grid&) = delete;  // variants call back
  Grid& operator=(const Grid&) = delete;

  /// The step in so many micro-batches, with so much of it on the host, and this done to its
  /// loops and branches. Errors: the builder's, and the planner's.
  Result<Variant*> Get(int64_t micro_batches, Share share,
                       InsideWay inside = {});

  /// The cheapest step that fits, with these optimizations, and costs less than
  /// `most_cost`; absent where none is found. Of a larger set of optimizations, or a larger
  /// budget, it never costs more.
  Result<std::optional<FittedStep>> Cheapest(
      Bytes budget, const MemoryOptimizations& optimizations,
      double most_cost = kAnyCost);

  struct Need {
    Variant* variant = nullptr;
    Bytes bytes = 0;
  };
  /// What needs least with these optimizations: the smallest budget that Cheapest takes.
  Result<Need> Smallest(const MemoryOptimizations& optimizations);

  /// All Pareto points, by falling arena and rising cost. Where only states are moved
  /// Cheapest may find one between two of these.
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
  // Whether such a variant is looked at: not where a node alone needs more than the budget,
  // and, where a loop repeats the micro-batch, not with params on the host: its body reads
  // nothing there, and a node for each would be too many.
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
  // Ways to make iterations again, kKept first, once known.
  std::vector<Iterations> iterations_;
  // By micro-batches, and iterations made again.
  std::map<std::pair<int64_t, Iterations>, std::vector<BodyLevel>> levels_;
  std::map<std::pair<int64_t, size_t>, Bytes> by_states_;  // their arenas
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_GRID_H_
