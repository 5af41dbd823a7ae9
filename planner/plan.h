#ifndef STOWAGE_PLANNER_PLAN_H_
#define STOWAGE_PLANNER_PLAN_H_

// A plan: the address of every byte of one program, and the memory it takes.
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
// and outside the arena, in host memory, if values are offloaded:
//
//   0        host state    params, optimizer memory kHostState
//            host offload    values, for a while,     kHostOffload
//   host_bytes             packed by lifetime
//
// Slots are addressed by (region, offset), so that plans which share a weight layout
// agree on every weight and state, whatever else they hold.
//
// A body (ir/bodies.h) has its own plan, made once for all its iterations, whose arena is
// the workspace of its node:
//
//   0        io            a second place for some       kIo
//                          of what is carried
//            span          what the body makes and       kActivations, kWorkspace
//   arena_bytes            does not hand back
//
// Its inputs and outputs are outside, in the operands and the results of the node:
// nothing is copied in or out. Bodies of one cond start at the same base, since only one
// of them runs. Values that a body offloads are in the node's part of host memory: an
// offload buffer that is live during the node, which each iteration reuses.
//
// An operand of a cond without later readers dies in its bodies, in each after its last
// reader there: the slot of its leaf is live until then, and later values of the body may
// be placed within its bytes; likewise within those of a result until it is first
// written. All other outside values are live throughout.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/lifetimes.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"

namespace stowage {

struct PlannedBuffer {
  std::string name;
  Region region = Region::kActivations;
  Bytes offset = 0;  // from the region's base
  Bytes size = 0;
  Time lower = 0;  // half-open
  Time upper = 0;
  /// For a value of a body placed within the bytes of an operand that has died, or of a
  /// result that is not written yet: the index of that slot, to which `offset` is
  /// relative; otherwise -1.
  int32_t within = -1;
};

/// Bytes of each part of the arena, which add up to arena_bytes, and of the host memory
/// beside it.
struct RegionBytes {
  Bytes weights = 0;
  Bytes state = 0;
  Bytes io = 0;
  Bytes activations = 0;  // the span minus `workspace`
  Bytes workspace = 0;    // by how much scratch raises the span's lower bound
  Bytes host_state = 0;   // these two are not in the arena
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
  /// Per node: the offload buffer in which its bodies keep their offloaded values; -1:
  /// none.
  std::vector<int32_t> host_workspace_of;
  int32_t reserve = -1;  // the buffer of Backend::Reserve; -1: none
  RegionBytes regions;
  std::vector<BodyPlan> bodies;  // of all nodes that have bodies, in order

  // The memory of a plan, in bytes, including padding to the alignment.
  Bytes lower_bound = 0;  // reserved regions + the largest live sum
  // A slot for every non-view value, scratch once; for a step that was fitted into a
  // budget (planner/fit/fit.h), the figure before fitting.
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
  /// Distance of a region's base from the arena's first byte, or of a host region's
  /// (IsOnHost) from the base of the host memory.
  Bytes RegionBase(Region region) const;
  Bytes AddressOf(const PlannedBuffer& buffer) const {
    return RegionBase(buffer.region) + buffer.offset;
  }
};

/// The plan of one body. A carried or summed value is read at its leaf's address and
/// written at its output's. If both are in one buffer, that is the node's result, which
/// each iteration overwrites. If not, the two buffers alternate, so that the last
/// iteration writes the result.
struct BodyPlan {
  NodeId node = kNoNode;
  Plan
      plan;  // its bases are the node's workspace, in the arena and on the host
  /// For a loop, by carry and then summed value: the second buffer beside the result's,
  /// in the io region of `plan`; -1: none is needed.
  std::vector<int32_t> second_of;
};

/// Buffers of the arena live at `time`, largest first, ties by position.
std::vector<int32_t> LiveAt(const Plan& plan, Time time);

/// A hash of everything in `graph` that a plan depends on (FNV-1a of its text form).
uint64_t Fingerprint(const Graph& graph);

/// Error kInvalidArgument unless `plan` was made for `graph`.
Status CheckPlanIsFor(const Plan& plan, const Graph& graph);

/// Checks only the numbers of values and nodes.
Status CheckPlanFits(const Plan& plan, const Graph& graph);

// The addresses of the persistent values, fixed once for all programs.
//
// The first plan of a model decides where its weights are; every other plan over the same
// weights (backward, training step, evaluation, generation, another batch size) takes
// that layout as given, reserves it first and packs its own activations elsewhere. One
// copy of the weights therefore serves all programs. A layout never changes, and copying
// it is cheap.
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

