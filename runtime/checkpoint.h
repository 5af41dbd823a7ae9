#ifndef STOWAGE_RUNTIME_CHECKPOINT_H_
#define STOWAGE_RUNTIME_CHECKPOINT_H_

// Saves and loads checkpoints, which contain params, optimizer states and the step number. A
// checkpoint is one file in the safetensors format, so other tools can read the weights. Its
// metadata contain a digest, which detects corruption, and notes of the run that saved it, such as
// the seed and the data.
//
//   Status saved = SaveCheckpoint(runner, "model.safetensors", /*step=*/300);
//   Result<int64_t> step = LoadCheckpoint(runner, "model.safetensors");
//
// Params that no step changes and that are in another file, such as the base model of adapters,
// may be omitted (CheckpointBase). The checkpoint then identifies this file.
//
// Several ranks can save one checkpoint together. Each rank writes a shard with its block of every
// param and state. Then one rank writes the index of all shards (runtime/checkpoint_file.h). No
// rank writes more than its blocks. The old checkpoint is valid until the new index atomically
// replaces the old one. All ranks must have access to the folder of the shards. All functions that
// read checkpoints accept a file or an index.
//
//   Result<uint64_t> shard = SaveShard(step, values, "run.safetensors", /*number=*/400);
//   ...                                       // Gather the digests of all ranks.
//   Status saved = SaveShardIndex(step, values, digests, file, "run.safetensors",
//                                 /*number=*/400, notes);
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

/// Writes a checkpoint of step `step` with `notes`. It contains all params and states of `runner`'s
/// graph except the params of `base`. The write is atomic: the file is replaced completely or is
/// unchanged (base/files.h). A run that saves more than once, or only at its end, should claim the
/// file first (OutputFile::Claim). Returns kIo if the file cannot be written. Returns kNotFinite,
/// with the file unchanged, if a param or state contains NaN or infinity. Returns kInvalidArgument
/// if the step is below 0 or above kMaxCheckpointStep, if a note has a reserved name (IsOwnName),
/// or if a param or state was never set.
Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});
Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Returns kNotFinite if a param or state of `runner` contains NaN or infinity. The message names
/// the first one. Propagates errors of Runner::ReadPart.
Status CheckFinite(const Runner& runner);

/// Returns the metadata of the checkpoint at `path`. Reads only the header, and does not check the
/// bytes of tensors. Returns kNotFound or kIo if the file cannot be read, and kInvalidArgument if
/// it is not a checkpoint, or if its header or index is damaged.
Result<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

/// Reads the complete checkpoint at `path` and checks that its content is as it was saved.
/// Propagates errors of CheckpointFile::Open and CheckpointFile::Check.
Status CheckCheckpoint(const std::string& path);

/// Writes the weights of `runner` under their names, for other programs. These are the params and
/// the model's states (WeightValues in runtime/weights.h). Writes a safetensors file, or an NPZ if
/// the path ends in .npz or .NPZ. An NPZ must be smaller than 4 GiB and cannot contain bf16
/// (NpzBytes in formats/npy.h describes the errors). As in SaveCheckpoint, the write is atomic, and
/// non-finite values give kNotFinite.
Status SaveWeights(const Runner& runner, const OutputFile& file);
/// Checks, for example before the first step, whether SaveWeights can write the weights of a step
/// of `graph` to `path`. Returns kUnsupported for an NPZ if a weight is bf16 or if the weights have
/// 4 GiB or more.
Status CheckSaveWeights(const Graph& graph, const std::string& path);
Status SaveWeights(const Runner& runner, const std::string& path);

/// Loads the params and states in a checkpoint into `runner`, and returns the checkpoint's step.
/// Reads and checks the complete file first, and changes nothing if this fails. Then reads the file
/// a second time, compares each part with the checked part, and writes the values, which are
/// bit-equal to the saved values. If the second read or a write fails, or if the file has changed,
/// all values in the file count as never set, so that no mixture of new and old values remains
/// (AllOrNone in runtime/values.h).
///
/// All params and states of the program must be in the checkpoint, except params of `base`, if the
/// checkpoint omits its base. The caller must have set these params. They are unchanged. The
/// checkpoint must not contain other params or states. However, a program that updates nothing,
/// such as an evaluation, ignores other states, and can therefore load a training checkpoint.
///
/// Returns kNotFound or kIo if the file cannot be read. Returns kInvalidArgument if the file is
/// truncated or altered, if a param or state is missing, unknown, or of a different type or shape,
/// or if the checkpoint has a different base.
Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path,
                               const CheckpointBase& base = {});

/// Loads a checkpoint into `step`, the step of one of several ranks, as described above. `values`
/// describes the rank. For a value that the step splits, the rank loads only its block. It reads
/// only the shards that contain bytes that it loads. The checkpoint may have been saved by any
/// number of ranks. Every rank must have access to the file and its shards.
Result<int64_t> LoadCheckpoint(Runner& step, const RankValues& values,
                               const std::string& path,
                               const CheckpointBase& base = {});

/// Creates the folder of the shards of the checkpoint `path`, and a file in this folder, which
/// shows that rank `rank` can write there. `sign` must be a random number that is equal on all
/// ranks. It distinguishes the file from the files of other runs. Returns kIo on failure.
Status PrepareShards(const std::string& path, int64_t rank, int64_t sign);
/// Checks that this process can see the files that PrepareShards has created on all `ranks` ranks.
/// Returns kIo if it cannot see one of them.
Status CheckSigns(const std::string& path, int64_t ranks, int64_t sign);
/// Removes the file that PrepareShards has created for `rank`, if there is one.
void RemoveSign(const std::string& path, int64_t rank, int64_t sign);

/// Writes the shard of a rank for the checkpoint `path` at step number `number`. `step` is the
/// rank's step, and `values` describes the rank. The folder of the shards must exist
/// (PrepareShards). Returns the digest of the shard. Returns the errors of SaveCheckpoint.
Result<uint64_t> SaveShard(const Runner& step, const RankValues& values,
                           const std::string& path, int64_t number,
                           const CheckpointBase& base = {});

/// Replaces the content of `file` by the index of a sharded checkpoint. `shards` must contain the
/// results of SaveShard on all ranks, in order of rank. `path`, `number` and `base` must be the
/// arguments of SaveShard, and `file` must be in the folder of `path`. Returns kIo if this process
/// cannot see a shard. Also returns the errors of SaveCheckpoint except kNotFinite.
Status SaveShardIndex(const Runner& step, const RankValues& values,
                      std::span<const uint64_t> shards, const OutputFile& file,
                      const std::string& path, int64_t number,
                      const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Removes the shards in the shard folder of `path` to which no index in the folder of `path`
/// refers, and temporary files of killed ranks. Also removes the shard folder if it is then empty.
/// No rank may be writing to the shard folder. Files that cannot be removed remain. Returns an
/// error and removes nothing if a folder cannot be read, or if a file in the folder of `path` may
/// be an index and cannot be read.
Status RemoveUnusedShards(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_H_
