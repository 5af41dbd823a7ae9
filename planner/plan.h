#ifndef STOWAGE_PLANNER_PLAN_H_
#define STOWAGE_PLANNER_PLAN_H_

// Defines plans. A plan assigns an address to every byte of one program:
//
//   address                                       base of
//   0        weights       every param, once        kWeights
//            state         optimizer states         kState
//            io            caches, inputs and the   kIo
//                          backend's reserve
//            span          activations, gradients,  kActivations, kWorkspace
//   arena_bytes            outputs and workspace,
//                          packed by lifetime
//
// If values are offloaded, a plan also has addresses outside the arena, in host memory:
//
//   0        host state    params and optimizer     kHostState
//                          states
//            host offload  values, temporarily,     kHostOffload
//   host_bytes             packed by lifetime
//
// Slots are addressed by (region, offset). Plans that share a weight layout therefore have
// equal addresses for all weights and states, even if their other values differ.
//
// The body of a loop or cond (ir/bodies.h) has its own plan, which is the same for all its
// iterations. The arena of a body is the workspace of its node:
//
//   0        io            second buffers of        kIo
//                          some carries
//            span          values that are not      kActivations, kWorkspace
//   arena_bytes            outputs of the body
//
// The inputs and outputs of a body are outside its arena, in the operands and the results
// of the node, so they are not copied. The bodies of one cond start at the same base,
// because only one of them runs. Values that a body offloads are stored in the node's share
// of host memory: an offload buffer that is live at the node and that every iteration
// reuses.
//
// If an operand of a cond has no later readers, it dies inside the bodies. In each body,
// the slot of its leaf is live until the leaf's last reader, and later values of the body
// may be placed within its bytes. Values of the body may also be placed within the bytes of
// a result until the result is first written. All other outside values are live throughout.

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
  Bytes offset = 0;  // From the region's base.
  Bytes size = 0;
  Time lower = 0;  // Half-open.
  Time upper = 0;
  /// For a value of a body that is placed within the bytes of an operand that has died, or
  /// of a result that is not written yet: the index of that slot. `offset` is then relative
  /// to the slot. Otherwise -1.
  int32_t within = -1;
};

/// The size of each region of the arena, which add up to arena_bytes(), and of host memory.
struct RegionBytes {
  Bytes weights = 0;
  Bytes state = 0;
  Bytes io = 0;
  Bytes activations = 0;  // The span minus `workspace`.
  /// The increase of the span's lower bound by workspace.
  Bytes workspace = 0;
  Bytes host_state = 0;  // In host memory, as is the next region.
  Bytes host_offload = 0;

  Bytes span() const { return activations + workspace; }
  Bytes total() const { return weights + state + io + span(); }
  Bytes host() const { return host_state + host_offload; }
  friend bool operator==(const RegionBytes&, const RegionBytes&) = default;
};

struct BodyPlan;

struct Plan {
  std::string graph_name;
  uint64_t fingerprint = 0;  // Fingerprint(graph).
  Bytes alignment = 0;       // The alignment of every slot.
  std::vector<PlannedBuffer> buffers;
  /// Per value. A view has its root's buffer.
  std::vector<int32_t> buffer_of;
  std::vector<int32_t> workspace_of;  // Per node, or -1.
  /// Per node: the offload buffer in which its bodies store their offloaded values, or -1.
  std::vector<int32_t> host_workspace_of;
  int32_t reserve = -1;  // The buffer of Backend::Reserve, or -1.
  RegionBytes regions;
  std::vector<BodyPlan> bodies;  // The plans of all bodies, in node order.

  // The following sizes are in bytes and include padding to the alignment.
  Bytes lower_bound = 0;  // Reserved regions + the largest live sum.
  // The size without reuse: one slot for every value that is not a view, and the largest
  // workspace. For a step that was fitted to a budget (planner/fit/fit.h), the size before
  // fitting.
  Bytes no_reuse = 0;
  Bytes caching_allocator = 0;  // Simulated on the same schedule.
  Time peak_time = 0;           // When the lower bound is reached.
  int views = 0;
  int in_place = 0;
  std::string packer;  // The packer and its best order: "greedy: size".
  std::string order = "given";
  bool optimal = false;  // True if it is proven that no packing is lower.

  Bytes arena_bytes() const { return regions.total(); }
  Bytes host_bytes() const { return regions.host(); }
  Bytes saved() const { return no_reuse - arena_bytes(); }
  /// Returns the offset of a region's base from the first byte of the arena or, for a host
  /// region (IsOnHost), from the first byte of host memory.
  Bytes RegionBase(Region region) const;
  Bytes AddressOf(const PlannedBuffer& buffer) const {
    return RegionBase(buffer.region) + buffer.offset;
  }
};

