#include "train/checkpoint_series.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
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

}  // namespace

std::string BestPath(const std::string& path) { return WithTag(path, "best"); }

std::string StepPath(const std::string& path, int64_t step) {
  return WithTag(path, StrCat("step-", step));
}

Result<CheckpointSeries> CheckpointSeries::Claim(const std::string& path,
                                                 const SeriesOptions& options) {
  if (options.keep_last < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[checkpoint] ", options.keep_last,
                        " checkpoints are to be kept; expected at least 1")};
  }
  STOWAGE_ASSIGN_OR_RETURN(OutputFile newest, OutputFile::Claim(path));
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

// The newest under the name of its step too; the oldest go.
Status CheckpointSeries::KeepStep(int64_t step, const RunNotes& notes,
                                  const WriteCheckpoint& write) {
  const std::string path = StepPath(newest_.resolved(), step);
  const std::string link = path + ".stowage-link";
  std::error_code failed, ignored;
  fs::remove(link, ignored);
  fs::create_hard_link(newest_.resolved(), link, failed);
  if (!failed) fs::rename(link, path, failed);
  if (failed) {  // a file system without links: once more, then
    fs::remove(link, ignored);
    STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
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

Status CheckpointSeries::Continue() {
  if (!best_) return {};
  const Result<CheckpointInfo> info = ReadCheckpointInfo(best_->path());
  if (!info.ok()) {
    if (info.error().code == ErrorCode::kNotFound) return {};
    return Error{info.error().code,
                 StrCat(info.error().message,
                        "; it lies where the best checkpoint goes, move it "
                        "away")};
  }
  const std::string* const text = info->Find(kLossNote);
  double loss = 0;
  if (text != nullptr &&
      std::from_chars(text->data(), text->data() + text->size(), loss).ec ==
          std::errc() &&
      std::isfinite(loss)) {
    best_loss_ = loss;
  }
  return {};
}

}  // namespace stowage
