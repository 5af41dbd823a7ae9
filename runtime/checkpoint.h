#ifndef STOWAGE_RUNTIME_CHECKPOINT_H_
#define STOWAGE_RUNTIME_CHECKPOINT_H_

// Checkpoints: params, optimizer state and step number in one file of the safetensors
// layout, so that other tools can read the weights. A digest in the metadata detects a
// flipped bit. Notes of the run that saved it (its seed, its data, ...) are metadata too.
//
//   Status saved = SaveCheckpoint(runner, "model.safetensors", /*step=*/300);
//   Result<int64_t> step = LoadCheckpoint(runner, "model.safetensors");
//
// Params that no step changes and that another file has, such as the base model of
// adapters, may be left out (CheckpointBase): the checkpoint then records that file.
//
// Several ranks can save together: each writes a shard with its part of every param and
// state, then one writes the index of all shards (runtime/checkpoint_file.h). No rank holds
// or writes more than its part. Until the new index atomically replaces the old one, the
// old checkpoint is valid. All ranks must see the folder of the shards. All functions that
// read checkpoints accept a file or an index.
//
//   Result<uint64_t> shard = SaveShard(step, values, "run.safetensors", 400);
//   ...                                       // the digests of all ranks
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

/// Writes every param and state of `runner`'s graph but those of `base`, `step` and
/// `notes`. Atomic: the file is replaced completely or is unchanged (base/files.h).
/// A run that saves more than once, or late, claims the file first. Errors: kIo;
/// kNotFinite, with the file unchanged, if a written param or state holds NaN or
/// infinity; kInvalidArgument for a step below 0 or above kMaxCheckpointStep, or a note
/// with a reserved name.
Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});
Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Error kNotFinite, naming the first, if a param or state of `runner` holds NaN or
/// infinity.
Status CheckFinite(const Runner& runner);

/// Reads only the header. Errors as LoadCheckpoint's, except that the tensors' bytes are
/// not checked.
Result<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

/// Reads all of the checkpoint at `path`. Errors as ReadCheckpointInfo's, and
/// kInvalidArgument if its content is corrupt.
Status CheckCheckpoint(const std::string& path);

/// Writes the params, and the model's own states (runtime/weights.h), under their
/// names, for other programs: a safetensors file, or an NPZ if the path ends in .npz or
/// .NPZ, which holds less than 4 GiB and no bf16 (NpzBytes' errors). Atomic and refused
/// as SaveCheckpoint is.
Status SaveWeights(const Runner& runner, const OutputFile& file);
/// Checks before the first step whether SaveWeights can write the weights of a step of
/// `graph` to `path`. Error kUnsupported: an NPZ with a param of bf16, or of 4 GiB.
Status CheckSaveWeights(const Graph& graph, const std::string& path);
Status SaveWeights(const Runner& runner, const std::string& path);

/// Reads the file and checks all of it, then reads it again and writes the values, each
/// part after it is compared with the checked one: the values are bit-identical to the
/// saved ones, or nothing is changed. If the second read fails, or the file changes in
/// between, no mixture remains: its values then count as never given (AllOrNone in
/// runtime/values.h). Returns the step. A training program requires all of its
/// states and no others; one that updates nothing (evaluation) may load a training
/// checkpoint, and ignores its further states. Params of `base` that the file leaves out
/// are unchanged; the caller has given them their values. Errors: kNotFound, kIo;
/// kInvalidArgument for a truncated or altered file, a param that is missing, unknown, or
/// of another type or shape, and for a checkpoint of another base.
Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path,
                               const CheckpointBase& base = {});

/// As above, for one of several ranks: it takes only its block of values that its step
/// splits, and reads only the shards that it needs. The checkpoint may be of any number
/// of ranks. Every rank needs the file.
Result<int64_t> LoadCheckpoint(Runner& step, const RankValues& values,
                               const std::string& path,
                               const CheckpointBase& base = {});

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

#endif  // STOWAGE_RUNTIME_CHECKPOINT_H_
