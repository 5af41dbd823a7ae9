#include "tools/levers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "nn/models.h"
#include "planner/order.h"
#include "tools/micro_batches.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

PieceBuilder BuilderOf(const StepSpec& spec) {
  return [spec](int64_t pieces, Sampling sampling) {
    return BuildStep(spec.info.name, spec.options, spec.optimizer, pieces,
                     sampling);
  };
}

PieceBuilder BuilderOf(Graph graph) {
  return [graph = std::move(graph)](int64_t, Sampling) -> Result<PiecedStep> {
    return PiecedStep{.graph = graph};
  };
}

}  // namespace

Result<std::unique_ptr<Levers>> Levers::OfModel(const StepSpec& spec,
                                                const PlanOptions& options,
                                                NodeOrder order) {
  std::unique_ptr<Levers> levers(new Levers(options, spec.recompute));
  levers->spec_ = spec;
  STOWAGE_ASSIGN_OR_RETURN(
      const Graph forward,
      BuildModel(spec.info.name, ModelPurpose::kTrain, spec.options));
  PlanOptions forward_options = options;
  forward_options.budget.reset();
  STOWAGE_ASSIGN_OR_RETURN(const Plan forward_plan,
                           PlanMemory(forward, forward_options));
  levers->weights_ = WeightLayout::FromForward(forward, forward_plan);
  levers->options_.weights = &*levers->weights_;

  std::vector<int64_t> pieces = PiecesToTry(*spec.options.batch);
  if (spec.micro_batches) pieces = {*spec.micro_batches};
  levers->planner_ = std::make_unique<MicroBatchPlanner>(
      pieces, BuilderOf(spec), levers->options_, spec.recompute);
  if (order == NodeOrder::kGiven) return levers;

  // The order is looked for once the number of pieces is known.
  int64_t chosen = pieces.back();
  const Result<MicroBatchedPlan> plan = levers->planner_->PlanFor(spec.budget);
  if (plan.ok()) {
    chosen = plan->pieces;
  } else if (plan.error().code != ErrorCode::kBudgetTooSmall) {
    return plan.error();
  }
  STOWAGE_ASSIGN_OR_RETURN(
      PiecedStep step, BuildStep(spec.info.name, spec.options, spec.optimizer,
                                 chosen, Sampling::kAll));
  STOWAGE_RETURN_IF_ERROR(levers->PutInOrder(std::move(step.graph), chosen));
  return levers;
}

Result<std::unique_ptr<Levers>> Levers::OfGraph(Graph graph,
                                                RecomputeOptions recompute,
                                                const PlanOptions& options,
                                                NodeOrder order) {
  std::unique_ptr<Levers> levers(new Levers(options, std::move(recompute)));
  if (order == NodeOrder::kMemory) {
    STOWAGE_RETURN_IF_ERROR(levers->PutInOrder(std::move(graph), 1));
  } else {
    levers->planner_ = std::make_unique<MicroBatchPlanner>(
        std::vector<int64_t>{1}, BuilderOf(std::move(graph)), levers->options_,
        levers->recompute_);
  }
  return levers;
}

Status Levers::PutInOrder(Graph step, int64_t pieces) {
  STOWAGE_ASSIGN_OR_RETURN(OrderedPlan ordered,
                           PlanInMemoryOrder(step, options_));
  order_bound_ = ordered.bound;
  // A new order may have taken the best packer to be smaller.
  if (ordered.plan.packer.starts_with("best")) options_.packer = Packer::kBest;
  planner_ = std::make_unique<MicroBatchPlanner>(
      std::vector<int64_t>{pieces}, BuilderOf(std::move(ordered.graph)),
      options_, recompute_);
  return {};
}

// Which order a plan is in, is for its reader to know.
Result<MicroBatchedPlan> Levers::InOrder(Result<MicroBatchedPlan> plan) const {
  if (plan.ok() && order_bound_) plan->made.plan.order = "memory";
  return plan;
}

Result<MicroBatchedPlan> Levers::PlanFor(std::optional<Bytes> budget) {
  return InOrder(planner_->PlanFor(budget));
}

Result<MicroBatchedPlan> Levers::PlanAsGiven() {
  return InOrder(planner_->PlanAsGiven());
}

Result<Json> Levers::SmallestBudgets() {
  MicroBatchPlanner* any = nullptr;  // of all numbers of pieces
  std::optional<MicroBatchPlanner> made;
  if (spec_ && !spec_->micro_batches && !order_bound_) {
    any = planner_.get();
  } else if (spec_) {
    any = &made.emplace(PiecesToTry(*spec_->options.batch), BuilderOf(*spec_),
                        options_, recompute_);
  }
  const auto in_one = [&](Recompute recompute) {
    return any == planner_.get() ? any->SmallestBudget(recompute, 1)
                                 : planner_->SmallestBudget(recompute);
  };
  Json budgets = Json::object();
  STOWAGE_ASSIGN_OR_RETURN(budgets["none"], in_one(Recompute::kNone));
  STOWAGE_ASSIGN_OR_RETURN(const Bytes recompute, in_one(Recompute::kAuto));
  budgets["recompute"] = recompute;
  budgets["micro_batches"] = nullptr;
  budgets["all"] = recompute;
  if (any) {
    STOWAGE_ASSIGN_OR_RETURN(budgets["micro_batches"],
                             any->SmallestBudget(Recompute::kNone));
    STOWAGE_ASSIGN_OR_RETURN(const Bytes all,
                             any->SmallestBudget(Recompute::kAuto));
    budgets["all"] = std::min(recompute, all);
  }
  return budgets;
}

}  // namespace stowage::tools
