#include "tools/train_files.h"

#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/strings.h"
#include "tools/resume.h"
#include "tools/tuning.h"
#include "train/whole_values.h"

namespace stowage::tools {
namespace {

// What came of --init, a line for each.
std::string WeightsText(const std::string& path, const LoadedWeights& loaded) {
  std::string text = StrCat("init: ", loaded.loaded,
                            " params have the weights ", "of ", path, "\n");
  for (const std::string& name : loaded.missing) {
    text +=
        StrCat("init: ", name, " is not in it and begins as the seed says\n");
  }
  for (const std::string& name : loaded.unused) {
    text += StrCat("init: ", name, " of it is not used\n");
  }
  return text;
}

// What cannot be looked at is there: to open it says why.
bool IsThere(const std::string& path) {
  std::error_code failed;
  return !path.empty() && (std::filesystem::exists(path, failed) || failed);
}

}  // namespace

Result<TrainFiles> TrainFiles::Open(const TrainFlags& flags,
                                    const StepSpec& spec, const RunSpec& run,
                                    const RankRun& ranks) {
  if (!ranks.speaks()) {
    STOWAGE_ASSIGN_OR_RETURN(Output no_svg, Output::Open(""));
    STOWAGE_ASSIGN_OR_RETURN(Output no_html, Output::Open(""));
    return TrainFiles(std::move(no_svg), std::move(no_html));
  }
  const bool keeps_best = run.save_every > 0;
  const std::string& checkpoint = flags.checkpoint();
  STOWAGE_RETURN_IF_ERROR(
      CheckPaths({{flags.continued.empty() ? "save" : "continue", checkpoint},
                  {"save (the best)", keeps_best ? BestPath(checkpoint) : ""},
                  {"save-weights", flags.save_weights},
                  {"save-onnx", flags.save_onnx},
                  {"save-adapter", AdapterWeightsPath(flags.save_adapter)},
                  {"save-merged", flags.save_merged},
                  {"svg", flags.svg},
                  {"html", flags.html}},
                 {{"data", flags.data},
                  {"resume", flags.resume},
                  {"init", flags.init},
                  {"onnx", flags.onnx.file},
                  {"weights", flags.weights},
                  {"tokenizer", flags.tokenizer},
                  {"op-times", flags.model.op_times}}));
  STOWAGE_ASSIGN_OR_RETURN(Output svg, Output::Open(flags.svg));
  STOWAGE_ASSIGN_OR_RETURN(Output html, Output::Open(flags.html));
  TrainFiles files(std::move(svg), std::move(html));
  files.keeps_best_ = keeps_best;
  if (spec.tuning && !(checkpoint.empty() && flags.resume.empty())) {
    STOWAGE_ASSIGN_OR_RETURN(files.base_,
                             spec.tuning->model.BaseOfCheckpoints());
  }
  if (!checkpoint.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(
        files.checkpoints_,
        CheckpointSeries::Claim(checkpoint, {.keep_last = flags.keep_last,
                                             .keep_best = keeps_best,
                                             .base = files.base_}));
  }
  // Once it is claimed, no other run makes it any more.
  files.resumed_ = IsThere(flags.continued) ? flags.continued : flags.resume;
  if (!flags.save_weights.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.weights_,
                             OutputFile::Claim(flags.save_weights));
  }
  if (!flags.save_onnx.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.onnx_, OutputFile::Claim(flags.save_onnx));
  }
  if (!flags.save_adapter.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.adapter_,
                             AdapterFiles::Claim(flags.save_adapter));
  }
  if (!flags.save_merged.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.merged_,
                             OutputFile::Claim(flags.save_merged));
  }
  if (!flags.init.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.rules_, ReadWeightRules(flags));
  }
  if (files.checkpoints_ || !files.resumed_.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.notes_, NotesOf(spec, run, flags));
  }
  return files;
}

Result<int64_t> TrainFiles::Begin(const TrainFlags& flags, const StepSpec& spec,
                                  const RunSpec& run, Training& training,
                                  RankRun& ranks,
                                  const std::optional<Graph>& whole_step) {
  int64_t done = 0;
  if (!whole_step) {
    if (ranks.speaks()) {
      STOWAGE_ASSIGN_OR_RETURN(
          done, GiveValues(flags, spec, run, training.session()));
    } else {
      training.Initialize(static_cast<uint64_t>(flags.seed));
    }
    STOWAGE_RETURN_IF_ERROR(ranks.Share(training.step()));
  } else {
    STOWAGE_ASSIGN_OR_RETURN(WholeValues whole,
                             WholeValues::Make(*whole_step, training.backend(),
                                               *ranks.collectives()));
    if (Session* const session = whole.session()) {
      STOWAGE_ASSIGN_OR_RETURN(done, GiveValues(flags, spec, run, *session));
    }
    STOWAGE_RETURN_IF_ERROR(whole.Scatter(training.step()));
  }
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&done));
  return done;
}

