#ifndef STOWAGE_PLANNER_LIFETIMES_H_
#define STOWAGE_PLANNER_LIFETIMES_H_

// Computes the buffers of a graph and their lifetimes.
//
// A value that owns bytes is live from the node that computes it up to and including the last node
// that reads the value or a view of it. Leaves are live from time 0. Params, states, inputs and
// caches stay live to the end, because the next step reads them, and so do outputs. Views own no
// bytes. If the first result of a node may overwrite an operand (InPlace in ir/uses.h) that dies at
// the node, the result reuses the operand's buffer. The workspace of a kernel is a buffer that is
// live only at its node. The operands, results and workspace of a collective are live until it
// completes (ir/uses.h).
//
// If an operand of a cond has no later readers, it may die inside the cond's bodies. In the
// lifetimes computed here, it dies at the cond. The bodies are planned with the earlier deaths
// (LifetimeOptions::dying).
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

using packing::Time;  // Counted in nodes.

/// The regions of the arena and of host memory. kWeights, kState and kIo (caches, inputs and the
/// backend's reserve) are reserved regions, whose slots are not reused during a step. Activations
/// and workspace are packed together into one span and share its base address. Host memory begins
/// with the reserved region kHostState (params and states). kHostOffload, in which offloaded values
/// are packed, follows it.
///
/// Values in kOutside use no bytes of any region. In the plan of a body (planner/plan.h),
/// these are values that are stored in an operand or a result of the body's node. In the
/// plan of a graph, these are params that the program contains as constants
/// (PlanOptions::outside).
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
/// Returns the name of a region in messages and plan files, such as "host_offload".
std::string_view RegionName(Region region);
constexpr bool IsOnHost(Region region) {
  return region == Region::kHostState || region == Region::kHostOffload;
}

/// Returns the workspace bytes that a backend's kernel for `node` needs
/// (Backend::Workspace).
using WorkspaceFn = std::function<Bytes(const Graph& graph, const Node& node)>;

/// Returns the bytes that a backend reserves in the arena in addition to the values of `graph`
/// (Backend::Reserve), for example to stage inputs. The reserve begins at a multiple of
/// `alignment`.
using ReserveFn = std::function<Bytes(const Graph& graph, Bytes alignment)>;

/// The ops that a device's kernels fuse into one node (planner/fit/fuse).
struct Fusions {
  /// Returns whether an op may be part of a fused_elementwise. If null, no ops are fused.
  bool (*elementwise)(OpKind op) = nullptr;
  /// True if the ops for which `elementwise` is true may be fused into a preceding matmul.
  bool products = false;
  /// True if a matmul supports a bias, an addend, or gelu's derivative before its sums
  /// are rounded (planner/fit/epilogues).
  bool epilogues = false;
  /// Returns whether consecutive updates by an op run as one kernel launch. If null, every update
  /// is launched separately.
  bool (*updates)(OpKind op) = nullptr;
  /// For the gradient op of a normalization layer, returns the number of partial sums over rows
  /// that its kernel computes for the gradients of the params, if a later node can add the partial
  /// sums of many layers in one launch. Returns 0 for other ops. If null, no op defers its sums.
  int64_t (*sum_parts)(const OpArgs& args) = nullptr;
};

/// The memory that a device's kernels need in addition to the values, and the ops that they
/// fuse (Backend::Needs() in runtime/backend.h). By default, kernels need no memory and
/// fuse no ops.
struct DeviceNeeds {
  WorkspaceFn workspace = {};
  ReserveFn reserve = {};
  Fusions fusions = {};
  /// Names the device and all properties on which the workspace of its kernels depends, such as
  /// "cpu with AVX2, 2 threads". Plan files store this string. If empty, the device is unknown.
  std::string device = {};
};

struct LiveBuffer {
  /// The name of its first value, or for example `workspace of "x"`.
  std::string name;
  Region region = Region::kActivations;
  Time lower = 0;  // Half-open, in nodes.
  Time upper = 0;
  Bytes size = 0;
};

struct Lifetimes {
  std::vector<LiveBuffer> buffers;
  /// Per value. A view has its root's buffer.
  std::vector<int32_t> buffer_of;
  /// The buffer of each node's workspace, or -1.
  std::vector<int32_t> workspace_of;
  int32_t reserve = -1;  // The backend's reserve, or -1.
  Layouts layouts;       // Per value.
  int views = 0;         // The number of results of view ops.
  /// The number of results in the buffer of an operand that died.
  int in_place = 0;
};

/// Returns the workspace of a node with bodies, given that the operands for which `dying` is true
/// die inside the bodies. `dying` has one entry per operand of the node.
using BodiesFn = std::function<Bytes(NodeId, const std::vector<bool>& dying)>;

struct LifetimeOptions {
  bool in_place = true;
  WorkspaceFn workspace = {};  // If empty, kernels need no workspace.
  Bytes reserve = 0;           // The backend's reserve.
  /// If empty, `workspace` is called for nodes with bodies.
  BodiesFn bodies = {};
  /// For a body, one entry per leaf, in the order of LeavesOf (ir/bodies.h): true if the leaf dies
  /// at its last reader or, if it has no readers, before the first node. If the vector is empty,
  /// the leaves of the body are live throughout.
  std::vector<bool> dying = {};
};

/// Computes the lifetimes of all buffers of `graph`. Linear in the number of values and operands,
/// without the calls to the functions in `options`.
Lifetimes ComputeLifetimes(const Graph& graph, const LifetimeOptions& options);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_LIFETIMES_H_
