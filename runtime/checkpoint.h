#ifndef STOWAGE_RUNTIME_CHECKPOINT_H_
#define STOWAGE_RUNTIME_CHECKPOINT_H_

// Params, optimizer state and step number in one file of the safetensors layout: eight
// bytes of header length (little endian), a JSON header with every tensor's type, shape
// and offset, then the bytes. Other tools can read the weights; a digest of the whole in
// the metadata detects a flipped bit. Notes of the run that saved it (its seed, its data,
// ...) are metadata too.
//
//   Status saved = SaveCheckpoint(runner, "model.safetensors", /*step=*/300);
//   Result<int64_t> step = LoadCheckpoint(runner, "model.safetensors");
//
// Params that no step changes and that another file has, such as the base model of
// adapters, may be left out (CheckpointBase): the checkpoint then records that file.
//
// Several ranks may save together, each its own shard (runtime/checkpoint_shards.h):
// `path` is then an index. All functions that read checkpoints accept either.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "runtime/checkpoint_format.h"
#include "runtime/initial_values.h"
#include "runtime/session.h"

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

/// Writes the params, and the model's own states (runtime/weight_source.h), under their
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
/// runtime/check_programs.h). Returns the step. A training program requires all of its
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

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_H_
