#include "tools/optimizer_fits.h"

#include <iostream>
#include <string>
#include <utility>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "base/strings.h"
#include "report/format.h"
#include "tools/command.h"

namespace stowage::tools {
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
