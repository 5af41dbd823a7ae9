#ifndef STOWAGE_TESTS_SUPPORT_RANK_RUNS_H_
#define STOWAGE_TESTS_SUPPORT_RANK_RUNS_H_

// Training steps of one of several ranks, for bitwise comparison with those of one rank
// that takes as many micro-batches.
//
//   const Content one = RunRank(net, {}, /*micro_batches=*/2, 0, *MakeCpuBackend({}));
//   ... on each of two ranks, joined by its backend:
//   const Content own = RunRank(net, {.ranks = 2}, 1, rank, *backend);
//   CHECK(Differences(one, own, rank) == "");

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "runtime/backend.h"
#include "train/step_builder.h"

namespace stowage::testing {

struct RankNet {
  std::string name;
  ModelFn model;
  int64_t batch = 0;  // of all ranks
  TrainOptions options = {};
};

struct RankHow {
  int64_t ranks = 1;
  Sharding shard = Sharding::kNone;
  /// The budget, as a multiple of the least that all optimizations reach; absent: no
  /// optimization.
  std::optional<double> tight = {};
  bool poison = true;
};

/// The number of steps of a run.
inline constexpr int64_t kRankSteps = 3;

/// The results of a run: the outputs of each step ("loss@1"), and the final params and
/// states.
using Content = std::map<std::string, std::vector<std::byte>>;

/// Plans and runs the steps of rank `rank`, which takes its part of a batch in `micro_batches`.
/// Inputs follow from names and steps. Fails the test that calls it where anything fails.
Content RunRank(const RankNet& net, const RankHow& how, int64_t micro_batches,
                int rank, Backend& backend);

/// The names of values in which rank `rank` differs from a run on one rank; a block is compared
/// with that part of the value.
std::string Differences(const Content& one, const Content& own, int rank);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANK_RUNS_H_