  /// The layout of the params of `graph` as `plan` placed them, and of its states, if it
  /// has any (as in a training step). Precondition: the plan is for the graph.
  static WeightLayout FromForward(const Graph& graph, const Plan& plan);

  /// Only the params, of a plan that may still move states and params to host memory.
  WeightLayout WithoutStates() const;
  /// Whether WithoutStates returned this: the params that a plan leaves in the arena are
  /// then laid out without gaps.
  bool may_move() const { return content_->may_move; }

  using Slots = std::unordered_map<std::string, Slot>;
  const Slots& weights() const { return content_->weights; }
  const Slots& states() const { return content_->states; }
  /// The params and states in host memory.
  const Slots& on_host() const { return content_->on_host; }
  Bytes weight_bytes() const { return content_->weight_bytes; }
  Bytes state_bytes() const { return content_->state_bytes; }
  Bytes host_state_bytes() const { return content_->host_state_bytes; }
  Bytes alignment() const { return content_->alignment; }

 private:
  struct Content {
    Slots weights, states, on_host;
    Bytes weight_bytes = 0;
    Bytes state_bytes = 0;
    Bytes host_state_bytes = 0;
    Bytes alignment = 1;
    bool may_move = false;
  };
  explicit WeightLayout(Content content)
      : content_(std::make_shared<const Content>(std::move(content))) {}

  std::shared_ptr<const Content> content_;  // immutable: copies share it
};

// The bytes that one rank of a step sends to the others in its collectives.
//
// In a reduce-scatter, each rank sends every other rank its block of the values, and sums
// its own block; in an all-gather, each sends its block to every other. An all-reduce
// does both. A rank of N therefore sends (N - 1) / N of the bytes, once or twice. It
// receives as much.
//
//   WireBytes(step);  // of the rank with the largest blocks, the first

/// Bytes of elements that rank 0 sends in a run of `graph`. Linear in its nodes.
Bytes WireBytes(const Graph& graph);

// Reference figures for a plan, computed from its slots and their lifetimes: the lower
// bound of any packing, the bytes without reuse, and those of a caching allocator. The
// planner stores these figures in the plan; readers of a plan file compute them again.
//
//   Plan plan = *PlanMemory(graph);
//   LowerBoundOf(plan).bytes <= plan.arena_bytes();
//   NoReuseBytes(graph, ComputeLayouts(graph), plan) >= plan.arena_bytes();

/// The values packed by lifetime, in the arena or on the host. Sizes are rounded up to
/// the alignment: since all offsets are multiples of it, the padding could hold nothing.
struct Span {
  packing::Problem problem;
  std::vector<size_t> buffers;  // of the plan, in the problem's order
};
Span SpanOf(const Plan& plan, bool on_host);

/// `span` of the plan, with the lower bounds of bodies instead of their sizes, so that
/// its lower bound holds however they are packed.
packing::Problem WithBoundsOfBodies(const Plan& plan, const Span& span);

/// The reserved regions plus the largest live sum of the rest, and its time; for the plan
/// of a graph, not of a body. O(n log n) in buffers.
packing::LowerBound LowerBoundOf(const Plan& plan);

/// A slot for every non-view value, and one for the largest workspace, given the graph's
/// layouts.
Bytes NoReuseBytes(const Graph& graph, const Layouts& layouts,
                   const Plan& plan);

/// The maximum that a caching allocator (planner/packing/caching_allocator.h) reserves on
/// the same schedule.
Bytes CachingAllocatorBytes(const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_H_
