#ifndef STOWAGE_IR_CONTROL_FLOW_H_
#define STOWAGE_IR_CONTROL_FLOW_H_

// Adds loops and branches to a graph. The caller passes functions that build their bodies.
//
// A body is a graph with its own builder. It can only read the values that are passed to it, which
// have the same names inside as outside. Params, states and inputs are declared outside and passed
// as operands. ir/bodies.h explains the kinds of values.
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

/// The operands of a While: the initial carried values, which change from iteration to iteration,
/// and the whole values, which are the same in all iterations.
struct WhileOperands {
  std::vector<Value> carried = {};
  std::vector<Value> whole = {};
};

/// The operands as the condition and the body see them. The values belong to `builder`.
struct WhileValues {
  GraphBuilder& builder;
  std::vector<Value> carried;
  std::vector<Value> whole;
};

struct WhileResults {
  std::vector<Value> carried = {};  // after the last iteration
  Value iterations = {};            // i64 scalar: the number that were run
};

/// Adds a loop that runs `body` while the condition `holds` is true, at most `most` times. `holds`
/// returns a bool scalar and `body` the next carried values, both computed from the current values.
/// It is useful for iterations that converge and for searches.
///
/// The memory of a step must be known in advance, so this is a loop of `most` iterations whose body
/// is a branch. After the condition is false, each further iteration only evaluates it and copies
/// the carried values. Gradients flow only through the iterations that were run.
///
/// Propagates errors of Loop and Cond. Finish also returns an error if `most` is below 1, if the
/// condition is not a bool scalar, or if the number or the types of the values that `body` returns
/// differ from the carried values.
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

/// The operands of a Loop: the initial carried values, the sliced values and the whole values.
/// Iteration i reads element i of the first axis of a sliced value, whose size must be the number
/// of iterations. Whole values are the same in all iterations.
struct LoopOperands {
  std::vector<Value> carried = {};
  std::vector<Value> sliced = {};
  std::vector<Value> whole = {};
};

struct LoopOptions {
  /// If true, iteration i reads and writes slice iterations - 1 - i of sliced and stacked values.
  bool reverse = false;
  std::string name = "loop";  // the body's name
};

/// Results of a loop, in the order of the calls in its body. After an error, which the builder has
/// recorded, the number of results is unknown, and operator[] returns an inert value for any index.
class LoopValues {
 public:
  LoopValues() = default;
  explicit LoopValues(std::vector<Value> values)
      : values_(std::move(values)), are_known_(true) {}

  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  /// Requires `i < size()`, unless an error was recorded.
  Value operator[](size_t i) const {
    return are_known_ || i < values_.size() ? values_.at(i) : Value();
  }

 private:
  std::vector<Value> values_;
  bool are_known_ = false;
};

/// The results of a Loop. Carried values are in the order of LoopOperands, the others in the order
/// of the calls in the loop's body.
struct LoopResults {
  std::vector<Value> carried = {};
  LoopValues summed = {};
  LoopValues stacked = {};
};

/// The argument of the function that builds a loop's body. All values belong to builder().
class LoopBody {
 public:
  GraphBuilder& builder() { return g_; }

  Value carried(size_t i) const { return carried_.at(i); }
  Value sliced(size_t i) const { return sliced_.at(i); }
  Value whole(size_t i) const { return whole_.at(i); }

  /// Sets carried value i of the next iteration, and of the result after the last one. Must be
  /// called once for each carried value.
  void Next(size_t i, Value value);
  /// Stacks the values of all iterations along a new first axis of a result.
  void Stack(Value value) { stacked_.push_back(value); }
  /// Sums `value` over all iterations, in their order. The sum is a result.
  void Sum(Value value);

 private:
  friend LoopResults Loop(GraphBuilder&, int64_t, const LoopOperands&,
                          const std::function<void(LoopBody&)>&,
                          const LoopOptions&, SourceLoc);
  LoopBody(const LoopOperands& operands, const LoopOptions& options,
           const GraphBuilder& outside);

  GraphBuilder g_;
  std::vector<Value> carried_, sliced_, whole_;  // leaves
  std::vector<Value> next_;                      // next carried values
  std::vector<Value> sums_so_far_, sums_;        // leaves, and the next sums
  std::vector<Value> stacked_;
};

/// Adds a loop that runs `body` `iterations` times. Results of the body that are operands, views or
/// duplicates are copied. Finish returns an error in these cases:
/// - `iterations` is below 1, or the first dimension of a sliced operand is not `iterations`.
/// - The body reads a leaf that it declares itself, or it has no results.
/// - The body does not call Next for a carried value, or calls it with a value of another type.
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

/// Adds a branch that runs the body selected by `index`, a scalar of i32, i64 or bool, and returns
/// its results. False selects the first body, and true the second. Requires at least two bodies,
/// whose results must have the same types. A step returns kIndexOutOfRange if the index selects no
/// body.
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::span<const Value> operands,
    std::span<const std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::initializer_list<Value> operands,
    std::initializer_list<std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());

/// Converts `body` to the form that a node requires. The result has the leaves `leaves` and the
/// outputs `outputs`, in these orders. Outputs that are leaves, views, updates or duplicates are
/// copied. Leaves of role saved become inputs, and leaves that are neither listed nor read are
/// dropped.
Result<Graph> MakeBody(const Graph& body, std::span<const ValueId> leaves,
                       std::span<const ValueId> outputs);

}  // namespace stowage

#endif  // STOWAGE_IR_CONTROL_FLOW_H_
