#include "tools/train_files.h"

#include <bit>
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/strings.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_file.h"
#include "runtime/values.h"
#include "tools/command.h"
#include "tools/run_notes.h"
#include "train/run_checkpoints.h"

namespace stowage::tools {

std::string ShardFolderOf(const std::string& checkpoint) {
  return checkpoint.empty() ? ""
                            : Beside(checkpoint, ShardFolderName(checkpoint));
}

namespace {

// Whether a file exists, or may: opening it then reports the error.
bool IsThere(const std::string& path) {
  std::error_code failed;
  return !path.empty() && (std::filesystem::exists(path, failed) || failed);
}

// Checks that every rank finds the checkpoint of rank 0.
Status CheckSameAtAll(const std::string& path, RankRun& ranks) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info, ReadCheckpointInfo(path));
  const auto own = static_cast<int64_t>(Xxh64(info.digest));
  int64_t of_first = own;
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&of_first));
  if (own == of_first) return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[ranks] rank ", ranks.rank(), " finds a checkpoint of ",
                      "step ", info.step, " at ", Quoted(path),
                      ", which is not rank 0's; its shards are read by all, "
                      "and all must see the same files")};
}

}  // namespace

TrialFolders::TrialFolders(std::initializer_list<std::string> paths) {
  std::error_code ignored;
  for (std::filesystem::path path : paths) {
    for (; !path.empty() && !std::filesystem::exists(path, ignored);
         path = path.parent_path()) {
      new_.push_back(path);
    }
  }
}

TrialFolders::~TrialFolders() {
  std::error_code ignored;
  for (const std::filesystem::path& folder : new_) {
    if (std::filesystem::is_directory(folder, ignored)) {
      std::filesystem::remove(folder,
                              ignored);  // fails if it is not empty
    }
  }
}

Result<TrainFiles> TrainFiles::Open(const TrainFlags& flags,
                                    const StepSpec& spec, const RunSpec& run,
                                    RankRun& ranks) {
  const std::string& checkpoint = flags.checkpoint();
  if (!ranks.speaks()) {
    STOWAGE_ASSIGN_OR_RETURN(Output no_svg, Output::Open(""));
    STOWAGE_ASSIGN_OR_RETURN(Output no_html, Output::Open(""));
    TrainFiles files(std::move(no_svg), std::move(no_html));
    STOWAGE_RETURN_IF_ERROR(files.OpenShards(flags, spec, ranks));
    return files;
  }
  const bool keeps_best =
      !checkpoint.empty() && (run.save_every > 0 || run.eval_every > 0);
  // Before any file is claimed, since a folder created later could take its place.
  const std::string adapter_folder = AdapterFolderOf(flags);
  const std::string model_folder = ModelFolderOf(flags, spec);
  for (const std::string& folder :
       {flags.log.ends_with('/') ? flags.log : "", flags.model.plan_cache,
        adapter_folder, model_folder}) {
    if (!folder.empty()) STOWAGE_RETURN_IF_ERROR(NoteFolder(folder));
  }
  STOWAGE_RETURN_IF_ERROR(ModelExports::CheckNames(flags, spec));
  STOWAGE_RETURN_IF_ERROR(CheckPaths(
      {{flags.continued.empty() ? "save" : "continue", checkpoint},
       {"save (the best)", keeps_best ? BestPath(checkpoint) : ""},
       {"save-weights", flags.save_weights},
       {"save-onnx", flags.save_onnx},
       {adapter_folder.empty() ? "save-adapter" : "save-adapter (a folder)",
        flags.save_adapter},
       {"save-adapter", AdapterWeightsPath(adapter_folder)},
       {"save-adapter", AdapterConfigPath(adapter_folder)},
       {model_folder.empty() ? "save-merged" : "save-merged (a folder)",
        flags.save_merged},
       {"save-merged", ModelFolderWeightsPath(model_folder)},
       {"log", flags.log},
       {"svg", flags.svg},
       {"html", flags.html}},
      {{"data", flags.data},
       {"resume", flags.resume},
       {"resume", ShardFolderOf(flags.resume)},
       {"continue", ShardFolderOf(flags.continued)},
       {"save (its shards)", ShardFolderOf(flags.save)},
       {"init", flags.init.file},
       {"init", ShardFolderOf(flags.init.file)},
       {"onnx", flags.onnx.file},
       {"weights", flags.weights},
       {"tokenizer", flags.tokenizer},
       {"op-times", flags.model.op_times}}));
  STOWAGE_ASSIGN_OR_RETURN(Output svg, Output::Open(flags.svg));
  STOWAGE_ASSIGN_OR_RETURN(Output html, Output::Open(flags.html));
  TrainFiles files(std::move(svg), std::move(html));
  if (spec.tuning && !(checkpoint.empty() && flags.resume.empty())) {
    STOWAGE_ASSIGN_OR_RETURN(files.base_,
                             spec.tuning->model.BaseOfCheckpoints());
  }
  if (!checkpoint.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(
        files.checkpoints_,
        CheckpointSeries::Claim(checkpoint, {.keep_last = flags.keep_last,
                                             .keep_best = keeps_best}));
    if (!files.checkpoints_->is_locked()) {
      std::cerr << "stowage: the file system of " << Quoted(checkpoint)
                << " has no locks: no other run may be given this file"
                << std::endl;
    }
    STOWAGE_RETURN_IF_ERROR(files.OpenShards(flags, spec, ranks));
  }
  // After the claim, no other run can create it.
  files.resumed_ = IsThere(flags.continued) ? flags.continued : flags.resume;
  STOWAGE_ASSIGN_OR_RETURN(files.exports_, ModelExports::Open(flags, spec));
  if (!flags.log.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.log_, RunLog::Open(flags.log));
  }
  if (!flags.init.file.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.rules_, ReadInitRules("train", flags.init));
  }
  if (files.checkpoints_ || !files.resumed_.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.notes_, NotesOf(spec, run, flags));
  }
  return files;
}

