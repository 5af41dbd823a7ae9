#ifndef STOWAGE_TOOLS_RESUME_H_
#define STOWAGE_TOOLS_RESUME_H_

// What a run notes of itself in its checkpoints, and what differs when another run
// goes on from one: then the resumed run does not end as the first would have.

#include <string>

#include "base/result.h"
#include "runtime/checkpoint.h"
#include "tools/model_flags.h"
#include "tools/train_run.h"

namespace stowage::tools {

/// Model, optimizer and its settings, seed, learning rate and its schedule, steps, batch, seq, tokenizer and data of a run.
/// Error: the data cannot be read.
Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const RunFlags& flags);

/// A line for each thing that is not as the checkpoint's run had it; empty when
/// all is. Error kInvalidArgument when that is the optimizer, whose states are of
/// no use to another. What the checkpoint does not say is not compared.
Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RESUME_H_
