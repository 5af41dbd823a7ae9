#ifndef STOWAGE_TOOLS_LEVERS_H_
#define STOWAGE_TOOLS_LEVERS_H_

// How a training step is made to fit its budget: as the flags allow it, by the
// order of its nodes, by pieces of the batch, by recomputation, by what is kept on
// the host.
//
//   Result<std::unique_ptr<Levers>> levers = Levers::OfModel(spec, options, {});
//   Result<MicroBatchedPlan> fitted = (*levers)->PlanFor(spec.budget);

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/pieces/pieces.h"
#include "planner/fit/offload/offload_plan.h"
#include "planner/plan_memory.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/weight_layout.h"
#include "tools/model_flags.h"

namespace stowage::tools {

/// Of the nodes: as they are given, or the one found that takes least memory.
enum class NodeOrder : uint8_t { kGiven, kMemory };

class Levers {
 public:
  /// Of the step that the flags mean, planned around the weights as its forward
  /// plan lays them out. What `options` points at must outlive this. Errors:
  /// the model's and the planner's; more pieces than examples.
  static Result<std::unique_ptr<Levers>> OfModel(const StepSpec& spec,
                                                 const PlanOptions& options,
                                                 NodeOrder order);
  /// Of a graph as it is, which cannot be taken in pieces.
  static Result<std::unique_ptr<Levers>> OfGraph(Graph graph,
                                                 RecomputeOptions recompute,
                                                 OffloadChoice offload,
                                                 const PlanOptions& options,
                                                 NodeOrder order);

  // What OffloadPlanner says, of the levers that are allowed.
  Result<MicroBatchedPlan> PlanFor(std::optional<Bytes> budget);
  Result<MicroBatchedPlan> PlanAsGiven();
  Result<Bytes> SmallestBudget() {
    return planner_->SmallestBudget(offload_, recompute_.recompute);
  }
  Result<std::vector<OffloadedPoint>> Frontier() {
    return planner_->Frontier();
  }

  /// No order of the nodes takes a smaller arena; absent when none was looked
  /// for.
  std::optional<Bytes> order_bound() const { return order_bound_; }

  /// The smallest budgets that work: {"none", "recompute", "micro_batches",
  /// "offload", "all"}, with each lever alone and with all of them, whatever the flags
  /// allow; null where there is no batch to cut.
  Result<nlohmann::ordered_json> SmallestBudgets();

 private:
  Levers(const PlanOptions& options, RecomputeOptions recompute,
         OffloadChoice offload)
      : options_(options),
        recompute_(std::move(recompute)),
        offload_(offload) {}

  std::unique_ptr<OffloadPlanner> PlannerOf(std::vector<int64_t> pieces,
                                            PieceBuilder build) const;

  Status PutInOrder(Graph step, int64_t pieces);
  Result<MicroBatchedPlan> InOrder(Result<MicroBatchedPlan> plan) const;

  PlanOptions options_;
  const RecomputeOptions recompute_;
  const OffloadChoice offload_;
  std::optional<StepSpec> spec_;         // absent for a graph
  std::optional<WeightLayout> weights_;  // likewise
  std::optional<Bytes> order_bound_;
  std::unique_ptr<OffloadPlanner> planner_;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_LEVERS_H_
