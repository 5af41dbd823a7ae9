#ifndef STOWAGE_PLANNER_LIFETIMES_H_
#define STOWAGE_PLANNER_LIFETIMES_H_

// Computes buffers with lifetimes from a graph.
//
// A value that owns bytes is born at its producer's time and dies after the last node
// that reads it or any view of it. Leaves are live from time 0; params, states and inputs
// persist, because the next step reads them again; outputs are live to the end, their
// ancestors are not. Views own no bytes. A result that may overwrite an operand which
// dies at that node, and which nothing else reads, takes over the operand's buffer. A
// kernel's workspace is a buffer that is live for its node alone. Operands of a cond
// without later readers may die in the bodies, earlier than here: they are planned with
// it.
//
//   Lifetimes lifetimes = ComputeLifetimes(graph, {});
//   lifetimes.buffers[lifetimes.buffer_of[value]].upper;

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "planner/packing/problem.h"

namespace stowage {

using packing::Time;  // in nodes

/// The parts of an arena, and of the host memory beside it. Weights, states and io
/// (caches and inputs) are reserved regions, whose slots are never reused during a step;
/// activations and workspace are packed together, in one span, and share its base
/// address. On the host, params and states are reserved, and offloaded values are packed
/// behind them. In the plan of a body (planner/plan.h), values in the bytes of an operand or a
/// result of the body's node are outside, and in no region's bytes; in that of a graph,
/// params that the program has as constants (PlanOptions::outside).
enum class Region : uint8_t {
  kWeights,
  kState,
  kIo,
  kActivations,
  kWorkspace,
  kHostState,
  kHostOffload,
  kOutside,
};
std::string_view RegionName(Region region);
constexpr bool IsOnHost(Region region) {
  return region == Region::kHostState || region == Region::kHostOffload;
}

/// Scratch bytes that a backend's kernel for `node` needs (Backend::Workspace).
using WorkspaceFn = std::function<Bytes(const Graph& graph, const Node& node)>;

/// Bytes that a backend reserves in the arena beside the values of `graph`, in slots of
/// `alignment` (Backend::Reserve), for example to stage inputs.
using ReserveFn = std::function<Bytes(const Graph& graph, Bytes alignment)>;

/// The ops that a device's kernels fuse into one node (planner/fit/fuse).
struct Fusions {
  /// Returns whether an op may be part of a fused_elementwise. Null: nothing is fused.
  bool (*elementwise)(OpKind op) = nullptr;
  /// True if such parts may follow a matmul in its node.
  bool products = false;
  /// True if a matmul supports a bias, an addend, or gelu's derivative before its sums
  /// are rounded (planner/fit/epilogues).
  bool epilogues = false;
  /// Returns whether consecutive updates by an op run as one launch. Null: none do.
  bool (*updates)(OpKind op) = nullptr;
  /// Returns the number of partial sums that a norm's gradient computes for its params,
  /// if these can be added up later, for many norms at once; 0 for other ops. Null: none
  /// can.
  int64_t (*sum_parts)(const OpArgs& args) = nullptr;
};

/// The memory that a device's kernels need beside the values, and the ops they fuse:
/// Backend::Needs() of runtime/backend.h. Empty: nothing.
struct DeviceNeeds {
  WorkspaceFn workspace = {};
  ReserveFn reserve = {};
  Fusions fusions = {};
  /// The device, and all that its kernels' workspace depends on, such as "cpu with AVX2,
  /// 2 threads"; plan files store it. Empty: unknown.
  std::string device = {};
};

struct LiveBuffer {
  std::string name;  // of the first value in it, or `workspace of "x"`
  Region region = Region::kActivations;
  Time lower = 0;  // half-open, in nodes
  Time upper = 0;
  Bytes size = 0;
};

struct Lifetimes {
  std::vector<LiveBuffer> buffers;
  std::vector<int32_t> buffer_of;     // per value; a view has its root's
  std::vector<int32_t> workspace_of;  // per node; -1: none
  int32_t reserve = -1;               // of the backend's reserve; -1: none
  Layouts layouts;                    // per value
  int views = 0;                      // values that own no bytes
  int in_place = 0;                   // results written over an operand
};

/// Returns the workspace of a node with bodies, if its operands for which `dying` is true
/// die in the bodies.
using BodiesFn = std::function<Bytes(NodeId, const std::vector<bool>& dying)>;

struct LifetimeOptions {
  bool in_place = true;
  WorkspaceFn workspace = {};  // empty: kernels need none
  Bytes reserve = 0;           // bytes of the backend's reserve
  BodiesFn bodies = {};  // empty: `workspace` is called for these nodes, too
  /// For a body: which leaves, in their order, die at their last reader, or before the
  /// first node if nothing reads them. Empty: none.
  std::vector<bool> dying = {};
};

/// Linear in values and operands.
Lifetimes ComputeLifetimes(const Graph& graph, const LifetimeOptions& options);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_LIFETIMES_H_
