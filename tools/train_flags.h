#ifndef STOWAGE_TOOLS_TRAIN_FLAGS_H_
#define STOWAGE_TOOLS_TRAIN_FLAGS_H_

// Declares and reads the options of `stowage train` and `stowage finetune` that do not concern the
// model.
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
  int64_t eval_every = 0;  // 0 means only at the end
  int64_t patience = 0;    // 0 means unlimited
  std::string metrics;     // of evaluations, a list
  std::string log;
  std::string on_nonfinite = "stop";
  std::optional<int64_t> sample;
  int64_t default_sample = 200;
  int64_t sample_length() const { return sample.value_or(default_sample); }
  bool check = false;
  bool json = false;
  // Only for `stowage finetune`.
  std::string weights;
  std::string save_adapter;  // a folder, or a GGUF file
  std::string save_merged, merged_type;
  bool dry_run = false;
  bool chat = false;

  /// Returns whether each rank saves a shard of checkpoints.
  bool saves_shards() const { return save_as == "sharded"; }
  /// Returns the path of checkpoints, or "" if none are saved.
  const std::string& checkpoint() const {
    return continued.empty() ? save : continued;
  }
};

/// Declares all options of `stowage train`.
void AddTrainOptions(Options& options, TrainFlags* flags);
/// Declares the options of any run: steps, learning rate, checkpoints, outputs.
void AddLoopOptions(Options& options, TrainFlags* flags);

/// Returns the run that the flags describe. With --epochs, the number of steps depends on the data,
/// so the caller must compute it (StepsOfEpochs) and call SetSteps. Returns kInvalidArgument,
/// naming the option, if a value is invalid.
Result<RunSpec> ReadTrainFlags(const TrainFlags& flags, const StepSpec& spec);

/// Sets the number of steps of `run`, and --stop-at and --warmup, which depend on it. Returns
/// kInvalidArgument, naming the option, if `steps` is below 1 or too large, or if --stop-at or
/// --warmup does not suit it.
Status SetSteps(const TrainFlags& flags, int64_t steps, RunSpec* run);

/// Returns the number of steps in `epochs` passes over `examples` examples, with `batch` examples
/// per step, rounded up. `batch` must be at least 1. Returns kInvalidArgument if epochs * examples
/// exceeds 64 bits.
Result<int64_t> StepsOfEpochs(int64_t epochs, int64_t examples, int64_t batch);

/// Sets the metrics and classes of `spec` for --metrics. For a model from an ONNX file, `spec` must
/// already contain the data. Returns kInvalidArgument if a metric is unknown or given twice, if
/// "top5" is given and there are fewer than five classes, or if ClassesOf (train/evaluation.h)
/// finds no classes, because the loss is not a single cross-entropy or does not store logits.
/// Propagates errors of the model.
Status SetMetrics(const TrainFlags& flags, StepSpec* spec);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_FLAGS_H_
