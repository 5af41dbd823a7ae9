#ifndef STOWAGE_IR_WHILE_H_
#define STOWAGE_IR_WHILE_H_

// A loop that ends when a condition does, with a bound on its trips: for iterations that
// converge, and searches that find. The memory it takes is known like any loop's, for it
// is one, of as many trips as there may be, whose body is a branch (ir/control_flow.h):
// from the trip on whose condition does not hold, trips look at the condition and hand on
// what is carried, a copy of it each.
//
//   // The square root of a, by Newton's method.
//   WhileResults root = While(
//       g, /*most=*/50, {.carried = {a}, .whole = {a}},
//       [](const WhileValues& v) {
//         const Value off = Abs(Sub(Square(v.carried[0]), v.whole[0]));
//         return Greater(off, Fill(v.builder, 1e-6, off.dtype(), {}));
//       },
//       [](const WhileValues& v) {
//         return std::vector{MulScalar(Add(v.carried[0],
//                                          Div(v.whole[0], v.carried[0])), 0.5)};
//       });
//   root.carried[0]; root.trips;
//
// Gradients are those of the trips that ran.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace stowage {

/// What a while loop is handed: contents that change from trip to trip, and values that
/// all trips read.
struct WhileOperands {
  std::vector<Value> carried = {};
  std::vector<Value> whole = {};
};

/// The same as its condition and its body see them: values of their own graph.
struct WhileValues {
  GraphBuilder& builder;
  std::vector<Value> carried;
  std::vector<Value> whole;
};

struct WhileResults {
  std::vector<Value> carried = {};  // after the last trip
  Value trips = {};                 // an i64 scalar: how many ran
};

/// Runs `body`, which returns what the next trip carries, while `holds`, a bool scalar
/// of what is carried now, is true, and `most` >= 1 times at most. Errors, at Finish:
/// those of Loop and Cond; a condition that is no bool scalar; a body that returns
/// another number of values than are carried, or one of another type.
WhileResults While(
    GraphBuilder& g, int64_t most, const WhileOperands& operands,
    const std::function<Value(const WhileValues&)>& holds,
    const std::function<std::vector<Value>(const WhileValues&)>& body,
    SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_IR_WHILE_H_
