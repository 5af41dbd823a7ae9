#ifndef STOWAGE_PLANNER_WEIGHT_LAYOUT_H_
#define STOWAGE_PLANNER_WEIGHT_LAYOUT_H_

// Where the persistent values live, once and for all programs.
//
// The first plan of a model decides where its weights are; every other plan
// over the same weights (backward, training step, evaluation, generation,
// another batch size) takes that layout as given, reserves it first and packs
// its own activations elsewhere. So one copy of the weights serves all
// programs. A layout never changes, and copies of it cost nothing.
//
//   Result<Plan> forward_plan = PlanMemory(forward);
//   WeightLayout weights = WeightLayout::FromForward(forward, *forward_plan);
//   Result<Plan> step_plan = PlanMemory(step, {.weights = weights});

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

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

  using Slots = std::unordered_map<std::string, Slot>;
  const Slots& weights() const { return content_->weights; }
  const Slots& states() const { return content_->states; }
  /// Those in the host's memory.
  const Slots& host_states() const { return content_->host_states; }
  Bytes weight_bytes() const { return content_->weight_bytes; }
  Bytes state_bytes() const { return content_->state_bytes; }
  Bytes host_state_bytes() const { return content_->host_state_bytes; }
  Bytes alignment() const { return content_->alignment; }

 private:
  struct Content {
    Slots weights, states, host_states;
    Bytes weight_bytes = 0;
    Bytes state_bytes = 0;
    Bytes host_state_bytes = 0;
    Bytes alignment = 1;
  };
  explicit WeightLayout(Content content)
      : content_(std::make_shared<const Content>(std::move(content))) {}

  std::shared_ptr<const Content> content_;  // never changes: copies share it
};

}  // namespace stowage

#endif  // STOWAGE_PLANNER_WEIGHT_LAYOUT_H_
