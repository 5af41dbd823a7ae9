#ifndef STOWAGE_TOOLS_SHARD_TASK_H_
#define STOWAGE_TOOLS_SHARD_TASK_H_

// Batches of windows of tokens that files have already (data/token_shards.h), read as
// they are needed.
//
//   Result<std::unique_ptr<Task>> task =
//       MakeShardTask(std::make_shared<const TokenShards>(*std::move(shards)), /*batch=*/4,
//                     /*seq=*/1024, seed);

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "data/token_shards.h"
#include "tools/task.h"

namespace stowage::tools {

/// A step draws its windows by the seed and its number from all places of the train part;
/// no window crosses two files. An evaluation takes at most `evaluation_batches` batches of
/// windows side by side of the held-out part. Error kInvalidArgument: a part has no window
/// of `seq` tokens and the next one.
Result<std::unique_ptr<Task>> MakeShardTask(
    std::shared_ptr<const TokenShards> shards, int64_t batch, int64_t seq,
    uint64_t seed, int64_t evaluation_batches = kEvaluationBatches,
    const TaskShare& share = {});

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SHARD_TASK_H_