// Checks that all ranks can write shards to one folder.
Status TrainFiles::OpenShards(const TrainFlags& flags, const StepSpec& spec,
                              RankRun& ranks) {
  if (!flags.saves_shards()) return {};
  saves_shards_ = true;
  shards_of_ = flags.checkpoint();
  if (spec.tuning && base_.content.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(base_, spec.tuning->model.BaseOfCheckpoints());
  }
  auto sign = static_cast<int64_t>(std::random_device()());
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&sign));
  STOWAGE_RETURN_IF_ERROR(PrepareShards(shards_of_, ranks.rank(), sign));
  STOWAGE_ASSIGN_OR_RETURN([[maybe_unused]] const int all_have, ranks.AnyOf(0));
  const Status seen =
      ranks.speaks() ? CheckSigns(shards_of_, ranks.ranks(), sign) : Status();
  STOWAGE_ASSIGN_OR_RETURN([[maybe_unused]] const int rank_0_has,
                           ranks.AnyOf(0));
  RemoveSign(shards_of_, ranks.rank(), sign);
  return seen;
}

// Collective: the origin of the initial values on rank 0.
Result<TrainFiles::Origin> TrainFiles::OriginOfValues(const TrainFlags& flags,
                                                      const StepSpec& spec,
                                                      RankRun& ranks) {
  auto origin = static_cast<int64_t>(Origin::kWhole);
  if (ranks.speaks() && !ranks.alone() && !spec.tuning) {
    if (!resumed_.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                               ReadCheckpointInfo(resumed_));
      if (info.shards > 0) origin = static_cast<int64_t>(Origin::kShards);
    } else if (!spec.onnx && flags.init.file.empty()) {
      origin = static_cast<int64_t>(Origin::kSeed);
    }
  }
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&origin));
  return static_cast<Origin>(origin);
}

