#ifndef STOWAGE_TOOLS_RANK_FLAGS_H_
#define STOWAGE_TOOLS_RANK_FLAGS_H_

// The options that say how many ranks take a step together, what they split, and over
// which link they are joined.
//
//   AddRankOptions(options, &flags);
//   Result<RankPlan> ranks = ReadRankFlags(flags);
//   SetRanks({.ranks = ranks->ranks, .shard = ranks->shards.front()}, &training);

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/ranks.h"
#include "base/result.h"
#include "tools/options.h"
#include "train/training.h"

namespace stowage::tools {

struct RankFlags {
  int64_t ranks = 1;
  std::string shard = "none";
  std::string link;  // empty: none is named
};

/// --shard, which needs no number of ranks where these are joined already.
void AddShardOption(Options& options, std::string* shard);
/// That, --ranks and --link.
void AddRankOptions(Options& options, RankFlags* flags);

/// The shardings that --shard means: one, or for "auto" all, from the least that is
/// split. Error kInvalidArgument for anything else.
Result<std::vector<Sharding>> ReadShard(const std::string& shard);

/// What a link carries in a second, one way.
struct Link {
  std::string name;
  double bytes_per_second = 0;
};

struct RankPlan {
  int64_t ranks = 1;
  std::vector<Sharding> shards = {Sharding::kNone};  // to try, in this order
  std::optional<Link> link = {};
};

/// Errors, kInvalidArgument: no ranks; a sharding or a link of one rank; those of
/// ReadShard; a link of an unknown name that is no size.
Result<RankPlan> ReadRankFlags(const RankFlags& flags);

/// Makes the training that of a rank, whose part of the batch bounds its pieces.
void SetRanks(const Ranks& ranks, TrainingSpec* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RANK_FLAGS_H_
