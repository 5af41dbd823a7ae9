// stowage train: a training run inside a memory budget.

#include <memory>

#include "base/result.h"
#include "tools/command.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "tools/options.h"
#include "tools/rank_run.h"
#include "tools/run_training.h"
#include "tools/train_flags.h"

namespace stowage::tools {
namespace {

// Of a built-in model, or of an ONNX file's.
Result<StepSpec> ReadTrainSpec(const TrainFlags& flags) {
  if (flags.model.lora_rank && !flags.save_onnx.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "[train] --save-onnx has no place for adapters; leave "
                 "--lora-rank away, or --save-weights them"};
  }
  STOWAGE_ASSIGN_OR_RETURN(StepSpec spec,
                           ReadStep("train", flags, flags.onnx, flags.arrays));
  STOWAGE_RETURN_IF_ERROR(SetMetrics(flags, &spec));
  return spec;
}

int RunTrain(const TrainFlags& flags) {
  return RunOnRanks([&](RankRun& ranks) {
    const Result<StepSpec> spec = ReadTrainSpec(flags);
    return spec.ok() ? RunTraining(flags, *spec, ranks) : Fail(spec.error());
  });
}

}  // namespace

void AddTrain(Program& program) {
  Options options = program.AddSubcommand(
      "train", "Train a model inside a memory budget",
      "stowage train --model mlp --data digits.csv --steps 200 --budget 4MiB");
  const auto flags = std::make_shared<TrainFlags>();
  AddTrainOptions(options, flags.get());
  options.OnRun([flags] { return RunTrain(*flags); });
}

}  // namespace stowage::tools
