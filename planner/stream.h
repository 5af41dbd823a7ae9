#ifndef STOWAGE_PLANNER_STREAM_H_
#define STOWAGE_PLANNER_STREAM_H_

// A step as the list of what happens in it, in order: bytes are allocated, kernels
// are launched, bytes are killed. It is what a machine would run that knows no
// graph, no views and no lifetimes: every operand is an address and a number of
// bytes, in the arena or in the host's memory.
//
//   allocate  arena     0    16  weights w
//   allocate  arena    16    16  activations h
//   launch    relu h @16+16 <- w @0+16
//   kill      arena    16    16  activations h
//   kill      arena     0    16  weights w
//
// What is reserved (weights, states, inputs, what the backend keeps) is allocated
// before the first launch and killed after the last, since it outlives the step.
// All other buffers are allocated right before the launch at which their lifetime
// begins and killed right after the last one in it; outputs, which the caller
// reads after the last launch, at the end. Views launch nothing: an operand that
// is a view tells the root whose bytes it reads, and where in them.
//
//   for (const StreamEvent& event : MakeStream(graph, *plan)) machine.Run(event);

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "planner/plan.h"

namespace stowage {

/// Bytes of the arena, counted from its base, or of the host's memory.
struct StreamPlace {
  bool on_host = false;
  Bytes address = 0;
  Bytes bytes = 0;
  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};

/// An operand or a result of a launch.
struct StreamValue {
  std::string name;
  /// The value that owns the bytes: of a view the one it looks into, of an
  /// update's result the param or state that is updated, else itself.
  std::string root;
  /// From its first byte to behind its last: less than its elements take where a
  /// view repeats some, more where it leaves some out.
  StreamPlace place;
  bool in_place = false;  // a result in the buffer of an operand
  friend bool operator==(const StreamValue&, const StreamValue&) = default;
};

enum class StreamEventKind : uint8_t { kAllocate, kLaunch, kKill };
/// "allocate", "launch", "kill".
std::string_view StreamEventName(StreamEventKind kind);

struct StreamEvent {
  StreamEventKind kind = StreamEventKind::kAllocate;
  Time time = 0;  // a buffer's lower, the node's, a buffer's upper

  // What is allocated or killed. Slots are padded to the plan's alignment, which
  // is not counted here.
  int32_t buffer = -1;  // of the plan
  StreamPlace place = {};

  // What is launched.
  NodeId node = kNoNode;
  OpKind op = OpKind::kCopy;
  std::vector<StreamValue> operands = {};
  std::vector<StreamValue> results = {};
  StreamPlace scratch = {};  // of the kernel; no bytes: none
};

/// The stream of one run of `graph` by `plan`. At one time, buffers are killed
/// before others are allocated, both in the plan's order; times never fall. What
/// is reserved is allocated at time 0, by rising address, and killed at time
/// num_nodes() + 1. A buffer whose lifetime is empty does not occur.
/// Preconditions: `plan` was made for `graph` (CheckPlanIsFor), and lifetimes lie
/// in [0, num_nodes() + 1], as in every plan of PlanMemory or PlanFromJson; it may
/// be a bad plan otherwise. Linear in values, operands and buffers, but for
/// sorting what is reserved.
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_STREAM_H_
