#include "tools/model_flags.h"

#include <charconv>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

Status CheckMicroBatches(const std::string& text) {
  int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end;
  if (text != "auto" && !(is_number && count >= 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", Quoted(text),
                        " is no number of at least 1, nor auto")};
  }
  if (count == 1) return {};
  return Error{ErrorCode::kUnsupported,
               StrCat("[micro-batches] ", text,
                      " is not in this version; available: 1")};
}

// The named optimizer; with the model's own settings when it is the model's.
Result<Optimizer> ChooseOptimizer(const std::string& name,
                                  const TrainingDefaults& defaults) {
  const std::string_view chosen =
      name.empty() ? defaults.optimizer : std::string_view(name);
  STOWAGE_ASSIGN_OR_RETURN(Optimizer optimizer, ParseOptimizer(chosen));
  if (chosen != defaults.optimizer) return optimizer;
  if (AdamW* adamw = std::get_if<AdamW>(&optimizer)) {
    adamw->beta1 = defaults.beta1;
    adamw->beta2 = defaults.beta2;
  }
  std::visit([&](auto& kind) { kind.decay = defaults.decay; }, optimizer);
  return optimizer;
}

}  // namespace

void AddModelOptions(CLI::App& command, ModelFlags* flags) {
  command.add_option("--batch", flags->batch, "Examples a step");
  command.add_option("--seq", flags->seq, "Tokens in a sequence");
  command
      .add_option("--dtype", flags->dtype,
                  "Element type of weights and activations")
      ->capture_default_str();
  command.add_option("--optimizer", flags->optimizer,
                     "sgd, momentum or adamw; default: the model's");
  command.add_option("--budget", flags->budget,
                     "The most bytes the arena may take: 64MiB, 1.5GiB, 4.2GB");
  command
      .add_option("--threads", flags->threads,
                  "Threads to compute with; their scratch is in the arena; "
                  "default: all of the machine's")
      ->check(CLI::Range(1, 256));
  command
      .add_option("--recompute", flags->recompute,
                  "What may be made twice to fit the budget: none, cheap "
                  "(up to 1 % more operations) or auto")
      ->capture_default_str();
  command
      .add_option("--micro-batches", flags->micro_batches,
                  "Pieces of a batch: 1 (more are not in this version)")
      ->capture_default_str();
}

Status CheckStepIsAsGiven(const ModelFlags& flags) {
  return CheckMicroBatches(flags.micro_batches);
}

Result<StepSpec> ReadModelFlags(const ModelFlags& flags) {
  STOWAGE_RETURN_IF_ERROR(CheckStepIsAsGiven(flags));
  StepSpec spec;
  STOWAGE_ASSIGN_OR_RETURN(spec.info, FindModel(flags.model));
  spec.options.batch = flags.batch.value_or(spec.info.batch);
  spec.options.seq = flags.seq;
  if (!flags.seq && spec.info.seq > 0) spec.options.seq = spec.info.seq;
  STOWAGE_ASSIGN_OR_RETURN(spec.options.dtype, ParseDType(flags.dtype));
  STOWAGE_ASSIGN_OR_RETURN(
      spec.optimizer, ChooseOptimizer(flags.optimizer, spec.info.training));
  STOWAGE_ASSIGN_OR_RETURN(spec.budget,
                           ParseSizeOption("budget", flags.budget));
  STOWAGE_ASSIGN_OR_RETURN(spec.recompute, ParseRecompute(flags.recompute));
  return spec;
}

Result<PlannedStep> PlanStep(const StepSpec& spec, const PlanOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(
      const Graph forward,
      BuildModel(spec.info.name, ModelPurpose::kTrain, spec.options));
  PlanOptions forward_options = options;
  forward_options.budget.reset();
  STOWAGE_ASSIGN_OR_RETURN(const Plan forward_plan,
                           PlanMemory(forward, forward_options));
  const WeightLayout weights = WeightLayout::FromForward(forward, forward_plan);

  STOWAGE_ASSIGN_OR_RETURN(
      Graph step,
      BuildTrainStep(forward, "loss", {.optimizer = spec.optimizer}));
  PlanOptions step_options = options;
  step_options.weights = &weights;
  STOWAGE_ASSIGN_OR_RETURN(Plan plan, PlanMemory(step, step_options));
  WeightLayout layout = WeightLayout::FromForward(step, plan);
  return PlannedStep{std::move(step), std::move(plan), std::move(layout)};
}

}  // namespace stowage::tools
