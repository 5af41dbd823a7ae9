#ifndef STOWAGE_RUNTIME_CHECKPOINT_H_
#define STOWAGE_RUNTIME_CHECKPOINT_H_

// Params, optimizer state and step number in one file of the safetensors
// layout: eight bytes of header length (little endian), a JSON header that
// names every tensor's type, shape and place, then the bytes. Other tools can
// read the weights; a digest of all of it in the metadata tells a flipped bit.
//
//   Status saved = SaveCheckpoint(runner, "model.safetensors", /*step=*/300);
//   Result<int64_t> step = LoadCheckpoint(runner, "model.safetensors");

#include <cstdint>
#include <string>

#include "base/output_file.h"
#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

/// Writes every param and state of `runner`'s graph, and `step`. Atomic: the file
/// is replaced whole or stays as it was (base/output_file.h). A run that saves
/// more than once, or late, claims the file first. Error kIo.
Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step);
Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step);

/// Reads the file, checks all of it, then writes the values: bit-identical to
/// what was saved, or nothing is touched. Returns the step. A program without
/// states (evaluation) may load a training checkpoint; a training program wants
/// all of its states. Errors: kNotFound, kIo; kInvalidArgument for a truncated
/// or altered file, a param that is missing, of another type or shape, or
/// unknown here.
Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_H_
