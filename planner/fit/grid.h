#ifndef STOWAGE_PLANNER_FIT_GRID_H_
#define STOWAGE_PLANNER_FIT_GRID_H_

// All ways to take a training step: numbers of pieces by shares on the host, how the
// trips of its loops are made again, if they are (planner/fit/recompute/trips.h), and how far
// its bodies are lowered (planner/fit/recompute/bodies.h). Each is made when it is
// first looked at, and kept; those aside of which a bound says that they cannot win
// are never searched.
//
//   Grid grid(build, options);
//   Result<std::optional<FittedStep>> step = grid.Cheapest(64 << 20, levers);

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
#include "planner/fit/levers.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/pieces/pieces.h"
#include "planner/fit/recompute/bodies.h"
#include "planner/fit/recompute/trips.h"
#include "planner/fit/variant.h"

namespace stowage::fit {

/// Which trips of loops are made again: none; each by itself; or as many at a time as take
/// the least bytes, where these are several, of which a little more runs again.
enum class Trips : uint8_t { kKept, kEach, kInSegments };

/// What is done to loops and branches: which trips are made again, and at which of the
/// levels found then bodies are, of which 0 leaves them as they are.
struct InsideWay {
  Trips trips = Trips::kKept;
  size_t level = 0;
  friend auto operator<=>(const InsideWay&, const InsideWay&) = default;
};

/// That, and the number of pieces.
using Way = std::pair<InsideWay, int64_t>;

class Grid {
 public:
  Grid(StepBuilder build, Variant::Options options)
      : build_(std::move(build)), options_(std::move(options)) {}
  Grid(const Grid&) = delete;  // variants call back
  Grid& operator=(const Grid&) = delete;

  /// The step in so many pieces, with so much of it on the host, and this done to its
  /// loops and branches. Errors: the builder's, and the planner's.
  Result<Variant*> Get(int64_t pieces, Share share, InsideWay inside = {});

  /// The cheapest step that fits, with these levers; absent where none is found.
  /// Of a larger set of levers, or a larger budget, it never costs more.
  Result<std::optional<FittedStep>> Cheapest(Bytes budget,
                                             const Levers& levers);

  struct Need {
    Variant* variant = nullptr;
    Bytes bytes = 0;
  };
  /// What needs least with these levers: the smallest budget that Cheapest takes.
  Result<Need> Smallest(const Levers& levers);

  /// All bargains, by falling arena and rising cost. Where only states are moved
  /// Cheapest may find one between two of these.
  Result<std::vector<Bargain>> Frontier(const Levers& levers);

 private:
  struct Sample {
    PiecedStep step;
    std::vector<Offloadable> movable;
  };

  std::vector<Offloadable> Movable(const Graph& graph) const;
  Result<const Sample*> GetSample(int64_t pieces);
  Result<std::unique_ptr<Variant>> MakeVariant(int64_t pieces, Share share,
                                               InsideWay inside = {});
  Result<bool> HasBodies(int64_t pieces);
  Result<std::vector<Share>> Shares(const Levers& levers);
  Result<RemadeTrips> WithTripsAgain(int64_t pieces, const Graph& graph,
                                     Trips trips) const;
  Result<std::vector<Trips>> TripsToTry(int64_t pieces);
  Result<const std::vector<BodyLevel>*> Levels(int64_t pieces, Trips trips);
  Result<std::vector<Way>> Ways(const Levers& levers);
  Result<Bytes> ArenaAsItIs(int64_t pieces, size_t states);
  Result<std::optional<FittedStep>> FitByStates(int64_t pieces, Bytes budget,
                                                double limit);
  Result<double> LeastExtraCost(const Variant* variant,
                                std::span<const Way> ways, Bytes budget);
  Result<bool> CannotNeedLess(Way way, Share share, Recompute recompute,
                              Bytes most);

  const StepBuilder build_;
  const Variant::Options options_;
  std::map<int64_t, Sample> samples_;  // by pieces
  std::map<std::tuple<int64_t, Share, InsideWay>, std::unique_ptr<Variant>>
      variants_;
  // Ways to make trips again, kKept first, once known.
  std::vector<Trips> trips_;
  // By pieces, and trips made again.
  std::map<std::pair<int64_t, Trips>, std::vector<BodyLevel>> levels_;
  std::map<std::pair<int64_t, size_t>, Bytes> by_states_;  // their arenas
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_GRID_H_
