#ifndef STOWAGE_PLANNER_PLAN_H_
#define STOWAGE_PLANNER_PLAN_H_

// A plan: the place of every byte of one program, and what it costs.
//
//   address                                       base of
//   0        weights       every param, once        kWeights
//            state         optimizer memory         kState
//            io            caches, inputs, and      kIo
//                          what the backend keeps
//                          beside the values
//            span          activations, gradients,  kActivations, kWorkspace
//   arena_bytes            outputs and scratch, packed by lifetime
//
// and beside the arena, in the host's memory, where something is kept there:
//
//   0        host state    optimizer memory         kHostState
//            host offload    values, for a while,     kHostOffload
//   host_bytes             packed by lifetime
//
// Slots are addressed by (region, offset), so that plans which share a weight
// layout agree on every weight and state whatever the rest of them holds.
//
// A body (ir/bodies.h) has a plan of its own, made once however often it runs, whose
// arena is the workspace of its node:
//
//   0        io            a second place for some       kIo
//                          of what is carried
//            span          what the body makes and       kActivations, kWorkspace
//   arena_bytes            does not hand back
//
// What it is handed, and what it hands back, lies outside, where the operands and the
// results of the node are: nothing is copied in or out. Bodies of one cond start at the
// same base, since only one of them runs. What a body keeps in the host's memory lies in
// the node's part of that: a buffer among what is offloaded to the host, which is there for the time of
// the node, and in which each iteration offloads over what the one before has.
//
// An operand of a cond that nothing reads behind it dies in its bodies, in each where
// that one has read it for the last time: the slot of its leaf lives until then, and
// what the body makes from then on may lie within its bytes, as within those of a result
// until it is written first. All else that lies outside is there throughout.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/lifetimes.h"

namespace stowage {

struct PlannedBuffer {
  std::string name;
  Region region = Region::kActivations;
  Bytes offset = 0;  // from the region's base
  Bytes size = 0;
  Time lower = 0;  // half-open
  Time upper = 0;
  /// Of a body, of what lies within the bytes of an operand that has died, or of a result
  /// that is not there yet: that slot, from whose first byte `offset` counts then; -1 of
  /// all else.
  int32_t within = -1;
};

/// Bytes of each part of the arena, which add up to arena_bytes, and of the
/// host's memory beside it.
struct RegionBytes {
  Bytes weights = 0;
  Bytes state = 0;
  Bytes io = 0;
  Bytes activations = 0;  // the span less `workspace`
  Bytes workspace = 0;    // by how much scratch raises the span's lower bound
  Bytes host_state = 0;   // these two beside the arena
  Bytes host_offload = 0;

  Bytes span() const { return activations + workspace; }
  Bytes total() const { return weights + state + io + span(); }
  Bytes host() const { return host_state + host_offload; }
  friend bool operator==(const RegionBytes&, const RegionBytes&) = default;
};

struct BodyPlan;

struct Plan {
  std::string graph_name;
  uint64_t fingerprint = 0;  // of the graph's text: Fingerprint(graph)
  Bytes alignment = 0;       // of every slot
  std::vector<PlannedBuffer> buffers;
  std::vector<int32_t> buffer_of;     // per value; a view has its root's
  std::vector<int32_t> workspace_of;  // per node; -1 where there is none
  /// Per node: the buffer, of the host's offload, in which its bodies keep what they do on
  /// the host; -1 where they keep nothing there.
  std::vector<int32_t> host_workspace_of;
  int32_t reserve = -1;  // the buffer of Backend::Reserve; -1: none
  RegionBytes regions;
  std::vector<BodyPlan> bodies;  // of all nodes that have some, in their order

  // What it costs, in bytes, padding to the alignment included.
  Bytes lower_bound = 0;  // reserved regions + the largest live sum
  // A slot for every non-view value, scratch once; of a step that was made to fit a
  // budget (planner/fit/fit.h), as it was before.
  Bytes no_reuse = 0;
  Bytes caching_allocator = 0;  // simulated on the same schedule
  Time peak_time = 0;           // where the lower bound is reached
  int views = 0;
  int in_place = 0;
  std::string packer;  // the order that won: "greedy: size"
  std::string order = "given";
  bool optimal = false;  // arena_bytes() == lower_bound

  Bytes arena_bytes() const { return regions.total(); }
  Bytes host_bytes() const { return regions.host(); }
  Bytes saved() const { return no_reuse - arena_bytes(); }
  /// Distance of a region's base, a buffer's first byte, from the arena's, or of
  /// those on the host (IsOnHost) from the base of the memory there.
  Bytes RegionBase(Region region) const;
  Bytes AddressOf(const PlannedBuffer& buffer) const {
    return RegionBase(buffer.region) + buffer.offset;
  }
};

/// The plan of one body. A carried or summed value is read where its leaf lies and
/// written where its output lies. Where both are in one buffer, that is the place of
/// the node's result, in which each iteration overwrites what the one before left.
/// Where not, the two places alternate, so that the last iteration writes the result.
struct BodyPlan {
  NodeId node = kNoNode;
  Plan
      plan;  // from the bases of the node's workspace, and of that on the host, on
  /// Of a loop, by carried and then summed value: the buffer, in the io region of
  /// `plan`, that is the other place beside the result's; -1 where it needs none.
  std::vector<int32_t> second_of;
};

/// Buffers of the arena alive at `time`, largest first, ties by position.
std::vector<int32_t> LiveAt(const Plan& plan, Time time);

/// A hash of everything a plan depends on in `graph` (FNV-1a of its text form).
uint64_t Fingerprint(const Graph& graph);

/// Error kInvalidArgument unless `plan` was made for `graph`.
Status CheckPlanIsFor(const Plan& plan, const Graph& graph);

/// The same of its numbers of values and nodes alone.
Status CheckPlanFits(const Plan& plan, const Graph& graph);

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

// What one rank of a step sends to the others, as its collectives do it.
//
// A sum over ranks is split: each rank sends every other its block of the values, and
// adds up its own (reduce_scatter); to give the sum to all, each sends its block to every
// other (all_gather). A rank of N so sends (N - 1) / N of the bytes, once or twice. It
// receives as much.
//
//   WireBytes(step);  // of the rank with the largest blocks, the first

/// Bytes of elements that rank 0 sends in a run of `graph`. Linear in its nodes.
Bytes WireBytes(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_H_