/// The plan of one body. A carry or sum is read at the address of its leaf and written at
/// the address of its output. If both are in one buffer, this buffer is the node's result,
/// which each iteration overwrites. Otherwise two buffers alternate, such that the last
/// iteration writes the result.
struct BodyPlan {
  NodeId node = kNoNode;
  Plan
      plan;  // Its bases are the node's workspace, in the arena and on the host.
  /// For a loop, per carry and then per sum: the second buffer in addition to the result's
  /// buffer, in the io region of `plan`. -1 if no second buffer is needed.
  std::vector<int32_t> second_of;
};

/// Returns the buffers of the arena that are live at `time`, largest first. Ties are broken
/// by index.
std::vector<int32_t> LiveAt(const Plan& plan, Time time);

/// Returns a hash of all properties of `graph` that a plan depends on (FNV-1a of its text
/// form).
uint64_t Fingerprint(const Graph& graph);

/// Returns kInvalidArgument unless `plan` was made for `graph`.
Status CheckPlanIsFor(const Plan& plan, const Graph& graph);

/// Returns kInvalidArgument unless `plan` has the numbers of values and nodes of `graph`.
/// Does not compare fingerprints.
Status CheckPlanFits(const Plan& plan, const Graph& graph);

// WeightLayout stores the addresses of the persistent values for all programs.
//
// The first plan of a model decides the addresses of its weights. All other plans over the
// same weights (backward, training step, evaluation, generation, another batch size)
// receive this layout, reserve it first, and pack their own activations at other addresses.
// One copy of the weights therefore serves all programs. A layout is immutable, and copying
// it is cheap.
//
//   Result<Plan> forward_plan = PlanMemory(forward);
//   WeightLayout weights = WeightLayout::FromForward(forward, *forward_plan);
//   Result<Plan> step_plan = PlanMemory(step, {.weights = weights});

class WeightLayout {
 public:
  struct Slot {
    TensorType type;
    Bytes offset = 0;  // From the base of its region.
  };

  /// Returns the layout of the params of `graph` in `plan`. If the graph has states, as a
  /// training step does, the layout includes them. `plan` must be for `graph`.
  static WeightLayout FromForward(const Graph& graph, const Plan& plan);

  /// Returns the layout of only the params, for a plan that may still move states and
  /// params to host memory.
  WeightLayout WithoutStates() const;
  /// Returns whether WithoutStates returned this layout. If a plan with such a layout moves
  /// params to host memory, it lays out the params that remain in the arena without gaps.
  bool may_move() const { return content_->may_move; }

  using Slots = std::unordered_map<std::string, Slot>;
  const Slots& weights() const { return content_->weights; }
  const Slots& states() const { return content_->states; }
  /// Returns the slots of the params and states in host memory.
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

  std::shared_ptr<const Content> content_;  // Immutable and shared by copies.
};

// WireBytes returns the bytes that one rank sends to the others in the collectives of a
// step.
//
// In a reduce-scatter, each rank sends every other rank its block of the values, and sums
// its own block. In an all-gather, each rank sends its block to every other rank. An
// all-reduce is a reduce-scatter and an all-gather. A rank of N therefore sends (N - 1) / N
// of the bytes, once or twice. It receives the same number of bytes.
//
//   WireBytes(step);  // of rank 0, whose block is not smaller than any other

/// Returns the bytes that rank 0 sends when `graph` runs once. Linear in the number of
/// nodes.
Bytes WireBytes(const Graph& graph);

// Computes reference figures for a plan from its slots and their lifetimes: the lower bound
// of any packing, the size without reuse, and the size with a caching allocator. The
// planner stores these figures in the plan. Readers of a plan file recompute them.
//
//   Plan plan = *PlanMemory(graph);
//   LowerBoundOf(plan).bytes <= plan.arena_bytes();
//   NoReuseBytes(graph, ComputeLayouts(graph), plan) >= plan.arena_bytes();

/// The buffers that are packed by lifetime, in the arena or on the host. Sizes are rounded
/// up to the alignment, because no buffer could use the padding: all offsets are multiples
/// of the alignment.
struct Span {
  packing::Problem problem;
  std::vector<size_t> buffers;  // Indices in Plan::buffers.
};
Span SpanOf(const Plan& plan, bool on_host);

/// Returns the problem of `span` with the lower bounds of bodies instead of their sizes.
/// The lower bound of this problem holds for every packing of the bodies.
packing::Problem WithBoundsOfBodies(const Plan& plan, const Span& span);

/// Returns the lower bound of a graph's plan, which is the size of the reserved regions
/// plus the largest live sum of the other buffers, and its time. `plan` must not be the
/// plan of a body. O(n log n) in the number of buffers.
packing::LowerBound LowerBoundOf(const Plan& plan);

/// Returns the size without reuse: one slot for every value that is not a view, plus the
/// largest workspace. `layouts` are the layouts of `graph`.
Bytes NoReuseBytes(const Graph& graph, const Layouts& layouts,
                   const Plan& plan);

/// Returns the maximum number of bytes that a caching allocator
/// (planner/packing/caching_allocator.h) reserves on the same schedule.
Bytes CachingAllocatorBytes(const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_H_
