#include "tools/model_flags.h"

#include <string_view>
#include <variant>

#include "base/strings.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

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
                  "Pieces to take the batch in, a number or auto: as few as "
                  "the budget allows; gradients add up")
      ->capture_default_str();
}

Result<StepSpec> ReadModelFlags(const ModelFlags& flags) {
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
  STOWAGE_ASSIGN_OR_RETURN(spec.micro_batches,
                           ParseMicroBatches(flags.micro_batches));
  return spec;
}

}  // namespace stowage::tools
