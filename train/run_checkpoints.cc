#include "train/run_checkpoints.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "runtime/checkpoint.h"

namespace stowage {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLossNote = "held_out_loss";

// "a/model.safetensors" with "best" is "a/model.best.safetensors".
std::string WithTag(const std::string& path, std::string_view tag) {
  const fs::path whole = path;
  return (whole.parent_path() /
          StrCat(whole.stem().string(), ".", tag, whole.extension().string()))
      .string();
}

constexpr std::string_view kLinkSuffix = ".stowage-link";

// The parts of StepPath before and after the number of the step.
std::pair<std::string, std::string> AroundStep(const std::string& path) {
  const fs::path whole = path;
  return {
      (whole.parent_path() / StrCat(whole.stem().string(), ".step-")).string(),
      whole.extension().string()};
}

// Removes links of a killed run that were created and not yet renamed.
void RemoveLinks(const std::string& prefix, const std::string& suffix) {
  std::error_code failed, ignored;
  const std::string ending = StrCat(suffix, kLinkSuffix);
  for (fs::directory_iterator entry(fs::path(prefix).parent_path(), failed),
       end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string path = entry->path().string();
    if (path.size() <= prefix.size() + ending.size() ||
        !path.starts_with(prefix) || !path.ends_with(ending)) {
      continue;
    }
    const std::string number =
        path.substr(prefix.size(), path.size() - prefix.size() - ending.size());
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    fs::remove(entry->path(), ignored);
  }
}

}  // namespace

std::string BestPath(const std::string& path) { return WithTag(path, "best"); }

std::string StepPath(const std::string& path, int64_t step) {
  const auto [before, behind] = AroundStep(path);
  return StrCat(before, step, behind);
}

Result<CheckpointSeries> CheckpointSeries::Claim(const std::string& path,
                                                 const SeriesOptions& options) {
  if (options.keep_last < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[checkpoint] ", options.keep_last,
                        " checkpoints are to be kept; expected at least 1")};
  }
  STOWAGE_ASSIGN_OR_RETURN(OutputFile newest, OutputFile::Claim(path));
  if (options.keep_last > 1) {
    const auto [prefix, suffix] = AroundStep(newest.resolved());
    STOWAGE_RETURN_IF_ERROR(NoteOutputs(path, prefix, suffix));
    RemoveLinks(prefix, suffix);
  }
  CheckpointSeries series(std::move(newest));
  series.keep_last_ = options.keep_last;
  if (options.keep_best) {
    STOWAGE_ASSIGN_OR_RETURN(
        series.best_, OutputFile::Claim(BestPath(series.newest_.resolved())));
  }
  return series;
}

Status CheckpointSeries::Save(int64_t step, const RunNotes& notes,
                              const WriteCheckpoint& write) {
  STOWAGE_RETURN_IF_ERROR(write(newest_, notes));
  last_step_ = step;
  return keep_last_ > 1 ? KeepStep(step, notes, write) : Status();
}

// Links the newest to the name of its step, and removes the oldest.
Status CheckpointSeries::KeepStep(int64_t step, const RunNotes& notes,
                                  const WriteCheckpoint& write) {
  const std::string path = StepPath(newest_.resolved(), step);
  const std::string link = StrCat(path, kLinkSuffix);
  std::error_code failed, ignored;
  fs::remove(link, ignored);
  fs::create_hard_link(newest_.resolved(), link, failed);
  if (!failed) fs::rename(link, path, failed);
  if (failed) {  // no hard links on this file system: write it again
    fs::remove(link, ignored);
    STOWAGE_ASSIGN_OR_RETURN(const OutputFile file,
                             OutputFile::Claim(path, FileUse::kOwn));
    STOWAGE_RETURN_IF_ERROR(write(file, notes));
  }
  if (steps_.empty() || steps_.back() != path) steps_.push_back(path);
  while (std::ssize(steps_) > keep_last_) {
    fs::remove(steps_.front(), ignored);
    steps_.pop_front();
  }
  return {};
}

Result<bool> CheckpointSeries::SaveIfBest(double held_out_loss,
                                          const RunNotes& notes,
                                          const WriteCheckpoint& write) {
  STOWAGE_CHECK(best_.has_value());
  if (!std::isfinite(held_out_loss)) return false;
  if (best_loss_ && held_out_loss >= *best_loss_) return false;
  RunNotes with_loss = notes;
  with_loss.emplace_back(kLossNote, StrCat(held_out_loss));
  STOWAGE_RETURN_IF_ERROR(write(*best_, with_loss));
  best_loss_ = held_out_loss;
  return true;
}

Status CheckpointSeries::Save(int64_t step, const RunNotes& notes,
                              const WriteCheckpoint& write,
                              std::optional<double> held_out_loss,
                              bool best_alone) {
  // Save the newest even if the best failed.
  Status best;
  if (best_ && held_out_loss) {
    const Result<bool> saved = SaveIfBest(*held_out_loss, notes, write);
    if (!saved.ok()) best = saved.error();
  }
  if (!best_alone) STOWAGE_RETURN_IF_ERROR(Save(step, notes, write));
  return best;
}

Result<std::string> CheckpointSeries::Continue(const RunNotes& subject) {
  if (!best_) return std::string();
  const Result<CheckpointInfo> info = ReadCheckpointInfo(best_->path());
  if (!info.ok()) {
    if (info.error().code == ErrorCode::kNotFound) return std::string();
    return Error{info.error().code,
                 StrCat(info.error().message,
                        "; it lies where the best checkpoint goes, move it "
                        "away")};
  }
  for (const auto& [name, value] : subject) {
    const std::string* const saved = info->Find(name);
    if (saved == nullptr || *saved == value) continue;
    return StrCat("[checkpoint] ", Quoted(best_->path()), " is of another ",
                  name, ", ", WithoutControls(*saved), " in place of ", value,
                  "; the best of this run replaces it\n");
  }
  const std::string* const text = info->Find(kLossNote);
  double loss = 0;
  if (text != nullptr &&
      std::from_chars(text->data(), text->data() + text->size(), loss).ec ==
          std::errc() &&
      std::isfinite(loss)) {
    best_loss_ = loss;
  }
  return std::string();
}

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
