#include "train/run_checkpoints.h"

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "runtime/checkpoint.h"

namespace stowage {

Result<EvaluationHistory> HistoryOf(const CheckpointInfo& checkpoint) {
  const std::string* const text = checkpoint.Find(kEvaluationsNote);
  return text == nullptr ? EvaluationHistory() : ParseEvaluationHistory(*text);
}

RunNotes NotesWith(RunNotes notes, const EvaluationHistory& history) {
  if (history.last_step > 0) {
    notes.emplace_back(kEvaluationsNote, ToText(history));
  }
  return notes;
}

Result<RunCheckpoints> RunCheckpoints::Claim(const std::string& path,
                                             const SeriesOptions& options,
                                             RunNotes notes) {
  STOWAGE_ASSIGN_OR_RETURN(CheckpointSeries series,
                           CheckpointSeries::Claim(path, options));
  return RunCheckpoints(std::move(series), std::move(notes));
}

Result<RunStart> RunCheckpoints::Begin(Training& training, uint64_t seed) {
  training.Initialize(seed);
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<RunStart> start,
                           Resume(training));
  return start.value_or(RunStart());
}

Result<std::optional<RunStart>> RunCheckpoints::Resume(Training& training) {
  if (!training.plan().split.empty()) {
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[run] this rank keeps only a block of ",
               Quoted(training.plan().split.front().name),
               "; ranks that split params save by SaveShards or WholeValues")};
  }
  const std::string& path = series_.path();
  const Result<CheckpointInfo> info = ReadCheckpointInfo(path);
  if (!info.ok()) {
    if (info.error().code == ErrorCode::kNotFound) {
      return std::optional<RunStart>();
    }
    return info.error();
  }
  for (const auto& [name, value] : notes_) {
    const std::string* const saved = info->Find(name);
    if (saved == nullptr || *saved == value) continue;
    return InvalidArgumentError("[run] the checkpoint ", Quoted(path),
                                " is of a run with ", name, " ", *saved,
                                "; this one has ", value);
  }
  RunStart start;
  STOWAGE_ASSIGN_OR_RETURN(start.history, HistoryOf(*info));
  STOWAGE_ASSIGN_OR_RETURN(const std::string other, series_.Continue(notes_));
  if (!other.empty()) {
    return InvalidArgumentError("[run] ", BestPath(path),
                                " is the best checkpoint of a run with other "
                                "notes; move it away");
  }
  STOWAGE_ASSIGN_OR_RETURN(start.done, LoadCheckpoint(training.step(), path));
  return std::optional(start);
}

Status RunCheckpoints::Save(Training& training, int64_t step,
                            const EvaluationHistory& history,
                            std::optional<double> held_out_loss,
                            bool best_alone) {
  return series_.Save(
      step, NotesWith(notes_, history),
      [&](const OutputFile& file, const RunNotes& notes) {
        return SaveCheckpoint(training.step(), file, step, notes);
      },
      held_out_loss, best_alone);
}

}  // namespace stowage
