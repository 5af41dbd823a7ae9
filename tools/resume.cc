#include "tools/resume.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "autodiff/optimizer.h"
#include "autodiff/train_options.h"
#include "base/hash.h"
#include "base/strings.h"
#include "nn/schedule.h"
#include "text/text.h"
#include "tools/command.h"
#include "train/choose_optimizer.h"

namespace stowage::tools {
namespace {

constexpr std::string_view kOptimizer = "optimizer";

// The file's name and what is in it, in brief.
Result<std::string> DataNote(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return StrCat(std::filesystem::path(path).filename().string(), " (",
                content.size(), " bytes, XXH64 ", HexDigest(Xxh64(content)),
                ")");
}

// The folder's name and what is in it.
std::string FolderNote(const std::string& path, const PictureData& data) {
  const PictureShape& shape = data.shape;
  std::string note =
      StrCat(std::filesystem::weakly_canonical(path).filename().string(), " (",
             data.train.size(), " + ", data.held_out.size(), " pictures, ",
             shape.channels, " x ", shape.height, " x ", shape.width, ", ",
             shape.classes, " classes, means");
  for (const float mean : data.mean) note += StrCat(" ", mean);
  return note + ")";
}

// How params are updated, beside the optimizer's name.
void AddOptimizationNotes(const TrainOptions& training,
                          const LearningRateSchedule& schedule,
                          const RunFlags& flags, RunNotes* notes) {
  const auto add = [&](std::string_view name, const auto& value) {
    notes->emplace_back(name, StrCat(value));
  };
  add("lr", schedule.peak);
  add("schedule", ScheduleName(schedule.kind));
  add("warmup", schedule.warmup);
  add("min-lr", schedule.peak * schedule.final_factor);
  add("power", schedule.power);
  add("weight-decay", DecayOf(training.optimizer));
  std::string patterns;
  for (const std::string& pattern : flags.model.optimization.no_decay) {
    patterns += StrCat(patterns.empty() ? "" : " ", pattern);
  }
  add("no-decay", patterns.empty() ? "none" : patterns);
  add("label-smoothing", flags.model.optimization.label_smoothing.value_or(0));
  if (const std::optional<double> momentum = MomentumOf(training.optimizer)) {
    add("momentum", *momentum);
  }
  add("clip-norm", training.clip_norm ? StrCat(*training.clip_norm) : "none");
}

}  // namespace

Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const RunFlags& flags) {
  RunNotes notes;
  const auto add = [&](std::string_view name, const auto& value) {
    notes.emplace_back(name, StrCat(value));
  };
  add("model", spec.info.name);
  add(kOptimizer, OptimizerName(spec.training.training.optimizer));
  add("seed", flags.seed);
  AddOptimizationNotes(spec.training.training, run.schedule, flags, &notes);
  add("steps", run.steps);
  add("batch", *spec.options.batch);
  if (spec.options.seq) add("seq", *spec.options.seq);
  if (spec.tokenizer) {
    add("tokenizer",
        StrCat(std::filesystem::path(flags.tokenizer).filename().string(), " (",
               spec.tokenizer->size(), " tokens)"));
  }
  std::error_code ignored;
  if (spec.pictures != nullptr &&
      std::filesystem::is_directory(flags.data, ignored)) {
    add("data", FolderNote(flags.data, *spec.pictures));
    return notes;
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string data, DataNote(flags.data));
  add("data", data);
  return notes;
}

Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path) {
  std::string lines;
  for (const auto& [name, value] : notes) {
    const std::string* const was = saved.Find(name);
    if (was == nullptr || *was == value) continue;
    if (name == kOptimizer) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[resume] ", Quoted(path), " is of a run with --optimizer ",
                 *was, ", this one has ", value,
                 ", which cannot go on with its states; give "
                 "--optimizer ",
                 *was)};
    }
    lines += StrCat("resume: ", name, " was ", *was, ", is ", value, "\n");
  }
  return lines;
}

}  // namespace stowage::tools
