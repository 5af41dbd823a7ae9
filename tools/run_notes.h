#ifndef STOWAGE_TOOLS_RUN_NOTES_H_
#define STOWAGE_TOOLS_RUN_NOTES_H_

// What a run notes of itself in its checkpoints, and what differs when another run
// goes on from one: then the resumed run does not end as the first would have.
//
//   Result<RunNotes> notes = NotesOf(spec, run, flags);
//   Result<std::string> differences = CompareNotes(checkpoint, *notes, path);

#include <string>

#include "base/result.h"
#include "runtime/checkpoint_file.h"
#include "tools/model_flags.h"
#include "tools/train_flags.h"
#include "train/run.h"

namespace stowage::tools {

/// What the values of a run depend on: model, optimizer and its settings, seed, learning
/// rate and its schedule, steps, batch, seq, adapters, and digests of tokenizer, ONNX file
/// and data. Error: a file that cannot be read.
Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const TrainFlags& flags);

/// Those of `notes` that say what was trained, and on what: losses of runs that differ in
/// one are not compared.
RunNotes SubjectOf(const RunNotes& notes);

/// A line for each thing that is not as the checkpoint's run had it; empty when
/// all is. Error kInvalidArgument when that is the optimizer, whose states are of
/// no use to another, or the adapters' alpha, which says what their weights mean. What
/// the checkpoint does not say is not compared.
Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_NOTES_H_
