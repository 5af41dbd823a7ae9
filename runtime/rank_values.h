#ifndef STOWAGE_RUNTIME_RANK_VALUES_H_
#define STOWAGE_RUNTIME_RANK_VALUES_H_

// How a rank keeps the params and states of a step: whole, or a block of each, of which
// rank r has the r-th. Blocks are flat, of as many elements at all ranks; the last are
// filled up behind the value's end.
//
//   const RankValues values{.whole = step_of_one_rank, .rank = 2, .ranks = 4,
//                           .own_name = &OwnName};
//   BlockOf(values, runner.graph(), w);  // 25, where "own:w" has 25 elements

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace stowage {

struct RankValues {
  const Graph& whole;  // has them all, under their names and in their order
  int64_t rank = 0;
  int64_t ranks = 1;
  /// What a rank calls its block of a value; null where nothing is split.
  std::string (*own_name)(std::string_view name) = nullptr;
};

/// The elements of a block of `value`, a param or state of `values.whole`, in the step of
/// a rank; none where the step keeps it whole.
std::optional<int64_t> BlockOf(const RankValues& values, const Graph& step,
                               const ValueInfo& value);

/// Params, then states, in the order of `graph`.
std::vector<ValueId> PersistentValues(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_RANK_VALUES_H_
