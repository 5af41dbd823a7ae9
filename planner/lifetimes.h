#ifndef STOWAGE_PLANNER_LIFETIMES_H_
#define STOWAGE_PLANNER_LIFETIMES_H_

// From a graph to buffers with lifetimes.
//
// A value that owns bytes is born at its producer's time and dies after the
// last node that reads it or any view of it. Leaves are there from time 0;
// params, states and inputs persist, because the next step reads them again;
// outputs live to the end, their ancestors do not. Views own no bytes. A result
// that may overwrite an operand which dies at that node, and of which nothing
// else is read, takes over the operand's buffer. Scratch that a kernel asks for
// is a buffer that lives for its node alone. What a cond is handed and nothing reads
// behind it may die in the bodies, earlier than it does here: they are planned with it.
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

using packing::Time;  // counts nodes

/// The parts of an arena, and of the host's memory beside it. Weights, states and
/// io (caches and inputs) are reserved regions, whose slots never change hands during a
/// step; activations and workspace are packed together, in one span, and share
/// its base address. On the host, states are reserved, and what is offloaded for a
/// while is packed behind them. In the plan of a body (planner/plan.h), what lies where
/// an operand or a result of the body's node does is outside, and in no region's bytes.
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

/// Bytes that a backend keeps in the arena beside the values of `graph`, in
/// slots of `alignment` (Backend::Reserve): what it stages inputs in, say.
using ReserveFn = std::function<Bytes(const Graph& graph, Bytes alignment)>;

/// What a device's kernels do in one node (planner/fit/fuse).
struct Fusions {
  /// Whether an op may be part of a fused_elementwise. Null: nothing is fused.
  bool (*elementwise)(OpKind op) = nullptr;
  /// Whether such parts may follow a product in its node.
  bool products = false;
  /// Whether a product takes a bias, an addend, or gelu's derivative before its sums are
  /// rounded (planner/fit/epilogues).
  bool epilogues = false;
  /// Whether updates by an op that follow one another run as one. Null: none do.
  bool (*updates)(OpKind op) = nullptr;
  /// Into how many partial sums the gradient of a norm adds up its rows for its params,
  /// where these sums may be added up later, for many norms at once; 0 for other ops.
  /// Null: none are.
  int64_t (*sum_parts)(const OpArgs& args) = nullptr;
};

/// What a device's kernels take beside the values, and what they fuse: of
/// runtime/backend.h, Backend::Needs(). Empty: nothing.
struct DeviceNeeds {
  WorkspaceFn workspace = {};
  ReserveFn reserve = {};
  Fusions fusions = {};
  /// The device, and all that its kernels' scratch depends on, as "cpu with AVX2, 2 threads";
  /// plan files keep it. Empty: not known.
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
  std::vector<int32_t> workspace_of;  // per node; -1 where there is none
  int32_t reserve = -1;               // what the backend keeps; -1: nothing
  Layouts layouts;                    // per value
  int views = 0;                      // values that own no bytes
  int in_place = 0;                   // results written over an operand
};

/// Scratch bytes of a node with bodies, of whose operands those die in the bodies for
/// which `dying` is true.
using BodiesFn = std::function<Bytes(NodeId, const std::vector<bool>& dying)>;

struct LifetimeOptions {
  bool in_place = true;
  WorkspaceFn workspace = {};  // empty: kernels need none
  Bytes reserve = 0;           // what the backend keeps beside the values
  BodiesFn bodies = {};  // empty: `workspace` is asked of these nodes, too
  /// Of a body: which leaves, in their order, die where they are read for the last
  /// time, or if nothing reads them, before the first node. Empty: none.
  std::vector<bool> dying = {};
};

/// Linear in values and operands.
Lifetimes ComputeLifetimes(const Graph& graph, const LifetimeOptions& options);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_LIFETIMES_H_
