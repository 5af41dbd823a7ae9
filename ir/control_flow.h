#ifndef STOWAGE_IR_CONTROL_FLOW_H_
#define STOWAGE_IR_CONTROL_FLOW_H_

// Loops and branches, written as functions that build their bodies.
//
// A body is a graph of its own, with a builder of its own: it computes with what it
// is handed and with nothing else. What it is handed stands in it under the names that
// it has outside. Params, states and inputs are declared outside and handed in.
//
//   LoopResults run = Loop(g, 100, {.carried = {h0}, .sliced = {xs}, .whole = {w}},
//                          [](LoopBody& body) {
//                            Value h = Tanh(Add(MatMul(body.carried(0), body.whole(0)),
//                                               body.sliced(0)));
//                            body.Next(0, h);
//                            body.Stack(h);
//                          });
//   run.carried[0];  // h after 100 iterations, of h0's type
//   run.stacked[0];  // h of each of them, one after the other: (100, ...)
//
//   std::vector<Value> y = Cond(g, is_large, {x}, {
//       [](CondBody& body) { return std::vector{body.operand(0)}; },
//       [](CondBody& body) { return std::vector{Tanh(body.operand(0))}; }});
//
// What the kinds of values are: ir/bodies.h.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace stowage {

// A loop that ends when a condition does, with a bound on its iterations: for iterations that
// converge, and searches that find. The memory it takes is known like any loop's, for it
// is one, of as many iterations as there may be, whose body is a branch (ir/control_flow.h):
// from the iteration on whose condition does not hold, iterations look at the condition and hand on
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
//   root.carried[0]; root.iterations;
//
// Gradients are those of the iterations that ran.

/// What a while loop is handed: contents that change from iteration to iteration, and values that
/// all iterations read.
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
  std::vector<Value> carried = {};  // after the last iteration
  Value iterations = {};            // an i64 scalar: how many ran
};

/// Runs `body`, which returns what the next iteration carries, while `holds`, a bool scalar
/// of what is carried now, is true, and `most` >= 1 times at most. Errors, at Finish:
/// those of Loop and Cond; a condition that is no bool scalar; a body that returns
/// another number of values than are carried, or one of another type.
WhileResults While(
    GraphBuilder& g, int64_t most, const WhileOperands& operands,
    const std::function<Value(const WhileValues&)>& holds,
    const std::function<std::vector<Value>(const WhileValues&)>& body,
    SourceLoc loc = SourceLoc::Current());

/// What a loop is handed. A carried value begins as it is here; of a sliced one,
/// iteration i gets element i of the first axis, which has as many as there are iterations;
/// all iterations get the same of one that is whole.
struct LoopOperands {
  std::vector<Value> carried = {};
  std::vector<Value> sliced = {};
  std::vector<Value> whole = {};
};

struct LoopOptions {
  /// Iteration i takes slice iterations - 1 - i, of what is sliced and of what is stacked.
  bool reverse = false;
  std::string name = "loop";  // of the body
};

/// Results of a loop, by the order of the calls that made them. After an error, which the
/// builder has recorded, every place has an inert value: it is not known how many there
/// would be.
class LoopValues {
 public:
  LoopValues() = default;
  explicit LoopValues(std::vector<Value> values)
      : values_(std::move(values)), are_known_(true) {}

  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  /// Precondition without an error: i < size().
  Value operator[](size_t i) const {
    return are_known_ || i < values_.size() ? values_.at(i) : Value();
  }

 private:
  std::vector<Value> values_;
  bool are_known_ = false;
};

/// What a loop hands back, in the order of LoopOperands and of the calls in its body.
struct LoopResults {
  std::vector<Value> carried = {};
  LoopValues summed = {};
  LoopValues stacked = {};
};

/// What the function sees that builds a loop's body. Values are of builder().
class LoopBody {
 public:
  GraphBuilder& builder() { return g_; }

  Value carried(size_t i) const { return carried_.at(i); }
  Value sliced(size_t i) const { return sliced_.at(i); }
  Value whole(size_t i) const { return whole_.at(i); }

  /// What carried(i) is in the next iteration, and after the last. Once for each.
  void Next(size_t i, Value value);
  /// `value` of every iteration, in one result with one more axis.
  void Stack(Value value) { stacked_.push_back(value); }
  /// The sum of `value` over all iterations, added in their order.
  void Sum(Value value);

 private:
  friend LoopResults Loop(GraphBuilder&, int64_t, const LoopOperands&,
                          const std::function<void(LoopBody&)>&,
                          const LoopOptions&, SourceLoc);
  LoopBody(const LoopOperands& operands, const LoopOptions& options,
           const GraphBuilder& outside);

  GraphBuilder g_;
  std::vector<Value> carried_, sliced_, whole_;  // leaves
  std::vector<Value> next_;                      // of each carried value
  std::vector<Value> sums_so_far_, sums_;        // leaves, and what follows
  std::vector<Value> stacked_;
};

/// Runs `body` `iterations` times. What is handed back has been copied in the body where it
/// would be an operand, a view, or handed back twice. Errors, at Finish: a number of
/// iterations below 1; a sliced operand whose first dimension is another; a body that has
/// leaves of its own, that gives no Next for a carried value or one of another type,
/// or that hands nothing back.
LoopResults Loop(GraphBuilder& g, int64_t iterations,
                 const LoopOperands& operands,
                 const std::function<void(LoopBody&)>& body,
                 const LoopOptions& options = {},
                 SourceLoc loc = SourceLoc::Current());

/// What a function sees that builds one body of a Cond.
class CondBody {
 public:
  GraphBuilder& builder() { return g_; }
  Value operand(size_t i) const { return operands_.at(i); }

 private:
  friend std::vector<Value> Cond(
      GraphBuilder&, Value, std::span<const Value>,
      std::span<const std::function<std::vector<Value>(CondBody&)>>, SourceLoc);
  CondBody(std::string name, std::span<const Value> operands,
           const GraphBuilder& outside);

  GraphBuilder g_;
  std::vector<Value> operands_;
};

/// Runs the body whose number `index`, a scalar of i32, i64 or bool, holds, false being
/// the first and true the second; there are at least two, and all hand back values of
/// the same types. A step in which there is no body of that number ends with
/// kIndexOutOfRange.
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::span<const Value> operands,
    std::span<const std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::initializer_list<Value> operands,
    std::initializer_list<std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());

/// `body` as a node may hold it: its leaves those of `leaves`, in that order, and its
/// outputs, in theirs, copied where they are leaves, views or there twice. Leaves of
/// role saved become inputs. Others that nothing reads are left out.
Result<Graph> MakeBody(const Graph& body, std::span<const ValueId> leaves,
                       std::span<const ValueId> outputs);

}  // namespace stowage

#endif  // STOWAGE_IR_CONTROL_FLOW_H_
