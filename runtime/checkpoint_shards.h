#ifndef STOWAGE_RUNTIME_CHECKPOINT_SHARDS_H_
#define STOWAGE_RUNTIME_CHECKPOINT_SHARDS_H_

// A checkpoint that ranks save together: each writes a shard with its part of every param
// and state, split or not; then one writes the index of all shards
// (runtime/checkpoint_format.h). No rank holds or writes more than its part. Until the
// new index atomically replaces the old one, the old checkpoint is valid: a shard never
// replaces another that has other content.
//
//   Result<uint64_t> shard = SaveShard(step, values, "run.safetensors", 400);
//   ...                                       // the digests of all ranks
//   Status saved = SaveShardIndex(step, values, digests, file, 400, notes);
//   Status removed = RemoveUnusedShards("run.safetensors");
//
// All ranks must see the folder that the shards are in, and LoadCheckpoint reads it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "runtime/checkpoint_format.h"
#include "runtime/initial_values.h"
#include "runtime/session.h"

namespace stowage {

/// Creates the folder of the shards of `path`, and a file in it that shows that this rank
/// can write there; `sign`, a random number common to all ranks, distinguishes it from
/// those of other runs. Rank 0 then checks that it sees the files of all, and that they
/// can be removed. Errors: kIo.
Status PrepareShards(const std::string& path, int64_t rank, int64_t sign);
Status CheckSigns(const std::string& path, int64_t ranks, int64_t sign);
void RemoveSign(const std::string& path, int64_t rank, int64_t sign);

/// Writes the shard of this rank, or rewrites it. Returns its digest. Errors: those of
/// SaveCheckpoint.
Result<uint64_t> SaveShard(const Runner& step, const RankValues& values,
                           const std::string& path, int64_t number,
                           const CheckpointBase& base = {});

/// Replaces `file` by the index of these shards, by rank. Errors: those of SaveCheckpoint
/// but kNotFinite; kIo if a shard is not visible from here.
Status SaveShardIndex(const Runner& step, const RankValues& values,
                      std::span<const uint64_t> shards, const OutputFile& file,
                      const std::string& path, int64_t number,
                      const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Removes the shards of `path` that no index beside it refers to, and leftovers of
/// killed ranks. No rank may be writing there. Files that cannot be removed stay. Error:
/// a file beside it may be an index and cannot be read; nothing is removed.
Status RemoveUnusedShards(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_SHARDS_H_
