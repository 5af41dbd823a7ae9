#include "tools/model_flags.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

// The step, planned around the weights as the forward plan laid them out.
Result<PlannedStep> PlanPieces(const StepSpec& spec, const PlanOptions& options,
                               int64_t pieces) {
  STOWAGE_ASSIGN_OR_RETURN(
      const Graph forward,
      BuildModel(spec.info.name, ModelPurpose::kTrain, spec.options));
  PlanOptions forward_options = options;
  forward_options.budget.reset();
  STOWAGE_ASSIGN_OR_RETURN(const Plan forward_plan,
                           PlanMemory(forward, forward_options));
  const WeightLayout weights = WeightLayout::FromForward(forward, forward_plan);

  STOWAGE_ASSIGN_OR_RETURN(Graph step, BuildStep(spec.info.name, spec.options,
                                                 spec.optimizer, pieces));
  PlanOptions step_options = options;
  step_options.weights = &weights;
  STOWAGE_ASSIGN_OR_RETURN(Plan plan, PlanMemory(step, step_options));
  WeightLayout layout = WeightLayout::FromForward(step, plan);
  return PlannedStep{std::move(step), std::move(plan), std::move(layout),
                     pieces};
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

Result<PlannedStep> PlanStep(const StepSpec& spec, const PlanOptions& options) {
  if (spec.micro_batches) return PlanPieces(spec, options, *spec.micro_batches);
  if (!spec.budget) return PlanPieces(spec, options, 1);
  // The fewest pieces that fit as they are; the most, if none do.
  const std::vector<int64_t> tries = PiecesToTry(*spec.options.batch);
  std::optional<PlannedStep> best;
  size_t next = 0;
  do {
    STOWAGE_ASSIGN_OR_RETURN(best, PlanPieces(spec, options, tries[next]));
  } while (best->plan.arena_bytes() > *spec.budget && ++next < tries.size());
  if (spec.recompute == Recompute::kNone) return *std::move(best);

  // Fewer pieces save sums of gradients, and may cost more recomputation.
  bool fits = next < tries.size();
  double least = fits ? GraphFlops(best->step) : 0;
  while (next > 0) {
    const int64_t pieces = tries[--next];
    STOWAGE_ASSIGN_OR_RETURN(PlannedStep step,
                             PlanPieces(spec, options, pieces));
    PlanOptions around = options;
    around.weights = &step.layout;
    RecomputePlanner planner(step.step, around, {.recompute = spec.recompute});
    const Result<RecomputedPlan> made = planner.PlanFor(spec.budget);
    if (!made.ok() && made.error().code != ErrorCode::kBudgetTooSmall) {
      return made.error();
    }
    if (!made.ok()) break;  // still fewer need still more
    const double flops = GraphFlops(step.step) + made->extra_flops;
    if (fits && flops >= least) break;
    least = flops;
    fits = true;
    best = std::move(step);
  }
  return *std::move(best);
}

Result<Bytes> SmallestInPieces(const StepSpec& spec,
                               const PlanOptions& options) {
  std::optional<Bytes> smallest;
  for (const int64_t pieces : PiecesToTry(*spec.options.batch)) {
    STOWAGE_ASSIGN_OR_RETURN(const PlannedStep step,
                             PlanPieces(spec, options, pieces));
    smallest = std::min(smallest.value_or(step.plan.arena_bytes()),
                        step.plan.arena_bytes());
  }
  return *smallest;
}

}  // namespace stowage::tools
