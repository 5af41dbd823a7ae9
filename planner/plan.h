#ifndef STOWAGE_PLANNER_PLAN_H_
#define STOWAGE_PLANNER_PLAN_H_

// Defines plans. A plan assigns an address to every byte of one program (a graph). Its arena is one
// contiguous range of bytes, which is divided into regions:
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
// If values are offloaded (planner/fit/offload), a plan also has addresses in host memory:
//
//   0        host state    params and optimizer     kHostState
//                          states
//            host offload  values, temporarily,     kHostOffload
//   host_bytes             packed by lifetime
//
// A slot is addressed by its region and an offset in the region. Plans that share a WeightLayout
// therefore have equal addresses for all weights and states, even if their other values differ.
//
// The body of a loop or cond (ir/bodies.h) has its own plan, which all iterations use. The arena of
// a body is the workspace of its node:
//
//   0        io            second buffers of some   kIo
//                          carries and sums
//            span          values that are not      kActivations, kWorkspace
//                          outputs of the body,
//   arena_bytes            and workspace
//
// The inputs and outputs of a body are outside its arena (Region::kOutside), in the operands and
// the results of the node, so they are not copied. The arenas of all bodies of a cond start at the
// same address, because only one body runs. Values that a body offloads are stored in a buffer of
// host memory that is live at the node and that every iteration reuses (Plan::host_workspace_of).
//
// If an operand of a cond has no later readers, it dies inside the bodies. In each body, the slot
// of the corresponding leaf is live until the leaf's last reader, and later values of the body may
// be placed within its bytes. Values of the body may also be placed within the bytes of a result of
// the cond, until the result is first written. All other outside slots are live throughout the
// body.

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
  /// The index of the outside slot that contains this buffer, if the buffer belongs to a body and
  /// is placed within an operand that has died or a result that is not written yet. `offset` is
  /// then relative to that slot. Otherwise -1.
  int32_t within = -1;
};

/// The sizes of the regions of the arena, which add up to Plan::arena_bytes(), and of the regions
/// of host memory.
struct RegionBytes {
  Bytes weights = 0;
  Bytes state = 0;
  Bytes io = 0;
  Bytes activations = 0;  // The span minus `workspace`.
  /// The amount by which workspace increases the lower bound of the span.
  Bytes workspace = 0;
  Bytes host_state = 0;    // In host memory.
  Bytes host_offload = 0;  // In host memory.

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

  // The following sizes include padding to the alignment.

  // The size of the reserved regions plus the largest sum of other buffers that are live at one
  // time. No packing of these lifetimes is smaller.
  Bytes lower_bound = 0;
  // The size without reuse: one slot for every value that is not a view, and the largest
  // workspace. For a step that was fitted to a budget (planner/fit/fit.h), the size before
  // fitting.
  Bytes no_reuse = 0;
  Bytes caching_allocator = 0;  // See CachingAllocatorBytes.
  Time peak_time = 0;           // The time at which the lower bound is reached.
  int views = 0;                // See Lifetimes::views.
  int in_place = 0;             // See Lifetimes::in_place.
  std::string packer;  // The packer and its best order, such as "greedy: size".
  // The order of the nodes: "given", or "memory" if nodes were reordered (planner/fit/order).
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

/// The plan of one body. A carry or sum is read at the address of its leaf and written at the
/// address of its output. If both are in one buffer, this buffer is the node's result, which each
/// iteration overwrites. Otherwise the result's buffer and a second buffer alternate, such that
/// the last iteration writes to the result's buffer.
struct BodyPlan {
  NodeId node = kNoNode;  // The loop or cond.
  // The arena of `plan` is the node's workspace (Plan::workspace_of), and its host memory is the
  // node's buffer in host memory (Plan::host_workspace_of).
  Plan plan;
  /// For a loop, one entry per carry, followed by one entry per sum: the index in `plan` of the
  /// second buffer, which is in the io region, or -1 if no second buffer is needed. Empty for a
  /// cond.
  std::vector<int32_t> second_of;
};

/// Returns the indices of the buffers in the arena that are live at `time`, largest buffer first.
/// Ties are broken by index.
std::vector<int32_t> LiveAt(const Plan& plan, Time time);

/// Returns a hash of all properties of `graph` that a plan depends on (FNV-1a of its text
/// form).
uint64_t Fingerprint(const Graph& graph);

/// Returns kInvalidArgument unless `plan` was made for `graph`. Compares the fingerprints and the
/// numbers of values and nodes.
Status CheckPlanIsFor(const Plan& plan, const Graph& graph);

/// Returns kInvalidArgument unless `plan` has the numbers of values and nodes of `graph`.
/// Does not compare fingerprints.
Status CheckPlanFits(const Plan& plan, const Graph& graph);

// WeightLayout stores the addresses of params and states, so that all programs of a model can use
// the same addresses.
//
// The first plan of a model decides the addresses of its weights. All other plans with the same
// weights (training step, evaluation, generation, another batch size) get this layout through
// PlanOptions::weights. They reserve the regions of the layout and pack their own activations at
// other addresses. One copy of the weights therefore serves all programs. A layout is immutable,
// and copying it is cheap.
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

