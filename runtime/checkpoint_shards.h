#ifndef STOWAGE_RUNTIME_CHECKPOINT_SHARDS_H_
#define STOWAGE_RUNTIME_CHECKPOINT_SHARDS_H_

// A checkpoint that ranks save together: each writes a shard with its part of every param
// and state, split or not, and when all have, one writes the index that tells of them
// (runtime/checkpoint_format.h). No rank holds or writes more than its part. Until the
// index is there, which replaces the one before whole, the checkpoint is the one before:
// a shard never replaces another that has other content.
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

#include "base/output_file.h"
#include "base/result.h"
#include "runtime/checkpoint_format.h"
#include "runtime/initial_values.h"
#include "runtime/session.h"

namespace stowage {

/// Makes the folder of the shards of `path`, and a file in it that shows that this rank
/// writes there; by `sign`, a number that all ranks draw together, they know it from those
/// of other runs. Then whether rank 0 sees the files of all, and the end of one. Errors:
/// kIo.
Status PrepareShards(const std::string& path, int64_t rank, int64_t sign);
Status CheckSigns(const std::string& path, int64_t ranks, int64_t sign);
void RemoveSign(const std::string& path, int64_t rank, int64_t sign);

/// Writes the shard of this rank, or writes it again. Returns its digest. Errors: those of
/// SaveCheckpoint.
Result<uint64_t> SaveShard(const Runner& step, const RankValues& values,
                           const std::string& path, int64_t number,
                           const CheckpointBase& base = {});

/// Replaces `file` by the index of these shards, by rank. Errors: those of
/// SaveCheckpoint but kNotFinite; kIo where a shard is not to be seen from here.
Status SaveShardIndex(const Runner& step, const RankValues& values,
                      std::span<const uint64_t> shards, const OutputFile& file,
                      const std::string& path, int64_t number,
                      const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Removes the shards of `path` that no index tells of among the files beside it, and what
/// ranks left there that were killed: while no rank writes there. What cannot be removed
/// stays. Error: a file beside it may be an index and cannot be read; nothing is removed.
Status RemoveUnusedShards(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_SHARDS_H_
