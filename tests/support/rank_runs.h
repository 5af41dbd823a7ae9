#ifndef STOWAGE_TESTS_SUPPORT_RANK_RUNS_H_
#define STOWAGE_TESTS_SUPPORT_RANK_RUNS_H_

// Runs training steps of one of several ranks, for bitwise comparison with a run on a single
// rank. The single rank uses as many micro-batches as the several ranks use in total.
//
//   const Content one = RunRank(net, {}, /*micro_batches=*/2, 0, *MakeCpuBackend({}));
//   ... on each of two ranks, with a backend that connects them:
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
  int64_t batch = 0;  // the sum over all ranks
  TrainOptions options = {};
};

struct RankHow {
  int64_t ranks = 1;
  Sharding shard = Sharding::kNone;
  /// The budget, as a multiple of the smallest budget that the memory optimizations can reach. If
  /// absent, no memory optimization except micro-batches is used.
  std::optional<double> tight = {};
  bool poison = true;
};

/// The number of steps of a run.
inline constexpr int64_t kRankSteps = 3;

/// The results of a run as bytes, keyed by name: the outputs of each step ("loss@1"), and the final
/// params and states.
using Content = std::map<std::string, std::vector<std::byte>>;

/// Plans and runs the steps of rank `rank`, which splits its share of the batch into
/// `micro_batches`. The content of an input depends only on its name and the step. Fails the
/// running doctest case if planning or running fails.
Content RunRank(const RankNet& net, const RankHow& how, int64_t micro_batches,
                int rank, Backend& backend);

/// Returns the names of the values that differ between `own`, the run of rank `rank`, and `one`,
/// the run on a single rank. Each name is followed by a space. A value of which the rank owns only
/// a block is compared with that block of the whole value.
std::string Differences(const Content& one, const Content& own, int rank);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANK_RUNS_H_
