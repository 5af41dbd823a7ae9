#ifndef STOWAGE_PLANNER_WEIGHT_LAYOUT_H_
#define STOWAGE_PLANNER_WEIGHT_LAYOUT_H_

// Where the persistent values live, once and for all programs.
//
// The first plan of a model decides where its weights are; every other plan
// over the same weights (backward, training step, evaluation, generation,
// another batch size) takes that layout as given, reserves it first and packs
// its own activations elsewhere. So one copy of the weights serves all
// programs.
//
//   Result<Plan> forward_plan = PlanMemory(forward);
//   WeightLayout weights = WeightLayout::FromForward(forward, *forward_plan);
//   Result<Plan> step_plan = PlanMemory(step, {.weights = &weights});

#include <string>
#include <unordered_map>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

class WeightLayout {
 public:
  struct Slot {
    TensorType type;
    Bytes offset = 0;  // from the base of its region
  };

  /// The layout of the params of `graph` as `plan` placed them, and of its
  /// states if it has any (a training step's plan has). Precondition: the plan
  /// is for the graph.
  static WeightLayout FromForward(const Graph& graph, const Plan& plan);

  /// The params alone, so that a plan may move the states.
  WeightLayout WithoutStates() const;

  const std::unordered_map<std::string, Slot>& weights() const {
    return weights_;
  }
  const std::unordered_map<std::string, Slot>& states() const {
    return states_;
  }
  /// Those in the host's memory.
  const std::unordered_map<std::string, Slot>& host_states() const {
    return host_states_;
  }
  Bytes weight_bytes() const { return weight_bytes_; }
  Bytes state_bytes() const { return state_bytes_; }
  Bytes host_state_bytes() const { return host_state_bytes_; }
  Bytes alignment() const { return alignment_; }

 private:
  std::unordered_map<std::string, Slot> weights_, states_, host_states_;
  Bytes weight_bytes_ = 0;
  Bytes state_bytes_ = 0;
  Bytes host_state_bytes_ = 0;
  Bytes alignment_ = 1;
};

}  // namespace stowage

#endif  // STOWAGE_PLANNER_WEIGHT_LAYOUT_H_
