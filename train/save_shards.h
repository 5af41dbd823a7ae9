#ifndef STOWAGE_TRAIN_SAVE_SHARDS_H_
#define STOWAGE_TRAIN_SAVE_SHARDS_H_

// The shards of a checkpoint, saved by all ranks at a time, who learn of each other how it
// went: all of them have saved, or all have the same error.
//
//   Result<std::vector<uint64_t>> shards =
//       SaveShards(step, values, "run.safetensors", 400, {}, collectives);
//   if (shards.ok() && values.rank == 0) {
//     saved = SaveShardIndex(step, values, *shards, file, "run.safetensors", 400);
//   }

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/checkpoint_info.h"
#include "runtime/collectives.h"
#include "runtime/rank_values.h"
#include "runtime/session.h"

namespace stowage {

/// Saves this rank's shard, and gives what SaveShardIndex asks for: the digests of those
/// of all ranks, each of which must call this. `collectives` may be null where there is
/// one rank. Errors: that of the first rank that has one; kDevice when a rank was lost.
Result<std::vector<uint64_t>> SaveShards(
    const Runner& step, const RankValues& values, const std::string& path,
    int64_t number, const CheckpointBase& base, Collectives* collectives);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_SAVE_SHARDS_H_
