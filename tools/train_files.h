#ifndef STOWAGE_TOOLS_TRAIN_FILES_H_
#define STOWAGE_TOOLS_TRAIN_FILES_H_

// What a training run starts from and what it leaves: checkpoints and images. All
// files are tried before the first step, so that no run ends with nowhere to write.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "runtime/backend.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_file.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "runtime/weights.h"
#include "tools/command.h"
#include "tools/model_exports.h"
#include "tools/model_flags.h"
#include "tools/rank_run.h"
#include "tools/train_flags.h"
#include "train/evaluation.h"
#include "train/rank_checkpoints.h"
#include "train/run.h"
#include "train/run_checkpoints.h"
#include "train/run_log.h"
#include "train/training.h"

namespace stowage::tools {

/// Where the shards of a checkpoint lie, if it has any; "" for "".
std::string ShardFolderOf(const std::string& checkpoint);

/// Removes, when it ends, the folders of these paths that were not there when it began, if
/// they are empty: a dry run leaves none behind.
class TrialFolders {
 public:
  explicit TrialFolders(std::initializer_list<std::string> paths);
  ~TrialFolders();
  TrialFolders(const TrialFolders&) = delete;
  TrialFolders& operator=(const TrialFolders&) = delete;

 private:
  std::vector<std::filesystem::path> new_;  // the innermost first
};

class TrainFiles {
 public:
  /// Claims what will be written; of several ranks, rank 0 does, and each tries the folder
  /// of its shards. Errors: those of CheckPaths and of OutputFile::Claim; data that cannot
  /// be read.
  static Result<TrainFiles> Open(const TrainFlags& flags, const StepSpec& spec,
                                 const RunSpec& run, RankRun& ranks);

  /// Gives the session its values: those of a checkpoint, with a line to stderr for
  /// each thing that its run had otherwise, or those of the seed, and weights of
  /// others over them. All ranks get rank 0's, but of a checkpoint in shards each reads
  /// what `values` says that it keeps. Returns the steps that are behind it. Error
  /// kInvalidArgument when none is left, but for --continue.
  Result<int64_t> Begin(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, Training& training, RankRun& ranks,
                        const RankValues& values);

  /// Saves the newest checkpoint, where one is wanted, unless the best alone is, and the
  /// best one, if its held-out loss is given and the lowest. Errors: those of
  /// SaveCheckpoint, of which kNotFinite in any case.
  Status Save(const Runner& runner, int64_t step,
              std::optional<double> held_out_loss = {},
              bool best_alone = false);

  /// The same by all ranks, of which each saves its part of `step`'s values. Errors: those
  /// of stowage::SaveShards and SaveShardIndex.
  Status SaveShards(const Runner& step, const RankValues& values,
                    Collectives* collectives, int64_t number,
                    std::optional<double> held_out_loss = {},
                    bool best_alone = false);
  bool saves_shards() const { return saves_shards_; }

  /// The weights and adapters for other programs.
  const ModelExports& exports() const { return exports_; }

  /// What is on disk of this run, in words, for when it ends before its time.
  std::string WhatIsSaved() const;

  /// The evaluations so far, which checkpoints note and Begin reads. The same at all
  /// ranks.
  const EvaluationHistory& history() const { return history_; }
  void set_history(const EvaluationHistory& history) { history_ = history; }

  /// Where --log goes; null where there is none.
  RunLog* log() { return log_ ? &*log_ : nullptr; }

  const std::optional<CheckpointSeries>& checkpoints() const {
    return checkpoints_;
  }
  /// That the run can go on from its checkpoint. Errors: those of ReadCheckpointInfo and
  /// CompareNotes.
  Status CheckResumed() const;

  const Output& svg() const { return svg_; }
  const Output& html() const { return html_; }

 private:
  // Values that rank 0 has whole, shards, or a seed, of which nobody needs the whole.
  enum class Origin : int64_t { kWhole, kShards, kSeed };
  Result<Origin> OriginOfValues(const TrainFlags& flags, const StepSpec& spec,
                                RankRun& ranks);
  Result<int64_t> GiveValues(const TrainFlags& flags, const StepSpec& spec,
                             const RunSpec& run, Session& session);
  Status OpenShards(const TrainFlags& flags, const StepSpec& spec,
                    RankRun& ranks);
  Status Start(const TrainFlags& flags, const StepSpec& spec, Session& session);
  // `adapter` is what a run that begins would begin with.
  Result<int64_t> GoOn(const TrainFlags& flags, const RunSpec& run,
                       const std::string& adapter,
                       const std::function<Result<int64_t>()>& load);
  Status ShareHistory(RankRun& ranks);
  Status SaveSeries(int64_t step, std::optional<double> held_out_loss,
                    bool best_alone,
                    const CheckpointSeries::WriteCheckpoint& write);
  TrainFiles(Output svg, Output html)
      : svg_(std::move(svg)), html_(std::move(html)) {}

  std::optional<CheckpointSeries> checkpoints_;
  std::string resumed_;  // what the run goes on from; empty: nothing
  ModelExports exports_;
  std::optional<RunLog> log_;
  EvaluationHistory history_;
  CheckpointBase base_;  // what checkpoints leave out
  WeightRules rules_;    // of what is loaded at the start
  bool keeps_best_ = false;
  bool saves_shards_ = false;
  std::string shards_of_;         // the checkpoint that they are of
  bool tells_of_shards_ = false;  // that some are not removed; once a run
  Output svg_, html_;
  RunNotes notes_;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_FILES_H_
