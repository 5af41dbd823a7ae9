#ifndef STOWAGE_RUNTIME_CHECKPOINT_H_
#define STOWAGE_RUNTIME_CHECKPOINT_H_

// Params, optimizer state and step number in one file of the safetensors
// layout: eight bytes of header length (little endian), a JSON header that
// names every tensor's type, shape and place, then the bytes. Other tools can
// read the weights; a digest of all of it in the metadata tells a flipped bit.
// Notes of the run that saved it (its seed, its data, ...) are metadata too.
//
//   Status saved = SaveCheckpoint(runner, "model.safetensors", /*step=*/300);
//   Result<int64_t> step = LoadCheckpoint(runner, "model.safetensors");
//
// Params that no step changes and that another file has, such as the model that
// adapters are trained beside, may be left out (CheckpointBase): then the checkpoint
// notes which file that was.
//
// Several ranks may save together, each a shard of its own (runtime/checkpoint_shards.h):
// then what is at `path` is an index. What reads checkpoints takes either.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"
#include "runtime/checkpoint_format.h"
#include "runtime/initial_values.h"
#include "runtime/session.h"

namespace stowage {

/// Writes every param and state of `runner`'s graph but those of `base`, `step` and
/// `notes`. Atomic:
/// the file is replaced whole or stays as it was (base/output_file.h). A run that
/// saves more than once, or late, claims the file first. Errors: kIo; kNotFinite,
/// with the file untouched, when a param or state that is written holds NaN or infinity;
/// kInvalidArgument for a step below 0 or above kMaxCheckpointStep, or a note
/// whose name is a checkpoint's own.
Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});
Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step, const RunNotes& notes = {},
                      const CheckpointBase& base = {});

/// Error kNotFinite, naming the first, when a param or state of `runner` holds
/// NaN or infinity.
Status CheckFinite(const Runner& runner);

/// Reads the header alone. Errors as LoadCheckpoint's, but that the tensors'
/// bytes are not looked at.
Result<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

/// Reads all of the checkpoint at `path`. Errors as ReadCheckpointInfo's, and
/// kInvalidArgument where its content is not what was saved.
Status CheckCheckpoint(const std::string& path);

/// Writes the params, and the states that the model keeps (runtime/weight_source.h),
/// under their names, for other programs: a safetensors file, or an NPZ where the path
/// ends in .npz or .NPZ, which holds less than 4 GiB and no bf16 (NpzBytes' errors). Atomic
/// and refused as SaveCheckpoint is.
Status SaveWeights(const Runner& runner, const OutputFile& file);
/// Whether SaveWeights could write the weights of a step of `graph` to `path`, before the
/// first step is taken. Error kUnsupported: an NPZ with a param of bf16, or of 4 GiB.
Status CheckSaveWeights(const Graph& graph, const std::string& path);
Status SaveWeights(const Runner& runner, const std::string& path);

/// Reads the file and checks all of it, then reads it again and writes the values, each
/// part once it is seen to be what was checked: bit-identical to what was saved, or
/// nothing is touched. A file that can be read once and not twice, or that changes in
/// between, leaves no mixture: then what it holds has no values here (AllOrNone in
/// runtime/check_programs.h). Returns the
/// step. A program wants all of its states; one that updates nothing (evaluation) may
/// load a training checkpoint, whose further states it leaves, and one that trains takes
/// no others. Params of `base` that the file leaves out stay as they are; the caller has given them their
/// values. Errors: kNotFound, kIo; kInvalidArgument for a truncated or altered file, a
/// param that is missing, of another type or shape, or unknown here, and for one that
/// was saved beside another base.
Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path,
                               const CheckpointBase& base = {});

/// The same for a rank of several: of a value that its step splits it takes its block
/// alone, and of shards it reads those alone that have what it takes. The checkpoint may be
/// of any number of ranks. Every rank needs the file.
Result<int64_t> LoadCheckpoint(Runner& step, const RankValues& values,
                               const std::string& path,
                               const CheckpointBase& base = {});

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_H_