Result<int64_t> TrainFiles::Begin(const TrainFlags& flags, const StepSpec& spec,
                                  const RunSpec& run, Training& training,
                                  RankRun& ranks, const RankValues& values) {
  if (!flags.save_weights.empty()) {
    STOWAGE_RETURN_IF_ERROR(CheckSaveWeights(values.whole, flags.save_weights));
  }
  if (!notes_.empty()) {
    // The number of parts of a batch, which affects rounding; budget and ranks may change it.
    notes_.emplace_back(
        "micro-batches",
        StrCat(ranks.ranks() * training.plan().step.price.micro_batches));
  }
  int64_t done = 0;
  STOWAGE_ASSIGN_OR_RETURN(const Origin origin,
                           OriginOfValues(flags, spec, ranks));
  if (origin == Origin::kShards) {
    const std::string& path =
        flags.continued.empty() ? flags.resume : flags.continued;
    STOWAGE_RETURN_IF_ERROR(CheckSameAtAll(path, ranks));
    const auto load = [&] {
      return LoadCheckpoint(training.step(), values, path);
    };
    STOWAGE_ASSIGN_OR_RETURN(
        done, ranks.speaks() ? GoOn(flags, run, "", load) : load());
  } else if (values.own_name == nullptr) {
    if (ranks.speaks()) {
      STOWAGE_ASSIGN_OR_RETURN(
          done, GiveValues(flags, spec, run, training.session()));
    } else {
      training.Initialize(static_cast<uint64_t>(flags.seed));
    }
    STOWAGE_RETURN_IF_ERROR(ranks.Share(training.step()));
  } else if (origin == Origin::kSeed) {
    STOWAGE_RETURN_IF_ERROR(ScatterValues(
        values, *ranks.collectives(),
        [&](const ValueInfo& leaf, std::span<std::byte> bytes) -> Status {
          MakeInitialValues(leaf, static_cast<uint64_t>(flags.seed),
                            [&](Bytes begin, std::span<const std::byte> part) {
                              std::ranges::copy(part, bytes.begin() + begin);
                            });
          return {};
        },
        training.step()));
  } else {
    STOWAGE_ASSIGN_OR_RETURN(WholeValues whole,
                             WholeValues::Make(values.whole, training.backend(),
                                               *ranks.collectives()));
    if (Session* const session = whole.session()) {
      STOWAGE_ASSIGN_OR_RETURN(done, GiveValues(flags, spec, run, *session));
    }
    STOWAGE_RETURN_IF_ERROR(whole.Scatter(training.step()));
  }
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&done));
  STOWAGE_RETURN_IF_ERROR(ShareHistory(ranks));
  if (log_) {
    STOWAGE_RETURN_IF_ERROR(
        log_->Begin(done, run,
                    {.arena = training.session().arena_bytes(),
                     .budget = spec.training.budget}));
  }
  return done;
}

// Broadcasts the history, which only rank 0 has read.
Status TrainFiles::ShareHistory(RankRun& ranks) {
  auto loss = std::bit_cast<int64_t>(history_.best_loss);
  for (int64_t* const number : {&history_.last_step, &history_.best_step, &loss,
                                &history_.since_best}) {
    STOWAGE_RETURN_IF_ERROR(ranks.Share(number));
  }
  history_.best_loss = std::bit_cast<double>(loss);
  return {};
}

Result<int64_t> TrainFiles::GiveValues(const TrainFlags& flags,
                                       const StepSpec& spec, const RunSpec& run,
                                       Session& session) {
  if (resumed_.empty()) {
    STOWAGE_RETURN_IF_ERROR(Start(flags, spec, session));
    return int64_t{0};
  }
  const std::string adapter = spec.tuning ? spec.tuning->adapter : "";
  return GoOn(flags, run, adapter, [&]() -> Result<int64_t> {
    if (!base_.params.empty()) {
      STOWAGE_RETURN_IF_ERROR(spec.tuning->model.LoadBase(session.front()));
    }
    return LoadCheckpoint(session.front(), resumed_, base_);
  });
}

// Sets the values of a new run.
Status TrainFiles::Start(const TrainFlags& flags, const StepSpec& spec,
                         Session& session) {
  session.Initialize(static_cast<uint64_t>(flags.seed));
  Runner& step = session.front();
  STOWAGE_RETURN_IF_ERROR(WriteOnnxWeights(spec, step));
  if (spec.tuning) {
    const Tuning& tuning = *spec.tuning;
    STOWAGE_RETURN_IF_ERROR(tuning.model.LoadBase(step));
    if (!tuning.adapter.empty()) {
      STOWAGE_RETURN_IF_ERROR(LoadAdapter(tuning.model, tuning.adapter, step));
    }
  }
  if (flags.init.file.empty()) return {};
  STOWAGE_ASSIGN_OR_RETURN(const LoadedWeights loaded,
                           LoadWeights(step, flags.init.file, rules_));
  std::cerr << WeightsText(flags.init.file, loaded) << std::flush;
  return {};
}

