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
// Behind the launch of a loop or a cond stand its bodies, each between an enter and a
// leave, with times of its own: what is allocated, launched and killed in it, once for
// each iteration of a loop, of which the enter says how many there are. All of it lies in
// the scratch of the launch, in the arena or on the host, save what lies outside, where
// operands and results of the launch do: such a place tells whose it is, by the name of
// the leaf or output, and counts from there. The enter says of what a loop hands on where
// it lies.
//
// An operand of a cond that nothing reads behind it is killed in each of the bodies, one
// of which runs: right after what reads it last there, or before all else. What the body
// makes may then be allocated in it, or before, in a result. The index dies before the
// first body is entered.
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
#include "planner/plan.h"

namespace stowage {

/// Bytes of the arena, counted from its base, or of the host's memory.
struct StreamPlace {
  bool on_host = false;
  Bytes address = 0;
  Bytes bytes = 0;
  /// In a body, of what lies outside: the leaf or output of the body whose place it is
  /// in, from whose first byte on the address counts. Else empty.
  std::string outside = {};
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

/// What a loop hands from one iteration to the next: read as `leaf`, left as `output`.
/// In one place, that of the launch's result, or alternately there and at `second`, so
/// that the last iteration leaves it in the result; where the first finds it is the
/// launch's operand, or of a sum, zeros at where the iteration before would have left it.
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
  StreamPlace scratch = {};       // of the kernel; no bytes: none
  StreamPlace host_scratch = {};  // likewise, of bodies, in the host's memory

  // What is entered or left.
  std::string body = {};
  int64_t iterations = 0;
  std::vector<StreamHanded> handed = {};

  // Of all: the buffer's name, as the plan of the body has it, and its region.
  std::string name = {};
  Region region = Region::kActivations;
  int depth = 0;  // how many bodies it is in
};

/// The stream of one run of `graph` by `plan`. At one time, buffers are killed
/// before others are allocated, both in the plan's order; times never fall. What
/// is reserved is allocated at time 0, by rising address, and killed at time
/// num_nodes() + 1. A buffer whose lifetime is empty does not occur, save where it is an
/// operand, which is killed. What dies in a cond is killed once on each way through it,
/// and an index at the time of its cond.
/// Preconditions: `plan` was made for `graph` (CheckPlanIsFor), and lifetimes lie
/// in [0, num_nodes() + 1], as in every plan of PlanMemory or PlanFromJson; it may
/// be a bad plan otherwise. Linear in values, operands and buffers, but for
/// sorting what is reserved.
std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_STREAM_H_
