#ifndef STOWAGE_TOOLS_TRAIN_FLAGS_H_
#define STOWAGE_TOOLS_TRAIN_FLAGS_H_

// The options of `stowage train` and `stowage finetune` besides those of the model.
//
//   AddTrainOptions(options, &flags);
//   Result<RunSpec> run = ReadTrainFlags(flags, spec);

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/flags.h"
#include "tools/init_flags.h"
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
  InitFlags init;
  std::string save_weights;
  std::string save_as = "whole";
  int64_t save_every = 0;
  int64_t keep_last = 1;
  int64_t eval_every = 0;  // 0: only at the end
  int64_t patience = 0;    // 0: unlimited
  std::string metrics;     // of evaluations, a list
  std::string log;
  std::string on_nonfinite = "stop";
  std::optional<int64_t> sample;
  int64_t default_sample = 200;
  int64_t sample_length() const { return sample.value_or(default_sample); }
  bool check = false;
  bool json = false;
  // Only of stowage finetune.
  std::string weights;
  std::string save_adapter;  // a folder, or a GGUF file
  std::string save_merged, merged_type;
  bool dry_run = false;
  bool chat = false;

  /// Whether each rank saves a shard of checkpoints.
  bool saves_shards() const { return save_as == "sharded"; }
  /// The path of checkpoints; "" for none.
  const std::string& checkpoint() const {
    return continued.empty() ? save : continued;
  }
};

/// Declares all options of stowage train.
void AddTrainOptions(Options& options, TrainFlags* flags);
/// Declares the options of any run: steps, learning rate, checkpoints, outputs.
void AddLoopOptions(Options& options, TrainFlags* flags);

/// The run of the flags; with --epochs, SetSteps must set its steps, which depend on the data.
/// Errors kInvalidArgument, with the option.
Result<RunSpec> ReadTrainFlags(const TrainFlags& flags, const StepSpec& spec);

/// Sets the steps of `run`, at least 1. Errors as above.
Status SetSteps(const TrainFlags& flags, int64_t steps, RunSpec* run);

/// The steps of `epochs` over so many examples, rounded up.
Result<int64_t> StepsOfEpochs(int64_t epochs, int64_t examples, int64_t batch);

/// Sets the metrics of --metrics for evaluations of `spec`, which holds an ONNX file's data
/// already. Errors kInvalidArgument: an unknown or duplicate metric, top5 with fewer than five
/// classes, a model whose loss is no cross-entropy.
Status SetMetrics(const TrainFlags& flags, StepSpec* spec);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_FLAGS_H_
