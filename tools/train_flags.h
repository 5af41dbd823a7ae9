#ifndef STOWAGE_TOOLS_TRAIN_FLAGS_H_
#define STOWAGE_TOOLS_TRAIN_FLAGS_H_

// The options of `stowage train` beside those of the model.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/weights.h"
#include "tools/flags.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "tools/options.h"
#include "train/run.h"

namespace stowage::tools {

struct TrainFlags : RunFlags {
  OnnxFlags onnx;
  ArrayFlags arrays;
  std::string save_onnx;
  std::optional<int64_t> steps;
  std::optional<int64_t> stop_at;
  std::optional<int64_t> epochs;
  ScheduleFlags schedule;
  std::string shard = "none";  // of several ranks
  std::string save, resume, continued, svg, html;
  bool fit_optimizer = false;
  std::string init, save_weights;
  std::vector<std::string> init_rename, init_transpose;
  std::vector<std::string> init_allow_missing, init_allow_unused;
  std::string save_as = "whole";
  int64_t save_every = 0;
  int64_t keep_last = 1;
  int64_t eval_every = 0;  // 0: never on the way
  int64_t patience = 0;    // 0: without end
  std::string metrics;     // of evaluations, a list
  std::string log;
  std::string on_nonfinite = "stop";
  std::optional<int64_t> sample;
  int64_t default_sample = 200;
  int64_t sample_length() const { return sample.value_or(default_sample); }
  bool check = false;
  bool json = false;
  // Of stowage finetune alone.
  std::string weights;       // what is read
  std::string save_adapter;  // a folder, or a GGUF file
  std::string save_merged, merged_type;
  bool dry_run = false;
  bool chat = false;

  /// Whether each rank saves its part of a checkpoint.
  bool saves_shards() const { return save_as == "sharded"; }
  /// Where checkpoints go; empty: nowhere.
  const std::string& checkpoint() const {
    return continued.empty() ? save : continued;
  }
};

/// Declares them and those of RunFlags.
void AddTrainOptions(Options& options, TrainFlags* flags);
/// Declares those that say how long, how fast, and what is saved, whatever is trained.
void AddLoopOptions(Options& options, TrainFlags* flags);

/// How long, how fast, and what is saved; with --epochs not how long, which the data
/// decides (SetSteps). Errors, kInvalidArgument, name the option.
Result<RunSpec> ReadTrainFlags(const TrainFlags& flags, const StepSpec& spec);

/// Makes `run` one of `steps` steps, at least 1. Errors as above.
Status SetSteps(const TrainFlags& flags, int64_t steps, RunSpec* run);

/// The steps of --epochs over so many examples, the last batch filled up.
Result<int64_t> StepsOfEpochs(int64_t epochs, int64_t examples, int64_t batch);

/// The metrics of --metrics, for evaluations of `spec`, which has an ONNX file's data
/// already. Errors, kInvalidArgument: one that there is not, or is given twice, one of five
/// classes where there are fewer; a model whose loss is no cross-entropy.
Status SetMetrics(const TrainFlags& flags, StepSpec* spec);

/// The rules for --init. Error: a rename that is none.
Result<WeightRules> ReadWeightRules(const TrainFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_FLAGS_H_
