#ifndef STOWAGE_REPORT_STREAM_H_
#define STOWAGE_REPORT_STREAM_H_

// The stream of a step (planner/stream.h) as text, one event a line.
//
//   stream of "step": arena 96 bytes, host 0 bytes, slots of 16 bytes
//   time  event     memory  address  bytes  what
//      0  allocate  arena         0     16  weights w
//      0  allocate  arena        16     16  io x
//      0  allocate  arena        32     16  activations h
//      0  launch    -             -      -  mul h @32+16 <- w @0+16, x @16+16
//
// A launch is an op, its results, an arrow and its operands. @32+16 are 16 bytes
// of the arena from address 32, @host:32+16 as many of the host's memory. `t of h`
// is a view or new content of h, `in place` marks a result in an operand's buffer,
// and `with scratch @64+16` is what the kernel may use beside its operands. Names
// are written as in the text form of graphs (ir/text.h), so a line can be taken
// apart again whatever they contain.

#include <string>

#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// The stream of one run of `graph` by `plan`, which are as MakeStream wants
/// them. The same for the same graph and plan, byte for byte.
std::string ToStreamText(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_REPORT_STREAM_H_
