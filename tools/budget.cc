#include "tools/budget.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "autodiff/optimizer.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "planner/fit/memory_optimizations.h"
#include "report/text.h"
#include "tools/command.h"
#include "train/step_memory.h"

namespace stowage::tools {

namespace {

using Json = nlohmann::ordered_json;

// The smallest budgets with each optimization alone and with all, in one micro-batch or the
// requested number.
Result<Json> SmallestBudgets(StepFitter& fitter, std::optional<int64_t> batch) {
  const MemoryOptimizations& allowed = fitter.options().optimizations;
  MemoryOptimizations none = NoOptimizations();
  if (allowed.micro_batches.size() == 1)
    none.micro_batches = allowed.micro_batches;
  none.order = allowed.order;
  MemoryOptimizations recompute = none, offload = none, all = none;
  recompute.recompute = all.recompute = Recompute::kAuto;
  all.tiles = Tiles::kAuto;
  offload.offload = all.offload =
      std::max(OffloadChoice::kAuto, allowed.offload);
  Json budgets = Json::object();
  STOWAGE_ASSIGN_OR_RETURN(budgets["none"], fitter.SmallestBudget(none));
  STOWAGE_ASSIGN_OR_RETURN(budgets["recompute"],
                           fitter.SmallestBudget(recompute));
  budgets["micro_batches"] = nullptr;
  if (batch) {
    MemoryOptimizations micro_batches = none;
    micro_batches.micro_batches = all.micro_batches = MicroBatchesToTry(*batch);
    STOWAGE_ASSIGN_OR_RETURN(budgets["micro_batches"],
                             fitter.SmallestBudget(micro_batches));
  }
  STOWAGE_ASSIGN_OR_RETURN(budgets["offload"], fitter.SmallestBudget(offload));
  STOWAGE_ASSIGN_OR_RETURN(budgets["all"], fitter.SmallestBudget(all));
  return budgets;
}

// "; the smallest budgets: 1.0 MiB (1048576 bytes) with --fit none, ...". If an option restricts
// one of them, such as --micro-batches 4, the option without the restriction is added.
std::string BudgetsText(const Json& budgets,
                        const MemoryOptimizations& allowed) {
  std::string_view micro_batches, recompute;
  if (allowed.micro_batches.size() == 1 && allowed.micro_batches.front() > 1) {
    micro_batches = " --micro-batches auto";
  }
  if (allowed.recompute == Recompute::kCheap) recompute = " --recompute auto";
  struct Row {
    const char *name, *flag;
    std::string more;
  };
  const Row rows[] = {
      {"none", "none", ""},
      {"recompute", "recompute", std::string(recompute)},
      {"micro_batches", "micro-batches", std::string(micro_batches)},
      {"offload", "offload", ""},
      {"all", "auto", StrCat(micro_batches, recompute)}};
  std::string text;
  for (const auto& [name, flag, more] : rows) {
    const Json& bytes = budgets[name];
    if (bytes.is_null()) continue;
    text +=
        StrCat(text.empty() ? "" : ", ", FormatBytes(bytes.get<int64_t>()),
               " (", bytes.get<int64_t>(), " bytes) with --fit ", flag, more);
  }
  return StrCat("; the smallest budgets: ", text);
}

}  // namespace

Result<Json> RefusalJson(StepFitter& fitter, std::optional<int64_t> batch,
                         Error* error) {
  Json json = Json::object();
  STOWAGE_ASSIGN_OR_RETURN(json["minimum_budget_bytes"],
                           fitter.SmallestBudget());
  STOWAGE_ASSIGN_OR_RETURN(json["minimum_budgets"],
                           SmallestBudgets(fitter, batch));
  error->message +=
      BudgetsText(json["minimum_budgets"], fitter.options().optimizations);
  json["error"] = error->message;
  return json;
}

Error WithSmallestBudgets(StepFitter& fitter, std::optional<int64_t> batch,
                          Error error) {
  const Result<Json> budgets = SmallestBudgets(fitter, batch);
  if (!budgets.ok()) return budgets.error();
  error.message += BudgetsText(*budgets, fitter.options().optimizations);
  return error;
}

double LeastPercent(const FittedStep& step) {
  return step.cost > 0 ? 100 * step.price.least_extra_cost / step.cost : 0;
}

Result<std::optional<Predicted>> Predict(const std::optional<OpTimes>& times,
                                         StepFitter& fitter,
                                         const FittedStep& step) {
  if (!times) return std::optional<Predicted>();
  STOWAGE_ASSIGN_OR_RETURN(const FittedStep given, fitter.AsGiven());
  const double without =
      times->StepSeconds(given.graph, given.plan.arena_bytes());
  const double seconds =
      times->StepSeconds(step.graph, step.plan.arena_bytes());
  const double avoidable =
      1e-9 * (step.price.extra_cost - step.price.least_extra_cost);
  const auto percent = [&](double of_step) {
    return without > 0 ? 100 * (of_step / without - 1) : 0.0;
  };
  return std::optional<Predicted>(
      {.step_seconds = seconds,
       .extra_percent = percent(seconds),
       .least_percent = percent(seconds - avoidable),
       .estimated = times->CountEstimated(step.graph)});
}

nlohmann::ordered_json PredictedJson(
    const std::optional<Predicted>& predicted) {
  using Json = nlohmann::ordered_json;
  return {
      {"predicted_step_seconds",
       predicted ? Json(predicted->step_seconds) : Json()},
      {"predicted_extra_time_percent",
       predicted ? Json(predicted->extra_percent) : Json()},
      {"estimated_op_times", predicted ? Json(predicted->estimated) : Json()}};
}

std::string FittedText(const FittedStep& step,
                       const std::optional<Predicted>& predicted) {
  constexpr size_t kMaxNamed = 10;
  constexpr double kRoundedPercent = 5e-4;
  const Price& price = step.price;
  std::string text;
  if (predicted) {
    text += StrCat("by the times of its ops a step takes ",
                   Fixed(1e3 * predicted->step_seconds, 3), " ms, ",
                   Fixed(predicted->extra_percent, 2),
                   " % more than without memory optimizations");
    if (predicted->estimated > 0) {
      text += StrCat("; ", predicted->estimated, " of ", step.graph.num_nodes(),
                     " are estimated");
    }
    text += "\n";
  }
  if (price.micro_batches > 1) {
    text += StrCat("the batch is taken in ", price.micro_batches,
                   " micro-batches\n");
  }
  if (price.tile_rows > 0) {
    text += StrCat("logits exist ", price.tile_rows, " rows at a time\n");
  }
  if (price.host.values > 0) {
    text += StrCat(price.host.values, " values are kept outside the arena, in ",
                   FormatBytes(step.plan.host_bytes()), " (",
                   step.plan.host_bytes(), " bytes), ",
                   FormatBytes(price.host.bytes_per_step), " copied a step\n");
  }
  if (price.recomputed_nodes == 0) return text;
  // The cost includes copies, if params on the host are reloaded for the backward pass.
  const double extra_cost =
      step.cost > 0 ? 100 * price.extra_cost / step.cost : 0;
  const bool reads_again =
      !predicted && extra_cost > price.extra_percent + kRoundedPercent;
  text += StrCat(
      price.recomputed_nodes, " nodes run again, ",
      Fixed(price.extra_percent, 3), " % more operations",
      reads_again ? StrCat(", and weights are read again, in all ",
                           Fixed(extra_cost, 3), " %")
                  : "",
      "; no choice that fits needs less than ",
      Fixed(predicted ? predicted->least_percent : LeastPercent(step), 3),
      predicted ? " % more time\n" : " %\n");
  const size_t named = std::min(step.recomputed.size(), kMaxNamed);
  for (size_t k = 0; k < named; ++k) {
    const RecomputedNode& recomputed = step.recomputed[k];
    text += StrCat("  ", WithoutControls(recomputed.name), ": frees ",
                   FormatBytes(recomputed.freed), " for ",
                   Fixed(100 * recomputed.flops / step.flops, 3), " %");
    if (recomputed.times > 1) text += StrCat(", ", recomputed.times, " times");
    text += "\n";
  }
  if (named < step.recomputed.size()) {
    text += StrCat("  and ", step.recomputed.size() - named, " more\n");
  }
  return text;
}

std::string BatchChangesText(const TrainingPlanner& planner,
                             const FittedStep& step) {
  constexpr size_t kMaxNamed = 5;
  const auto changes = planner.BatchChanges(step.price.micro_batches);
  if (!changes.ok()) return "";
  std::string text;
  for (size_t k = 0; k < std::min(changes->size(), kMaxNamed); ++k) {
    const BatchObstacle& change = (*changes)[k];
    text += StrCat("taken in parts, the batch gives another ",
                   Quoted(change.name), " (", change.why, ")\n");
  }
  if (changes->size() > kMaxNamed) {
    text += StrCat("and ", changes->size() - kMaxNamed, " more\n");
  }
  return text;
}

namespace {

using Json = nlohmann::ordered_json;

Result<OptimizerFit> FitOptimizer(TrainingSpec spec, const DeviceNeeds& device,
                                  const NamedOptimizer& named) {
  OptimizerFit fit{.name = named.name};
  spec.training.optimizer = named.optimizer;
  STOWAGE_ASSIGN_OR_RETURN(TrainingPlanner planner,
                           TrainingPlanner::Make(std::move(spec), device));
  const Result<TrainingPlan> plan = planner.Plan();
  if (plan.ok()) {
    const FittedStep& step = plan->step;
    fit.fits = true;
    fit.arena = plan->arena_bytes();
    fit.bytes = MeasureParamBytes(step.graph, step.plan);
    return fit;
  }
  if (plan.error().code != ErrorCode::kBudgetTooSmall) return plan.error();
  STOWAGE_ASSIGN_OR_RETURN(fit.arena, planner.step().SmallestBudget());
  STOWAGE_ASSIGN_OR_RETURN(const FittedStep given,
                           planner.step().fitter().AsGiven());
  fit.bytes = MeasureParamBytes(given.graph, given.plan);
  return fit;
}

std::string FitsText(const std::vector<OptimizerFit>& fits,
                     std::optional<Bytes> budget) {
  std::string text = StrCat(
      "optimizer      fits        arena   bytes a param: weights, states, "
      "gradients at most\n");
  for (const OptimizerFit& fit : fits) {
    text += PadRight(fit.name, 15);
    if (!fit.refused.empty()) {
      text += StrCat("no   ", fit.refused, "\n");
      continue;
    }
    const ParamBytes& bytes = fit.bytes;
    const auto figure = [&](Bytes of) {
      return PadLeft(Fixed(bytes.per_param(of), 2), 7);
    };
    text +=
        StrCat(fit.fits ? "yes" : "no ", PadLeft(FormatBytes(fit.arena), 14),
               "   ", figure(bytes.total()), " =", figure(bytes.weights), " +",
               figure(bytes.states), " +", figure(bytes.gradients),
               fit.fits ? "" : "; the smallest arena that works", "\n");
  }
  if (budget) text += StrCat("\nthe budget is ", FormatBytes(*budget), "\n");
  return text;
}

Json FitsJson(const std::vector<OptimizerFit>& fits,
              std::optional<Bytes> budget) {
  Json json = Json::object();
  json["budget_bytes"] = budget ? Json(*budget) : Json();
  json["optimizers"] = Json::array();
  for (const OptimizerFit& fit : fits) {
    Json line = {{"optimizer", fit.name}, {"fits", fit.fits}};
    if (fit.refused.empty()) {
      line["arena_bytes"] = fit.arena;
      line["bytes_per_param"] = ParamBytesJson(fit.bytes);
    } else {
      line["refused"] = fit.refused;
    }
    json["optimizers"].push_back(line);
  }
  return json;
}

}  // namespace

std::vector<OptimizerFit> FitOptimizers(const TrainingSpec& spec,
                                        const DeviceNeeds& device) {
  std::vector<OptimizerFit> fits;
  for (const NamedOptimizer& named : NamedOptimizers()) {
    Result<OptimizerFit> fit = FitOptimizer(spec, device, named);
    fits.push_back(fit.ok() ? *std::move(fit)
                            : OptimizerFit{.name = named.name,
                                           .refused = fit.error().message});
  }
  return fits;
}

Json ParamBytesJson(const ParamBytes& bytes) {
  return {{"weights", bytes.per_param(bytes.weights)},
          {"states", bytes.per_param(bytes.states)},
          {"gradients", bytes.per_param(bytes.gradients)},
          {"total", bytes.per_param(bytes.total())}};
}

void PrintOptimizerFits(const std::vector<OptimizerFit>& fits,
                        std::optional<Bytes> budget, bool as_json) {
  if (as_json) {
    PrintJson(FitsJson(fits, budget));
  } else {
    std::cout << FitsText(fits, budget);
  }
}

}  // namespace stowage::tools