Result<int64_t> TrainFiles::GiveValues(const TrainFlags& flags,
                                       const StepSpec& spec, const RunSpec& run,
                                       Session& session) {
  if (resumed_.empty()) {
    session.Initialize(static_cast<uint64_t>(flags.seed));
    if (spec.onnx) {
      Runner& step = session.front();
      STOWAGE_RETURN_IF_ERROR(
          spec.onnx->ForEachWeight(step.graph(), [&](const NamedArray& weight) {
            return step.WriteBytes(weight.name, weight.array.type.dtype,
                                   weight.array.data());
          }));
    }
    if (spec.tuning) {
      const Tuning& tuning = *spec.tuning;
      STOWAGE_RETURN_IF_ERROR(tuning.model.LoadBase(session.front()));
      if (!tuning.adapter.empty()) {
        STOWAGE_RETURN_IF_ERROR(
            LoadAdapter(tuning.model, tuning.adapter, session.front()));
      }
    }
    if (!flags.init.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(
          const LoadedWeights loaded,
          LoadWeights(session.front(), flags.init, rules_));
      std::cerr << WeightsText(flags.init, loaded) << std::flush;
    }
    return int64_t{0};
  }
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                           ReadCheckpointInfo(resumed_));
  STOWAGE_ASSIGN_OR_RETURN(const std::string differences,
                           CompareNotes(info, notes_, resumed_));
  if (!base_.params.empty()) {
    STOWAGE_RETURN_IF_ERROR(spec.tuning->model.LoadBase(session.front()));
  }
  STOWAGE_ASSIGN_OR_RETURN(const int64_t done,
                           LoadCheckpoint(session.front(), resumed_, base_));
  const bool is_done = !flags.continued.empty() && done == run.stop_at;
  if (done >= run.stop_at && !is_done) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[train] nothing is left to do: the checkpoint is at "
                        "step ",
                        done, " and the run ends at ", run.stop_at,
                        "; give more --steps")};
  }
  std::cerr << differences;
  if (!flags.continued.empty()) {
    std::cerr << "continue: " << resumed_ << " is of step " << done << " of "
              << run.stop_at << "\n";
  }
  std::cerr << std::flush;
  if (checkpoints_) STOWAGE_RETURN_IF_ERROR(checkpoints_->Continue());
  return done;
}

Status TrainFiles::Save(const Runner& runner, int64_t step,
                        std::optional<double> held_out_loss) {
  if (!checkpoints_) return CheckFinite(runner);
  STOWAGE_RETURN_IF_ERROR(checkpoints_->Save(runner, step, notes_));
  if (!keeps_best_ || !held_out_loss) return {};
  const Result<bool> best =
      checkpoints_->SaveIfBest(runner, step, *held_out_loss, notes_);
  return best.ok() ? Status() : best.error();
}

Status TrainFiles::SaveWeights(const Runner& runner,
                               const StepSpec& spec) const {
  if (weights_) {
    STOWAGE_RETURN_IF_ERROR(stowage::SaveWeights(runner, *weights_));
  }
  if (!onnx_) return {};
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string bytes,
      spec.onnx->WithWeights(runner.graph(), [&](NamedArray& weight) {
        return runner.ReadBytes(weight.name, weight.array.type.dtype,
                                weight.array.data());
      }));
  return onnx_->Replace(bytes);
}

Status TrainFiles::SaveAdapter(const Runner& runner,
                               const StepSpec& spec) const {
  if (adapter_) {
    STOWAGE_RETURN_IF_ERROR(
        stowage::SaveAdapter(spec.tuning->model, runner, *adapter_));
  }
  if (!merged_) return {};
  return SaveMerged(spec.tuning->model, runner, *merged_);
}

std::string TrainFiles::WhatIsSaved() const {
  if (!checkpoints_) return "nothing was saved, since there is no --save";
  const std::string path = Quoted(checkpoints_->path());
  const std::optional<int64_t> step = checkpoints_->last_step();
  return step ? StrCat("the last checkpoint, ", path, ", is of step ", *step)
              : StrCat("this run has saved nothing to ", path);
}

}  // namespace stowage::tools