// Resumes from a checkpoint, whose values `load` loads.
Result<int64_t> TrainFiles::GoOn(const TrainFlags& flags, const RunSpec& run,
                                 const std::string& adapter,
                                 const std::function<Result<int64_t>()>& load) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                           ReadCheckpointInfo(resumed_));
  STOWAGE_ASSIGN_OR_RETURN(const std::string differences,
                           CompareNotes(info, notes_, resumed_));
  STOWAGE_ASSIGN_OR_RETURN(history_, HistoryOf(info));
  const Result<int64_t> loaded = load();
  if (!loaded.ok()) {
    // Adapters of other layers may be the reason.
    const size_t at = differences.find("resume: lora-targets ");
    if (at == std::string::npos) return loaded.error();
    return Error{
        loaded.error().code,
        StrCat(loaded.error().message, "; ",
               differences.substr(at, differences.find('\n', at) - at))};
  }
  const int64_t done = *loaded;
  const bool is_done = !flags.continued.empty() && done == run.stop_at;
  if (done >= run.stop_at && !is_done) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[train] nothing is left to do: the checkpoint is at "
                        "step ",
                        done, " and the run ends at ", run.stop_at,
                        flags.stop_at ? "; give a later --stop-at"
                                      : "; give more --steps")};
  }
  std::cerr << differences;
  if (!flags.continued.empty()) {
    std::cerr << "continue: " << resumed_ << " is of step " << done << " of "
              << run.stop_at << "\n";
    for (const std::string& origin : {flags.init.file, adapter}) {
      if (origin.empty()) continue;
      std::cerr << "continue: " << origin
                << " counts for the beginning alone, and is not read\n";
    }
  }
  std::cerr << std::flush;
  if (checkpoints_) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string other,
                             checkpoints_->Continue(SubjectOf(notes_)));
    std::cerr << other << std::flush;
  }
  return done;
}

Status TrainFiles::CheckResumed() const {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                           ReadCheckpointInfo(resumed_));
  const Result<std::string> differences = CompareNotes(info, notes_, resumed_);
  return differences.ok() ? Status() : differences.error();
}

Status TrainFiles::SaveSeries(int64_t step, std::optional<double> held_out_loss,
                              bool best_alone,
                              const CheckpointSeries::WriteCheckpoint& write) {
  const RunNotes notes = NotesWith(notes_, history_);
  STOWAGE_RETURN_IF_ERROR(
      checkpoints_->Save(step, notes, write, held_out_loss, best_alone));
  const Status removed = RemoveUnusedShards(checkpoints_->path());
  if (!removed.ok() && !tells_of_shards_) {
    tells_of_shards_ = true;
    std::cerr << "stowage: the shards of earlier checkpoints in "
              << Quoted(ShardFolderOf(checkpoints_->path()))
              << " are not removed, since a file beside them may need them: "
              << removed.error().message << std::endl;
  }
  return {};
}

Status TrainFiles::Save(const Runner& runner, int64_t step,
                        std::optional<double> held_out_loss, bool best_alone) {
  if (!checkpoints_) return CheckFinite(runner);
  return SaveSeries(step, held_out_loss, best_alone,
                    [&](const OutputFile& file, const RunNotes& notes) {
                      return SaveCheckpoint(runner, file, step, notes, base_);
                    });
}

Status TrainFiles::SaveShards(const Runner& step, const RankValues& values,
                              Collectives* collectives, int64_t number,
                              std::optional<double> held_out_loss,
                              bool best_alone) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<uint64_t> shards,
                           stowage::SaveShards(step, values, shards_of_, number,
                                               base_, collectives));
  if (!checkpoints_) return {};  // rank 0 writes the index
  return SaveSeries(number, held_out_loss, best_alone,
                    [&](const OutputFile& file, const RunNotes& notes) {
                      return SaveShardIndex(step, values, shards, file,
                                            shards_of_, number, notes, base_);
                    });
}

std::string TrainFiles::WhatIsSaved() const {
  if (!checkpoints_) return "nothing was saved, since there is no --save";
  const std::string path = Quoted(checkpoints_->path());
  const std::optional<int64_t> step = checkpoints_->last_step();
  return step ? StrCat("the last checkpoint, ", path, ", is of step ", *step)
              : StrCat("this run has saved nothing to ", path);
}

}  // namespace stowage::tools
