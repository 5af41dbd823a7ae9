#ifndef STOWAGE_IR_BUILDER_H_
#define STOWAGE_IR_BUILDER_H_

// Builds graphs. Ops are free functions of Value handles (ir/ops.h). The first invalid op puts the
// builder into an error state, in which all further results are inert. Finish() returns this first
// error with the user's file and line.
//
//   GraphBuilder g("mlp");
//   Value x = g.Input("x", DType::kF32, {32, 64});
//   Value w = g.Param("w", DType::kF32, {64, 10}, Init::Normal(0.02));
//   Value y = g.Input("y", DType::kI32, {32});
//   g.Output("loss", CrossEntropy(MatMul(x, w), y));
//   Result<Graph> graph = g.Finish();

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/op_def.h"

namespace stowage {

class GraphBuilder;

/// A handle to a value of a graph under construction. It is cheap to copy and is valid as long as
/// its builder exists. A default-constructed handle is inert, and so are handles that ops return
/// after an error. Ops accept inert handles and return inert results.
class Value {
 public:
  Value() = default;

  bool ok() const { return id_ >= 0; }
  GraphBuilder* builder() const { return builder_; }
  /// Requires `ok()`.
  ValueId id() const;
  /// Returns the type of the value, or the type of an f32 scalar for an inert value. Model code
  /// that reads shapes can therefore continue until Finish() reports the error. dim(i) is then 0.
  // The type is returned by value because adding a value to the builder would invalidate a
  // reference, as in BroadcastTo(ReduceMean(x), x.shape()).
  TensorType type() const;
  Shape shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
  /// Returns the size of axis `i`. Requires `0 <= i && i < kMaxRank`. Axes past the rank have
  /// size 0. Negative axes are not supported.
  int64_t dim(int i) const { return shape()[i]; }

 private:
  friend class GraphBuilder;
  Value(GraphBuilder* builder, ValueId id) : builder_(builder), id_(id) {}
  GraphBuilder* builder_ = nullptr;
  ValueId id_ = -1;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);
  GraphBuilder(const GraphBuilder&) = delete;  // Values point to their builder
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // The following functions declare leaves, whose roles are explained at Role (ir/graph.h). Names
  // must be new in this graph, and dimensions must be at least 1.
  Value Param(std::string_view name, DType dtype, const Shape& shape,
              Init init = Init::Zeros(), SourceLoc loc = SourceLoc::Current());
  Value Input(std::string_view name, DType dtype, const Shape& shape,
              SourceLoc loc = SourceLoc::Current());
  Value State(std::string_view name, DType dtype, const Shape& shape,
              Init init = Init::Zeros(), SourceLoc loc = SourceLoc::Current());
  Value Saved(std::string_view name, DType dtype, const Shape& shape,
              SourceLoc loc = SourceLoc::Current());
  /// Declares a value that is kept from one run to the next. Before the first run, the caller must
  /// write it or call Runner::ClearCaches (runtime/runner.h), which fills it with zeros.
  Value Cache(std::string_view name, DType dtype, const Shape& shape,
              SourceLoc loc = SourceLoc::Current());
  /// Declares a state in host memory.
  Value HostState(std::string_view name, DType dtype, const Shape& shape,
                  Init init = Init::Zeros(),
                  SourceLoc loc = SourceLoc::Current());
  /// Declares a leaf with all properties of `leaf`, including its source line. `leaf` must be a
  /// leaf. `loc` is only used for error messages.
  Value LeafLike(const ValueInfo& leaf, SourceLoc loc = SourceLoc::Current());

  /// Makes `value` an output, which callers can read under `name` after a step. If `value` is a
  /// result that has no name of the user's (see Name), it is renamed to `name`. Otherwise `name`
  /// must be the name of `value`, or new among the names of values and outputs.
  void Output(std::string_view name, Value value,
              SourceLoc loc = SourceLoc::Current());

  /// Renames `value` and returns it. `name` must be new in this graph, unless it is already the
  /// name of `value`. `value` must belong to this builder or be inert.
  Value Name(std::string_view name, Value value,
             SourceLoc loc = SourceLoc::Current());

  /// Appends a node and returns its results. After an error, returns kMaxResults inert values,
  /// which may be more or fewer than the node's results. Models use the functions of ir/ops.h
  /// instead.
  std::vector<Value> Emit(OpKind op, std::span<const Value> inputs, Attrs attrs,
                          SourceLoc loc = SourceLoc::Current());
  /// Appends a node as Emit does, and names its results. `names` must contain one name for each
  /// result, and all names must be new in this graph.
  std::vector<Value> EmitNamed(OpKind op, std::span<const Value> inputs,
                               Attrs attrs, std::span<const std::string> names,
                               SourceLoc loc = SourceLoc::Current());

  /// Sets Node::phase and Node::origin of later nodes. Also sets the source line of later leaves
  /// and results to `source`, even if it is unknown, instead of the line of the call that adds
  /// them. Passes call this function.
  void SetOrigin(Phase phase, std::string_view origin, SourceLoc source = {});
  /// Sets the role of `value`, which must belong to this builder. Does nothing if `value` is inert.
  void SetRole(Value value, Role role);

  /// Reserves `name` for a value that is named later. The builder does not choose the name for
  /// unnamed results.
  void KeepFree(std::string_view name) { kept_free_.emplace(name); }

  /// Records an error with the code kInvalidArgument, unless an earlier error is recorded, and
  /// returns an inert value. Functions that check their own arguments, such as those of nn/, call
  /// it. The file and line of `loc` are appended to the message, unless `loc` is unknown or the
  /// message already ends with a file and line.
  Value Fail(std::string_view message, SourceLoc loc);
  /// Records `error` unchanged, unless an earlier error is recorded, and returns an inert value.
  Value Fail(Error error);

  /// Returns the recorded error, if any.
  const std::optional<Error>& error() const { return error_; }

  /// Returns the properties of `value`, which must belong to this builder and not be inert. Adding
  /// a value invalidates the reference.
  const ValueInfo& info(Value value) const;
  /// Returns the value or output called `name`, as Graph::Find does.
  std::optional<Value> Find(std::string_view name);
  /// Returns the unfinished graph, which is neither legalized nor verified.
  const Graph& graph() const { return graph_; }

  /// Returns the first error, or the graph after Legalize (ir/layout.h) and Verify (ir/verify.h).
  /// The builder must not be used afterwards.
  Result<Graph> Finish();

 private:
  friend class Value;
  Value Leaf(ValueInfo leaf, SourceLoc loc);
  std::vector<Value> EmitImpl(OpKind op, std::span<const Value> inputs,
                              Attrs attrs,
                              std::optional<std::span<const std::string>> names,
                              SourceLoc loc);
  ValueId Add(ValueInfo info);
  SourceLoc SourceOf(SourceLoc call) const { return source_.value_or(call); }
  bool NameIsFree(std::string_view name) const;
  std::string FreshName(std::string_view stem);

  Graph graph_;
  std::optional<Error> error_;
  Phase phase_ = Phase::kForward;
  std::string origin_;
  std::optional<SourceLoc> source_;                    // from SetOrigin
  std::unordered_map<std::string, int64_t> counters_;  // for FreshName
  std::unordered_set<std::string> kept_free_;          // for FreshName
  std::vector<bool> named_;  // per value: named by the user, not by FreshName
};

}  // namespace stowage

#endif  // STOWAGE_IR_BUILDER_H_
