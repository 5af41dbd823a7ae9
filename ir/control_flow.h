#ifndef STOWAGE_IR_CONTROL_FLOW_H_
#define STOWAGE_IR_CONTROL_FLOW_H_

// Loops and branches, written as functions that build their bodies.
//
// A body is a graph with a builder of its own: it computes from the values passed to it and
// from nothing else. They have the same names inside as outside. Params, states and inputs
// are declared outside and passed. ir/bodies.h defines the kinds of values.
//
//   LoopResults run = Loop(g, 100, {.carried = {h0}, .sliced = {xs}, .whole = {w}},
//                          [](LoopBody& body) {
//                            Value h = Tanh(Add(MatMul(body.carried(0), body.whole(0)),
//                                               body.sliced(0)));
//                            body.Next(0, h);
//                            body.Stack(h);
//                          });
//   run.carried[0];  // h after 100 iterations, of h0's type
//   run.stacked[0];  // h of every iteration: (100, ...)
//
//   std::vector<Value> y = Cond(g, is_large, {x}, {
//       [](CondBody& body) { return std::vector{body.operand(0)}; },
//       [](CondBody& body) { return std::vector{Tanh(body.operand(0))}; }});

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace stowage {

/// The operands of a While: contents that change from iteration to iteration, and values that
/// all iterations read.
struct WhileOperands {
  std::vector<Value> carried = {};
  std::vector<Value> whole = {};
};

/// The operands inside the condition and the body: values of their own graph.
struct WhileValues {
  GraphBuilder& builder;
  std::vector<Value> carried;
  std::vector<Value> whole;
};

struct WhileResults {
  std::vector<Value> carried = {};  // after the last iteration
  Value iterations = {};            // i64 scalar: the number that ran
};

/// Runs `body`, which returns the next carried values, while the bool scalar `holds` is true
/// for the current ones, at most `most` >= 1 times. For iterations that converge and searches.
/// It is a loop of `most` iterations whose body is a branch, so that its memory is known:
/// once the condition fails, each further iteration only tests it and copies the carried
/// values. Gradients are those of the iterations that ran. Errors, at Finish: those of Loop
/// and Cond; a condition that is no bool scalar; a body that returns another number of
/// values than are carried, or one of another type.
///
///   // The square root of a, by Newton's method.
///   WhileResults root = While(
///       g, /*most=*/50, {.carried = {a}, .whole = {a}},
///       [](const WhileValues& v) {
///         const Value off = Abs(Sub(Square(v.carried[0]), v.whole[0]));
///         return Greater(off, Fill(v.builder, 1e-6, off.dtype(), {}));
///       },
///       [](const WhileValues& v) {
///         return std::vector{MulScalar(Add(v.carried[0],
///                                          Div(v.whole[0], v.carried[0])), 0.5)};
///       });
///   root.carried[0]; root.iterations;
WhileResults While(
    GraphBuilder& g, int64_t most, const WhileOperands& operands,
    const std::function<Value(const WhileValues&)>& holds,
    const std::function<std::vector<Value>(const WhileValues&)>& body,
    SourceLoc loc = SourceLoc::Current());

/// The operands of a Loop: initial values of carried ones; sliced ones, of which iteration i
/// gets element i of the first axis, whose size is the number of iterations; and whole ones,
/// which are the same in all iterations.
struct LoopOperands {
  std::vector<Value> carried = {};
  std::vector<Value> sliced = {};
  std::vector<Value> whole = {};
};

struct LoopOptions {
  /// Iteration i takes slice iterations - 1 - i of sliced and stacked values.
  bool reverse = false;
  std::string name = "loop";  // of the body
};

/// Results of a loop, in the order of the calls in its body. After an error, which the builder
/// has recorded, their number is unknown, and every index has an inert value.
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

/// The results of a Loop, in the order of LoopOperands and of the calls in its body.
struct LoopResults {
  std::vector<Value> carried = {};
  LoopValues summed = {};
  LoopValues stacked = {};
};

/// The argument of the function that builds a loop's body. Values belong to builder().
class LoopBody {
 public:
  GraphBuilder& builder() { return g_; }

  Value carried(size_t i) const { return carried_.at(i); }
  Value sliced(size_t i) const { return sliced_.at(i); }
  Value whole(size_t i) const { return whole_.at(i); }

  /// Sets carried(i) of the next iteration, or of the result. To be called once for each.
  void Next(size_t i, Value value);
  /// Stacks `value` of every iteration into one result with one more axis.
  void Stack(Value value) { stacked_.push_back(value); }
  /// Sums `value` over all iterations, in order.
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
  std::vector<Value> sums_so_far_, sums_;        // leaves, and the next sums
  std::vector<Value> stacked_;
};

/// Runs `body` `iterations` times. The body copies a result that would be an operand, a view
/// or a duplicate. Errors, at Finish: fewer than 1 iteration; a sliced operand with another
/// first dimension; a body that declares leaves, that has no Next for a carried value or one
/// of another type, or that has no results.
LoopResults Loop(GraphBuilder& g, int64_t iterations,
                 const LoopOperands& operands,
                 const std::function<void(LoopBody&)>& body,
                 const LoopOptions& options = {},
                 SourceLoc loc = SourceLoc::Current());

/// The argument of a function that builds one body of a Cond.
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

/// Runs the body that `index`, a scalar of i32, i64 or bool, selects; false is the first and
/// true the second. There are at least two bodies, with results of the same types. A step
/// whose index selects no body ends with kIndexOutOfRange.
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::span<const Value> operands,
    std::span<const std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::initializer_list<Value> operands,
    std::initializer_list<std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());

/// `body` in the form that a node requires: with the leaves `leaves` and the outputs
/// `outputs`, in these orders. Outputs that are leaves, views or duplicates are copied,
/// leaves of role saved become inputs, and other unread leaves are dropped.
Result<Graph> MakeBody(const Graph& body, std::span<const ValueId> leaves,
                       std::span<const ValueId> outputs);

}  // namespace stowage

#endif  // STOWAGE_IR_CONTROL_FLOW_H_
