#ifndef STOWAGE_PLANNER_STREAM_H_
#define STOWAGE_PLANNER_STREAM_H_

// Converts a step into a list of events, in order: bytes are allocated, kernels are
// launched, and bytes are freed ("kill"). A machine that does not support graphs, views and
// lifetimes can run this list. Every operand is an address and a number of bytes, in the
// arena or in host memory.
//
//   allocate  arena     0    16  weights w
//   allocate  arena    16    16  activations h
//   launch    relu h @16+16 <- w @0+16
//   kill      arena    16    16  activations h
//   kill      arena     0    16  weights w
//
// Reserved buffers (weights, states, inputs, the backend's reserve) outlive the step, so
// they are allocated before the first launch and killed after the last one. All other
// buffers are allocated immediately before the launch at which their lifetime begins, and
// killed immediately after the last launch in it. Outputs, which the caller reads after the
// last launch, are killed at the end. Views are not launched. An operand that is a view
// names its root and has a position in the root's bytes.
//
// After the launch of a loop or a cond, the stream contains the events of its bodies. The
// events of a body cover one iteration. They are between an enter and a leave event, and
// their times are counted in the nodes of the body. The enter event has the number of
// iterations and the addresses of a loop's carries. A buffer of a body is in the workspace
// of the launch, in the arena or on the host, or it is outside, in an operand or a result
// of the launch. An outside address is relative to a leaf or output, which it names.
//
// If an operand of a cond has no later readers, it is killed in each body: immediately
// after its last reader or, without readers, before all other events. Only one body runs.
// Values of the body can then be allocated within this operand, or within a result before
// it is written. The index of the cond dies before the first body is entered.
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

/// A range of bytes in the arena, relative to its base, or in host memory. With a
/// placement, the range is in one of its regions instead of the arena.
struct StreamPlace {
  bool on_host = false;
  Bytes address = 0;
  Bytes bytes = 0;
  /// For outside bytes: the leaf or output of the body that contains them, or the param
  /// that is a constant. The address is relative to its first byte. Otherwise empty.
  std::string outside = {};
  int32_t region =
      PlacedBuffer::kNowhere;  // The region that contains `address`, if placed.
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

/// A carry or sum of a loop. The body reads it as `leaf` and writes it as `output`. Both
/// are in one buffer, the launch's result, or they alternate between this buffer and
/// `second`, such that the last iteration writes the result. The first iteration of a carry
/// reads the launch's operand. The first iteration of a sum reads zeros at the address of
/// the previous iteration's value.
struct StreamHanded {
  std::string leaf;
  std::string output;
  bool in_one_place = false;
  StreamPlace second;  // No bytes if not needed.
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
  Time time = 0;  // A buffer's lower or upper, or the node's time.

  // For allocate and kill: the buffer. Slots are padded to the plan's alignment, but
  // `place` does not include the padding.
  int32_t buffer = -1;  // An index in Plan::buffers.
  StreamPlace place = {};

  // For launch. `node` and `op` are also set for enter and leave.
  NodeId node = kNoNode;
  OpKind op = OpKind::kCopy;
  std::vector<StreamValue> operands = {};
  std::vector<StreamValue> results = {};
  StreamPlace scratch = {};       // The kernel's workspace. May have no bytes.
  StreamPlace host_scratch = {};  // The host memory of the bodies, likewise.

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

/// Returns the stream of one run of `graph` under `plan`. At each time, buffers are killed
/// before others are allocated, both in the order of the plan. Times never decrease.
/// Reserved buffers are allocated at time 0, in the order of addresses, and killed at time
/// num_nodes() + 1. Buffers with an empty lifetime are omitted, except operands, which are
/// killed. An operand that dies in a cond is killed once in each body, and the index of a
/// cond is killed at the time of the cond.
///
/// Requires that `plan` was made for `graph` (CheckPlanIsFor) and that lifetimes are in
/// [0, num_nodes() + 1], as in every plan of PlanMemory or PlanFromJson. The plan may be
/// invalid in other respects. Linear in values, operands and buffers, except for sorting
/// reserved buffers.
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan);

/// Returns the stream with the addresses of `placed`. The workspace of a launch with bodies
/// has no address.
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan,
                                    const PlacedPlan& placed);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_STREAM_H_
