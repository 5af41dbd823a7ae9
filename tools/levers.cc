#include "tools/levers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "nn/models.h"
#include "planner/fit/order/order.h"
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

}  // namespace

std::unique_ptr<OffloadPlanner> Levers::PlannerOf(std::vector<int64_t> pieces,
                                                  PieceBuilder build) const {
  OffloadOptions offload{.offload = offload_, .recompute = recompute_};
  // Measured times include those of copies.
  if (recompute_.cost) offload.cost_per_byte = 0;
  return std::make_unique<OffloadPlanner>(std::move(pieces), std::move(build),
                                          options_, std::move(offload));
}

Result<std::unique_ptr<Levers>> Levers::OfModel(const StepSpec& spec,
                                                const PlanOptions& options,
                                                NodeOrder order) {
  std::unique_ptr<Levers> levers(
      new Levers(options, spec.recompute, spec.offload));
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
  levers->planner_ = levers->PlannerOf(pieces, BuilderOf(spec));
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
                                                OffloadChoice offload,
                                                const PlanOptions& options,
                                                NodeOrder order) {
  std::unique_ptr<Levers> levers(
      new Levers(options, std::move(recompute), offload));
  if (order == NodeOrder::kMemory) {
    STOWAGE_RETURN_IF_ERROR(levers->PutInOrder(std::move(graph), 1));
  } else {
    levers->planner_ =
        levers->PlannerOf({1}, stowage::OfGraph(std::move(graph)));
  }
  return levers;
}

Status Levers::PutInOrder(Graph step, int64_t pieces) {
  STOWAGE_ASSIGN_OR_RETURN(OrderedPlan ordered,
                           PlanInMemoryOrder(step, options_));
  order_bound_ = ordered.bound;
  // A new order may have taken the best packer to be smaller.
  if (ordered.plan.packer.starts_with("best")) options_.packer = Packer::kBest;
  planner_ = PlannerOf({pieces}, stowage::OfGraph(std::move(ordered.graph)));
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
  OffloadPlanner* in_one = planner_.get();
  std::unique_ptr<OffloadPlanner> one, any;
  if (spec_) {
    any = PlannerOf(PiecesToTry(*spec_->options.batch), BuilderOf(*spec_));
    if (!spec_->micro_batches && !order_bound_) {
      one = PlannerOf({1}, BuilderOf(*spec_));
      in_one = one.get();
    }
  }
  constexpr OffloadChoice kNothing = OffloadChoice::kNone;
  constexpr OffloadChoice kMoved = OffloadChoice::kAuto;
  Json budgets = Json::object();
  STOWAGE_ASSIGN_OR_RETURN(budgets["none"],
                           in_one->SmallestBudget(kNothing, Recompute::kNone));
  STOWAGE_ASSIGN_OR_RETURN(budgets["recompute"],
                           in_one->SmallestBudget(kNothing, Recompute::kAuto));
  budgets["micro_batches"] = nullptr;
  STOWAGE_ASSIGN_OR_RETURN(budgets["offload"],
                           in_one->SmallestBudget(kMoved, Recompute::kNone));
  STOWAGE_ASSIGN_OR_RETURN(Bytes all,
                           in_one->SmallestBudget(kMoved, Recompute::kAuto));
  if (any) {
    STOWAGE_ASSIGN_OR_RETURN(budgets["micro_batches"],
                             any->SmallestBudget(kNothing, Recompute::kNone));
    STOWAGE_ASSIGN_OR_RETURN(const Bytes in_pieces,
                             any->SmallestBudget(kMoved, Recompute::kAuto));
    all = std::min(all, in_pieces);
  }
  budgets["all"] = all;
  return budgets;
}

}  // namespace stowage::tools
