#ifndef STOWAGE_TOOLS_TRAIN_FILES_H_
#define STOWAGE_TOOLS_TRAIN_FILES_H_

// Manages the files of a training run: the checkpoint from which the run resumes, its own
// checkpoints, images, the log and exports for other programs. All files are claimed before the
// first step, so that a run does not end with results that it cannot save.

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

/// Returns the path of the folder for the shards of the checkpoint at this path, whether it has
/// shards or not. Returns "" for "".
std::string ShardFolderOf(const std::string& checkpoint);

/// Removes folders that a dry run has created. The destructor removes the given folders and their
/// parents, as far as they did not exist when the object was constructed and are empty.
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
  /// Claims the outputs on rank 0, and checks on all ranks that the folder of shards is shared and
  /// writable. Collective if checkpoints have shards. Propagates errors of CheckPaths,
  /// OutputFile::Claim and ModelExports::Open. If the run saves or resumes, reads the data to
  /// compute its digest, and returns an error if reading fails.
  static Result<TrainFiles> Open(const TrainFlags& flags, const StepSpec& spec,
                                 const RunSpec& run, RankRun& ranks);

  /// Sets params and states from a checkpoint if the run resumes, and otherwise from the seed, the
  /// files of the model and --init. Prints a line to stderr for each difference between the
  /// checkpoint's run and this run. All ranks receive the values of rank 0, except that each rank
  /// reads its shard of a sharded checkpoint. `values` describes the shards of params. Also starts
  /// the log. Returns the number of completed steps. Returns kInvalidArgument if no step is left to
  /// run, except with --continue.
  Result<int64_t> Begin(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, Training& training, RankRun& ranks,
                        const RankValues& values);

  /// Saves as RunSaver::Save does. If the run saves no checkpoints, only checks that params and
  /// states are finite. Propagates errors of SaveCheckpoint.
  Status Save(const Runner& runner, int64_t step,
              std::optional<double> held_out_loss = {},
              bool best_alone = false);

  /// Saves as Save does, but each rank writes its shard. Collective. Propagates errors of
  /// stowage::SaveShards and SaveShardIndex.
  Status SaveShards(const Runner& step, const RankValues& values,
                    Collectives* collectives, int64_t number,
                    std::optional<double> held_out_loss = {},
                    bool best_alone = false);
  bool saves_shards() const { return saves_shards_; }

  /// Returns the exports of weights and adapters for other programs.
  const ModelExports& exports() const { return exports_; }

  /// Returns a clause for messages that names the last saved checkpoint and its step, or states
  /// that nothing was saved.
  std::string WhatIsSaved() const;

  /// Returns the history of evaluations, which is equal on all ranks. Checkpoints contain it, and
  /// Begin loads it.
  const EvaluationHistory& history() const { return history_; }
  void set_history(const EvaluationHistory& history) { history_ = history; }

  /// Returns the log of --log, or null without the option.
  RunLog* log() { return log_ ? &*log_ : nullptr; }

  const std::optional<CheckpointSeries>& checkpoints() const {
    return checkpoints_;
  }
  /// Checks that the run can resume from the checkpoint of --resume or --continue, which must
  /// exist. Propagates errors of ReadCheckpointInfo and CompareNotes.
  Status CheckResumed() const;

  const Output& svg() const { return svg_; }
  const Output& html() const { return html_; }

 private:
  // The origin of initial values: a whole checkpoint on rank 0, shards, or the seed.
  enum class Origin : int64_t { kWhole, kShards, kSeed };
  Result<Origin> OriginOfValues(const TrainFlags& flags, const StepSpec& spec,
                                RankRun& ranks);
  Result<int64_t> GiveValues(const TrainFlags& flags, const StepSpec& spec,
                             const RunSpec& run, Session& session);
  Status OpenShards(const TrainFlags& flags, const StepSpec& spec,
                    RankRun& ranks);
  Status Start(const TrainFlags& flags, const StepSpec& spec, Session& session);
  // `adapter` is the initial adapter of a new run.
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
  std::string resumed_;  // the checkpoint to resume from, or "" for a new run
  ModelExports exports_;
  std::optional<RunLog> log_;
  EvaluationHistory history_;
  CheckpointBase base_;  // omitted from checkpoints
  WeightRules rules_;    // of --init
  bool saves_shards_ = false;
  std::string shards_of_;  // the checkpoint of the shards
  bool tells_of_shards_ =
      false;  // the note about shards not removed was printed
  Output svg_, html_;
  RunNotes notes_;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_FILES_H_
