#ifndef STOWAGE_RUNTIME_CHECKPOINT_H_
#define STOWAGE_RUNTIME_CHECKPOINT_H_

// Saves and loads checkpoints, which hold params, optimizer state and the step number. A
// checkpoint is one file in the safetensors format, so other tools can read the weights. A
// digest in the metadata detects a flipped bit. Notes of the run that saved it (such as its
// seed and its data) are also metadata.
//
//   Status saved = SaveCheckpoint(runner, "model.safetensors", /*step=*/300);
//   Result<int64_t> step = LoadCheckpoint(runner, "model.safetensors");
//
// Params that no step changes and that another file has, such as the base model of adapters,
// may be omitted (CheckpointBase). The checkpoint then records that file.
//
// Several ranks can save together. Each rank writes a shard with its block of every param and
// state. Then one rank writes the index of all shards (runtime/checkpoint_file.h). No rank
// holds or writes more than its block. The old checkpoint is valid until the new index
// atomically replaces the old one. All ranks must have access to the folder of the shards. All
// functions that read checkpoints accept a file or an index.
//
//   Result<uint64_t> shard = SaveShard(step, values, "run.safetensors", 400);
//   ...                                       // Gather the digests of all ranks.
//   Status saved = SaveShardIndex(step, values, digests, file, 400, notes);
//   Status removed = RemoveUnusedShards("run.safetensors");

#include <cstdint>
#include <span>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "runtime/checkpoint_file.h"
#include "runtime/session.h"
#include "runtime/values.h"

namespace stowage {

/// Writes every param and state of `runner`'s graph except the params of `base`, and `step` and
/// `notes`. The write is atomic: the file is replaced completely or is unchanged
/// (base/files.h). A run that saves more than once, or late, should claim the file first
/// (OutputFile::Claim). Returns kIo if the file cannot be written. Returns kNotFinite, with the
/// file unchanged, if a param or state holds NaN or infinity. Returns kInvalidArgument if the
/// step is below 0 or above kMaxCheckpointStep, or a note has a reserved name.
Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});
Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Returns kNotFinite if a param or state of `runner` holds NaN or infinity. The message names
/// the first one.
Status CheckFinite(const Runner& runner);

/// Reads only the header of the checkpoint at `path`. Returns the errors of LoadCheckpoint, but
/// does not check the bytes of the tensors.
Result<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

/// Reads the complete checkpoint at `path`. Propagates errors of ReadCheckpointInfo. Returns
/// kInvalidArgument if its content is corrupt.
Status CheckCheckpoint(const std::string& path);

/// Writes the params, and the model's own states (runtime/weights.h), under their names, for
/// other programs. Writes a safetensors file, or an NPZ if the path ends in .npz or .NPZ. An
/// NPZ must be smaller than 4 GiB and cannot contain bf16 (see the errors of NpzBytes). Atomic,
/// and refused for non-finite values, as SaveCheckpoint is.
Status SaveWeights(const Runner& runner, const OutputFile& file);
/// Checks before the first step whether SaveWeights can write the weights of a step of `graph`
/// to `path`. Returns kUnsupported for an NPZ if a param is bf16 or the weights are 4 GiB or
/// larger.
Status CheckSaveWeights(const Graph& graph, const std::string& path);
Status SaveWeights(const Runner& runner, const std::string& path);

/// Loads the params and states in a checkpoint, and returns its step. Reads and checks the
/// complete file first. Then reads it a second time, compares each part with the checked part,
/// and writes the values. The values are bit-identical to the saved values, or nothing is
/// changed. If the second read fails, or the file changes in between, the values of the file
/// count as never set, so that no mixture remains (AllOrNone in runtime/values.h).
///
/// A training program requires all of its states and no others. A program that updates nothing,
/// such as evaluation, may load a training checkpoint, and ignores the additional states.
/// Params of `base` that the file omits are unchanged. The caller must have set them.
///
/// Returns kNotFound or kIo if the file cannot be read. Returns kInvalidArgument if the file is
/// truncated or altered, a param is missing, unknown, or of a different type or shape, or the
/// checkpoint has a different base.
Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path,
                               const CheckpointBase& base = {});

/// Loads a checkpoint as above, for one of several ranks. The rank loads only its block of
/// values that its step splits, and reads only the shards that it needs. The checkpoint may be
/// of any number of ranks. Every rank must have access to the file.
Result<int64_t> LoadCheckpoint(Runner& step, const RankValues& values,
                               const std::string& path,
                               const CheckpointBase& base = {});

/// Creates the folder of the shards of `path`, and a file in it that shows that this rank can
/// write to the folder. `sign`, a random number common to all ranks, distinguishes it from the
/// files of other runs. Returns kIo on failure.
Status PrepareShards(const std::string& path, int64_t rank, int64_t sign);
/// Checks that the files that PrepareShards has created on all ranks are visible from this rank.
/// Returns kIo if one is not.
Status CheckSigns(const std::string& path, int64_t ranks, int64_t sign);
/// Removes the file that PrepareShards has created for `rank`, if there is one.
void RemoveSign(const std::string& path, int64_t rank, int64_t sign);

/// Writes the shard of this rank, or rewrites it. Returns its digest. Propagates errors of
/// SaveCheckpoint.
Result<uint64_t> SaveShard(const Runner& step, const RankValues& values,
                           const std::string& path, int64_t number,
                           const CheckpointBase& base = {});

/// Replaces `file` by the index of these shards, which are in order of rank. Returns kIo if a
/// shard is not visible from this rank. Returns the errors of SaveCheckpoint except kNotFinite.
Status SaveShardIndex(const Runner& step, const RankValues& values,
                      std::span<const uint64_t> shards, const OutputFile& file,
                      const std::string& path, int64_t number,
                      const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Removes the shards of `path` that no index in the same folder as `path` refers to, and
/// temporary files of killed ranks. No rank may be writing there. Files that cannot be removed
/// remain. Returns an error and removes nothing if a file in that folder may be an index and
/// cannot be read.
Status RemoveUnusedShards(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_H_
