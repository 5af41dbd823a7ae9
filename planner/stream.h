#ifndef STOWAGE_PLANNER_STREAM_H_
#define STOWAGE_PLANNER_STREAM_H_

// A step as a list of events in order: bytes are allocated, kernels are launched, bytes
// are freed ("kill"). A machine without graphs, views and lifetimes can run it: every
// operand is an address and a number of bytes, in the arena or in host memory.
//
//   allocate  arena     0    16  weights w
//   allocate  arena    16    16  activations h
//   launch    relu h @16+16 <- w @0+16
//   kill      arena    16    16  activations h
//   kill      arena     0    16  weights w
//
// Reserved buffers (weights, states, inputs, the backend's reserve) are allocated before
// the first launch and killed after the last, since they outlive the step. All other
// buffers are allocated right before the launch at which their lifetime begins and killed
// right after the last one in it; outputs, which the caller reads after the last launch,
// at the end. Views launch nothing: an operand that is a view names its root, and its
// position in the root's bytes.
//
// The launch of a loop or a cond is followed by its bodies, each between an enter and a
// leave, with separate times: the events of one iteration. The enter has the number of
// iterations and the addresses of a loop's carries. A buffer of a body is in the scratch
// of the launch, in the arena or on the host, or outside, in an operand or result of the
// launch. An outside address names its leaf or output, and is relative to it.
//
// An operand of a cond without later readers is killed in each body: right after its last
// reader there, or first of all. Only one body runs. Values of the body may then be
// allocated in it, or in a result before it is written. The index dies before the first
// body is entered.
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

/// Bytes of the arena, relative to its base, or of host memory; with a placement, of one of its
/// regions instead of the arena.
struct StreamPlace {
  bool on_host = false;
  Bytes address = 0;
  Bytes bytes = 0;
  /// For an outside place: the leaf or output of the body that contains it, or the param
  /// that is a constant, to whose first byte the address is relative. Otherwise empty.
  std::string outside = {};
  int32_t region =
      PlacedBuffer::kNowhere;  // of a placement, to whose base it is relative
  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};

/// An operand or a result of a launch.
struct StreamValue {
  std::string name;
  /// The value that owns the bytes: the root of a view, the param or state of an update's
  /// result, otherwise itself.
  std::string root;
  /// From its first byte to the end of its last: less than its elements take if a view
  /// repeats some, more if it skips some.
  StreamPlace place;
  bool in_place = false;  // a result in the buffer of an operand
  friend bool operator==(const StreamValue&, const StreamValue&) = default;
};

/// A carry of a loop: read as `leaf`, written as `output`. Either in one buffer, the
/// launch's result, or alternating between it and `second`, so that the last iteration
/// writes the result. The first iteration reads the launch's operand, or for a sum, zeros
/// at the address of the previous iteration's value.
struct StreamHanded {
  std::string leaf;
  std::string output;
  bool in_one_place = false;
  StreamPlace second;  // no bytes: none
  friend bool operator==(const StreamHanded&, const StreamHanded&) = default;
};

enum class StreamEventKind : uint8_t {
  kAllocate,
  kLaunch,
  kKill,
  kEnter,
  kLeave,
};
/// "allocate", "launch", "kill", "enter", "leave".
std::string_view StreamEventName(StreamEventKind kind);

struct StreamEvent {
  StreamEventKind kind = StreamEventKind::kAllocate;
  Time time = 0;  // a buffer's lower, the node's time, a buffer's upper

  // The buffer of an allocate or kill. Slots are padded to the plan's alignment, which is
  // not included here.
  int32_t buffer = -1;  // of the plan
  StreamPlace place = {};

  // The launch.
  NodeId node = kNoNode;
  OpKind op = OpKind::kCopy;
  std::vector<StreamValue> operands = {};
  std::vector<StreamValue> results = {};
  StreamPlace scratch = {};       // of the kernel; no bytes: none
  StreamPlace host_scratch = {};  // the same of the bodies, in host memory

  // The body of an enter or leave.
  std::string body = {};
  int64_t iterations = 0;
  std::vector<StreamHanded> handed = {};

  // For all events: the buffer's name, as in the plan of the body, and its region.
  std::string name = {};
  Region region = Region::kActivations;
  int depth = 0;  // nesting depth in bodies
};

/// The stream of one run of `graph` by `plan`. At one time, buffers are killed before
/// others are allocated, both in the plan's order; times never decrease. Reserved buffers
/// are allocated at time 0, by increasing address, and killed at time num_nodes() + 1.
/// Buffers with an empty lifetime are omitted, except operands, which are killed. An
/// operand that dies in a cond is killed once in each body, and an index at the time of
/// its cond. Preconditions: `plan` was made for `graph` (CheckPlanIsFor), and lifetimes
/// lie in [0, num_nodes() + 1], as in every plan of PlanMemory or PlanFromJson; otherwise
/// the plan may be wrong. Linear in values, operands and buffers, except for sorting
/// reserved buffers.
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan);

/// The same with the buffers where `placed` has them. The scratch of a launch with bodies has no
/// place of its own.
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan,
                                    const PlacedPlan& placed);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_STREAM_H_