  /// Returns the layout of the params of `graph` in `plan`. If the graph has states, as a training
  /// step does, the layout includes them. `plan` must be for `graph`. Params outside the arena
  /// (PlanOptions::outside) have no address in the layout, so they must also be outside in the
  /// plans that use it.
  static WeightLayout FromForward(const Graph& graph, const Plan& plan);

  /// Returns a layout of only the params that this layout has in the arena, for the plan of a step
  /// that may still move params and states to host memory.
  WeightLayout WithoutStates() const;
  /// Returns whether WithoutStates returned this layout. If the graph of a plan has params in host
  /// memory, such a layout is ignored: the plan places the params that remain in the arena without
  /// gaps.
  bool may_move() const { return content_->may_move; }

  /// Slots by the name of the param or state.
  using Slots = std::unordered_map<std::string, Slot>;
  /// Returns the slots of the params in the arena.
  const Slots& weights() const { return content_->weights; }
  /// Returns the slots of the states in the arena.
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

// WireBytes returns the bytes that one rank sends to the other ranks in the collectives of a step.
//
// The elements of a collective are divided into one block per rank. In a reduce-scatter, each rank
// sums its block, and sends its values of every other block to the rank that sums that block. In
// an all-gather, each rank sends its block to every other rank. An all-reduce is a reduce-scatter
// followed by an all-gather. With N ranks, each rank therefore sends about (N - 1) / N of the
// bytes, or twice this number in an all-reduce. It receives about the same number of bytes.

/// Returns the bytes that rank 0, whose block is the largest, sends when `graph` runs once.
/// Collectives in bodies are not counted. Linear in the number of nodes.
Bytes WireBytes(const Graph& graph);

// The following functions compute reference figures for a plan from its slots and their lifetimes:
// the lower bound of any packing, the size without reuse, and the size with a caching allocator.
// The planner stores these figures in the plan. Readers of a plan file recompute them.
//
//   Plan plan = *PlanMemory(graph);
//   LowerBoundOf(plan).bytes <= plan.arena_bytes();
//   NoReuseBytes(graph, ComputeLayouts(graph), plan) >= plan.arena_bytes();

/// The buffers that are packed by lifetime, in the arena or in host memory, as a packing problem
/// (planner/packing/problem.h). Sizes are rounded up to the alignment. No buffer could use the
/// padding, because all offsets are multiples of the alignment.
struct Span {
  packing::Problem problem;
  /// Per buffer of `problem`, its index in Plan::buffers.
  std::vector<size_t> buffers;
};

/// Returns the span of host memory if `on_host`, and otherwise the span of the arena.
Span SpanOf(const Plan& plan, bool on_host);

/// Returns the problem of `span`, with a change: the workspace of a node with bodies has the
/// largest lower bound of its bodies as its size. The lower bound of this problem therefore holds
/// for every packing of the bodies. `span` must be the span of `plan`'s arena.
packing::Problem WithBoundsOfBodies(const Plan& plan, const Span& span);

/// Returns the lower bound of a plan, which is the size of the reserved regions plus the largest
/// sum of other buffers that are live at one time. The result includes this time. `plan` must not
/// be the plan of a body. O(n log n) in the number of buffers.
packing::LowerBound LowerBoundOf(const Plan& plan);

/// Returns the size without reuse: one slot for every value that is not a view, plus the
/// largest workspace. `layouts` are the layouts of `graph`.
Bytes NoReuseBytes(const Graph& graph, const Layouts& layouts,
                   const Plan& plan);

/// Returns the number of bytes that a caching allocator (planner/packing/caching_allocator.h)
/// reserves if it allocates and frees the buffers of `plan` at the begin and end of their
/// lifetimes.
Bytes CachingAllocatorBytes(const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_H_
