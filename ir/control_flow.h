#ifndef STOWAGE_IR_CONTROL_FLOW_H_
#define STOWAGE_IR_CONTROL_FLOW_H_

// Adds loops and branches to a graph. The caller passes functions that build the bodies of the
// loops and branches.
//
// A body is a graph with its own builder. It can only read the operands of the loop or branch,
// which have the same names inside as outside. Params, states and inputs must be declared outside
// and passed as operands. ir/bodies.h explains the kinds of values.
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

/// The operands of a While: the initial carried values, which the body replaces in each iteration,
/// and the whole values, which are the same in all iterations.
struct WhileOperands {
  std::vector<Value> carried = {};
  std::vector<Value> whole = {};
};

/// The carried and whole values in an iteration of a While, as the condition and the body read
/// them. The values belong to `builder`.
struct WhileValues {
  GraphBuilder& builder;
  std::vector<Value> carried;
  std::vector<Value> whole;
};

struct WhileResults {
  std::vector<Value> carried = {};  // after the last iteration
  Value iterations = {};            // i64 scalar: the number that were run
};

/// Adds a loop that runs `body` while the condition `holds` is true, at most `most` times. Both
/// functions build graphs: `holds` returns a bool scalar, and `body` returns the next carried
/// values. Such loops are useful for iterations that converge and for searches.
///
/// The memory of a step must be known in advance, so this is a loop of `most` iterations whose body
/// is a branch. Once the condition is false, each further iteration only evaluates the condition
/// and copies the carried values. Gradients flow only through the iterations that ran `body`.
///
/// The builder records the errors of Loop and Cond. It also records an error if `most` is below 1,
/// if the condition is not a bool scalar, or if the number or the types of the values that `body`
/// returns differ from the carried values.
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
/// Iteration i reads element i along the first axis of a sliced value. The size of this axis must
/// be the number of iterations. Whole values are the same in all iterations.
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

/// Results of a loop, in the order of the calls of Sum or Stack in its body. After an error, which
/// the builder has recorded, the number of results is unknown, and operator[] returns an inert
/// value for any index.
class LoopValues {
 public:
  LoopValues() = default;
  explicit LoopValues(std::vector<Value> values)
      : values_(std::move(values)), are_known_(true) {}

  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  /// Returns result `i`. Requires `i < size()`, unless an error was recorded.
  Value operator[](size_t i) const {
    return are_known_ || i < values_.size() ? values_.at(i) : Value();
  }

 private:
  std::vector<Value> values_;
  bool are_known_ = false;
};

/// The results of a Loop. Carried values are in the order of LoopOperands. Summed and stacked
/// values are in the order of the calls of Sum and of Stack in the body.
struct LoopResults {
  std::vector<Value> carried = {};
  LoopValues summed = {};
  LoopValues stacked = {};
};

/// The argument of the function that builds a loop's body. All values belong to builder().
class LoopBody {
 public:
  GraphBuilder& builder() { return g_; }

  /// These functions return value `i` of a kind in the current iteration. `i` must be less than the
  /// number of values of that kind in LoopOperands.
  Value carried(size_t i) const { return carried_.at(i); }
  Value sliced(size_t i) const { return sliced_.at(i); }
  Value whole(size_t i) const { return whole_.at(i); }

  /// Sets carried value `i` of the next iteration. After the last iteration, it is a result. Must
  /// be called once for each carried value.
  void Next(size_t i, Value value);
  /// Adds a result that stacks `value` of all iterations along a new first axis.
  void Stack(Value value) { stacked_.push_back(value); }
  /// Adds a result that is the sum of `value` over all iterations, in the order in which they run.
  /// A value that does not belong to builder() is ignored.
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

/// Adds a loop of `iterations` iterations. `body` is called once, to build the body. Results of the
/// body that are operands, views, updates or duplicates are copied. The builder `g` records an
/// error in these cases:
/// - `iterations` is below 1 or above 2^31.
/// - The first dimension of a sliced operand is not `iterations`.
/// - The body reads a leaf that it declares itself, or it has no results.
/// - The body does not call Next for a carried value, or calls it with a value of another type.
/// - The body passes a value of another builder to Next or Stack.
LoopResults Loop(GraphBuilder& g, int64_t iterations,
                 const LoopOperands& operands,
                 const std::function<void(LoopBody&)>& body,
                 const LoopOptions& options = {},
                 SourceLoc loc = SourceLoc::Current());

/// The argument of a function that builds one body of a Cond.
class CondBody {
 public:
  GraphBuilder& builder() { return g_; }
  /// Returns operand `i` of the Cond, which must exist.
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

/// Adds a branch that runs body number `index`, counted from 0, and returns its results. `index` is
/// a scalar of i32, i64 or bool, where false is 0 and true is 1. Requires at least two bodies,
/// which must return values of the same types. A step fails with StepCode::kIndexOutOfRange
/// (runtime/kernel.h) if no body has this number.
///
/// After an error, which the builder has recorded, the returned vector may have any size, including
/// 0. Check `g.error()` before indexing it.
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::span<const Value> operands,
    std::span<const std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());
std::vector<Value> Cond(
    GraphBuilder& g, Value index, std::initializer_list<Value> operands,
    std::initializer_list<std::function<std::vector<Value>(CondBody&)>> bodies,
    SourceLoc loc = SourceLoc::Current());

/// Converts `body` to the form that a control-flow node requires. The result has the leaves
/// `leaves` and the outputs `outputs`, in these orders. Outputs that are leaves, views, updates or
/// duplicates are copied. Leaves in `leaves` with the role saved become inputs. Other leaves follow
/// if a node reads them, and are dropped otherwise. Returns the errors of GraphBuilder::Finish.
Result<Graph> MakeBody(const Graph& body, std::span<const ValueId> leaves,
                       std::span<const ValueId> outputs);

}  // namespace stowage

#endif  // STOWAGE_IR_CONTROL_FLOW_H_
