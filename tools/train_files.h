#ifndef STOWAGE_TOOLS_TRAIN_FILES_H_
#define STOWAGE_TOOLS_TRAIN_FILES_H_

// The files of a training run: the checkpoint that it starts from, and its checkpoints, images,
// logs and exports. All are opened before the first step, so that no run ends without a place
// to write.

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

/// The folder of the shards of a checkpoint, if it has any; "" for "".
std::string ShardFolderOf(const std::string& checkpoint);

/// Its destructor removes the folders of these paths that were created since the constructor,
/// if they are empty: a dry run leaves no folders.
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
  /// Claims the outputs on rank 0, and tries the folder of shards on all ranks. Errors: those of
  /// CheckPaths and OutputFile::Claim; data that cannot be read.
  static Result<TrainFiles> Open(const TrainFlags& flags, const StepSpec& spec,
                                 const RunSpec& run, RankRun& ranks);

  /// Sets params and states: from a checkpoint, with a line to stderr for each difference of
  /// its run, or by the seed and --init. All ranks get rank 0's values; of a checkpoint in
  /// shards, each reads the part in `values`. Returns the steps done. Error kInvalidArgument if
  /// no step is left, except with --continue.
  Result<int64_t> Begin(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, Training& training, RankRun& ranks,
                        const RankValues& values);

  /// Saves as RunSaver::Save does; without checkpoints, only checks that values are finite.
  /// Errors: those of SaveCheckpoint.
  Status Save(const Runner& runner, int64_t step,
              std::optional<double> held_out_loss = {},
              bool best_alone = false);

  /// The same by all ranks, each of which saves its shard. Errors: those of
  /// stowage::SaveShards and SaveShardIndex.
  Status SaveShards(const Runner& step, const RankValues& values,
                    Collectives* collectives, int64_t number,
                    std::optional<double> held_out_loss = {},
                    bool best_alone = false);
  bool saves_shards() const { return saves_shards_; }

  /// The weights and adapters for other programs.
  const ModelExports& exports() const { return exports_; }

  /// The state of the run's checkpoint on disk, as a clause for messages.
  std::string WhatIsSaved() const;

  /// The evaluations so far, which checkpoints save and Begin loads; equal on all ranks.
  const EvaluationHistory& history() const { return history_; }
  void set_history(const EvaluationHistory& history) { history_ = history; }

  /// The log of --log; null without it.
  RunLog* log() { return log_ ? &*log_ : nullptr; }

  const std::optional<CheckpointSeries>& checkpoints() const {
    return checkpoints_;
  }
  /// Checks that the run can resume from its checkpoint. Errors: those of ReadCheckpointInfo and
  /// CompareNotes.
  Status CheckResumed() const;

  const Output& svg() const { return svg_; }
  const Output& html() const { return html_; }

 private:
  // The origin of initial values: whole on rank 0, in shards, or a seed.
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
  std::string resumed_;  // the checkpoint to resume from; "" for none
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
