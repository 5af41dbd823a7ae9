#ifndef STOWAGE_PLANNER_STREAM_H_
#define STOWAGE_PLANNER_STREAM_H_

// Converts a planned step into a list of events in execution order: bytes are allocated, kernels
// are launched, and bytes are freed ("kill"). A runtime that does not know graphs, views and
// lifetimes can execute this list. Every operand is a range of bytes in the arena or in host
// memory.
//
//   allocate  arena     0    16  weights w
//   allocate  arena    16    16  activations h
//   launch    relu h @16+16 <- w @0+16
//   kill      arena    16    16  activations h
//   kill      arena     0    16  weights w
//
// Reserved buffers (weights, states, caches, inputs, the backend's reserve) outlive the step, so
// they are allocated before the first launch and killed after the last one. All other buffers are
// allocated immediately before the launch at which their lifetime begins, and killed immediately
// after the last launch in their lifetime. Outputs, which the caller reads after the last launch,
// are killed at the end. Views are not launched. An operand that is a view names the value that
// owns its bytes (its root), and its address is within the bytes of the root.
//
// After the launch of a loop or a cond, the stream contains the events of its bodies. The events of
// a body cover one iteration. They are between an enter and a leave event, and their times are
// counted in the nodes of the body. The enter event contains the number of iterations and the
// addresses of a loop's carries. Most buffers of a body are within the launch's workspace in the
// arena or in host memory. The other buffers are outside: they are in an operand or a result of the
// launch. The address of an outside buffer is relative to a leaf or output of the body, and
// StreamPlace::outside names this value.
//
// If an operand of a cond has no later readers, it is killed in each body: immediately after its
// last reader or, if it has no readers, before all other events of the body. Values of the body
// can be allocated within the bytes of an operand after it is killed, and within the bytes of a
// result before it is written. If the index of the cond has no later readers, it is killed before
// the first body is entered. Only one body runs.
//
//   enter     body cell, 3 times, h to h.next in one place, c to c.next alternating
//                                                       with @512+16
//
//   for (const StreamEvent& event : MakeStream(graph, *plan)) machine.Run(event);

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "planner/placement.h"
#include "planner/plan.h"

namespace stowage {

/// A range of bytes in the arena or in host memory. `address` is relative to the first byte of the
/// memory. In a stream with a placement, a region of the placement replaces the arena.
struct StreamPlace {
  bool on_host = false;
  Bytes address = 0;
  Bytes bytes = 0;
  /// For outside bytes, the name of the leaf or output of the body that contains them, or of the
  /// param that is a constant (PlanOptions::outside). `address` is then relative to the first byte
  /// of this value. Otherwise empty.
  std::string outside = {};
  /// With a placement, the region that contains the bytes.
  int32_t region = PlacedBuffer::kNowhere;
  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};

/// An operand or a result of a launch.
struct StreamValue {
  std::string name;
  /// The value that owns the bytes: the root of a view, the param or state for the result
  /// of an update, and otherwise the value itself.
  std::string root;
  /// The bytes from the first element to the last. This range is smaller than all elements
  /// together if a view repeats some, and larger if a view skips some.
  StreamPlace place;
  bool in_place = false;  // A result in the buffer of an operand.
  friend bool operator==(const StreamValue&, const StreamValue&) = default;
};

/// A carry or sum of a loop. Each iteration reads the value as `leaf` and writes it as `output`. If
/// `in_one_place`, the leaf and the output are both in the buffer of the launch's result. Otherwise
/// they alternate between this buffer and `second`, such that the last iteration writes to the
/// result's buffer. The first iteration of a carry reads the launch's operand. The first iteration
/// of a sum reads zeros, which the runtime must first write to the buffer of this iteration's leaf.
struct StreamHanded {
  std::string leaf;
  std::string output;
  bool in_one_place = false;
  StreamPlace second;  // 0 bytes if no second buffer is needed.
  friend bool operator==(const StreamHanded&, const StreamHanded&) = default;
};

enum class StreamEventKind : uint8_t {
  kAllocate,
  kLaunch,
  kKill,
  kEnter,
  kLeave,
};
/// Returns "allocate", "launch", "kill", "enter" or "leave".
std::string_view StreamEventName(StreamEventKind kind);

struct StreamEvent {
  StreamEventKind kind = StreamEventKind::kAllocate;
  // For allocate and kill, the begin or end of the buffer's lifetime. Otherwise the node's time.
  Time time = 0;

  // For allocate and kill: the buffer. Slots are padded to the plan's alignment, but
  // `place` does not include the padding.
  int32_t buffer = -1;  // An index in Plan::buffers.
  StreamPlace place = {};

  // For launch. `node` and `op` are also set for enter and leave.
  NodeId node = kNoNode;
  OpKind op = OpKind::kCopy;
  std::vector<StreamValue> operands = {};
  std::vector<StreamValue> results = {};
  StreamPlace scratch = {};  // The kernel's workspace. May have 0 bytes.
  /// The host memory of the bodies. May have 0 bytes.
  StreamPlace host_scratch = {};

  // For enter and leave: the body.
  std::string body = {};
  int64_t iterations = 0;
  std::vector<StreamHanded> handed = {};

  // For allocate and kill: the name of the buffer, as in the plan of the body, and its
  // region.
  std::string name = {};
  Region region = Region::kActivations;
  int depth = 0;  // The nesting depth in bodies, for all events.
};

/// Returns the stream of one run of `graph` under `plan`. At each time, buffers are killed before
/// others are allocated, both in the order of the plan. Times never decrease, except from and to
/// the events of a body, which have the times of the body. Reserved buffers are allocated at time
/// 0, those in the arena before those on the host, in the order of addresses. They are killed at
/// time num_nodes() + 1 in the reverse order. Buffers with an empty lifetime are omitted, except
/// operands that die in a body, which are killed. An operand that dies in a cond is killed once in
/// each body. The index of a cond, if it dies there, is killed at the time of the cond.
///
/// Requires that `plan` was made for `graph` (CheckPlanIsFor), that its indices are valid, that
/// every body has a plan, and that lifetimes are in [0, num_nodes() + 1]. All plans of PlanMemory
/// and PlanFromJson satisfy this. Addresses need not be valid: slots may overlap or be misaligned.
/// Linear in the number of values, operands and buffers, except for sorting reserved buffers.
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan);

/// Returns the stream of `plan` with the addresses of `placed`, which must be the placement of
/// `plan` (Placement::programs in planner/placement.h). The buffers of bodies have their own
/// addresses, so the workspace of a launch with bodies has none (PlacedBuffer::kNowhere).
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan,
                                    const PlacedPlan& placed);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_STREAM_H_
