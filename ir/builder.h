#ifndef STOWAGE_IR_BUILDER_H_
#define STOWAGE_IR_BUILDER_H_

// Builds graphs. Ops are free functions over Value handles (ir/ops.h); nothing
// throws. The first bad op poisons the builder: its result and everything built
// on it are inert, and Finish() returns that first error with the user's file
// and line.
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

/// A handle to a value under construction; copy it freely. Valid while its
/// builder lives. After an error, handles are inert and may still be passed on.
class Value {
 public:
  Value() = default;

  bool ok() const { return id_ >= 0; }
  GraphBuilder* builder() const { return builder_; }
  /// Precondition: ok().
  ValueId id() const;
  // f32() for an inert value, so that model code that reads shapes continues until Finish()
  // reports the error. Returned by value: a reference would be invalidated by the builder's
  // next value, as in BroadcastTo(ReduceMean(x), x.shape()).
  TensorType type() const;
  Shape shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
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
  GraphBuilder(const GraphBuilder&) = delete;  // Values point at their builder
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Leaves. Names must be new in this graph; dimensions must be at least 1.
  Value Param(std::string_view name, DType dtype, const Shape& shape,
              Init init = Init::Zeros(), SourceLoc loc = SourceLoc::Current());
  Value Input(std::string_view name, DType dtype, const Shape& shape,
              SourceLoc loc = SourceLoc::Current());
  Value State(std::string_view name, DType dtype, const Shape& shape,
              Init init = Init::Zeros(), SourceLoc loc = SourceLoc::Current());
  Value Saved(std::string_view name, DType dtype, const Shape& shape,
              SourceLoc loc = SourceLoc::Current());
  /// Kept from run to run; zeros at first (Runner::ClearCaches).
  Value Cache(std::string_view name, DType dtype, const Shape& shape,
              SourceLoc loc = SourceLoc::Current());
  /// A state in host memory.
  Value HostState(std::string_view name, DType dtype, const Shape& shape,
                  Init init = Init::Zeros(),
                  SourceLoc loc = SourceLoc::Current());
  /// A copy of another graph's leaf.
  Value LeafLike(const ValueInfo& leaf, SourceLoc loc = SourceLoc::Current());

  /// Marks `value` as readable after a step, under `name`, which becomes the
  /// value's own name if the user has given it none. Otherwise the name must be
  /// the value's or new among values and outputs.
  void Output(std::string_view name, Value value,
              SourceLoc loc = SourceLoc::Current());

  /// Renames `value` and returns it. Callers of a step address values by name.
  Value Name(std::string_view name, Value value,
             SourceLoc loc = SourceLoc::Current());

  /// Appends a node and returns its results, all inert after an error. Models use the free
  /// functions of ir/ops.h.
  std::vector<Value> Emit(OpKind op, std::span<const Value> inputs, Attrs attrs,
                          SourceLoc loc = SourceLoc::Current());
  /// Emit, with a name for every result instead of fresh ones; as many names as
  /// the op has results, all new in this graph.
  std::vector<Value> EmitNamed(OpKind op, std::span<const Value> inputs,
                               Attrs attrs, std::span<const std::string> names,
                               SourceLoc loc = SourceLoc::Current());

  /// Sets Node::phase and Node::origin of later nodes and, if known, the source line of later
  /// nodes and leaves, in place of that of each call. For passes.
  void SetOrigin(Phase phase, std::string_view origin, SourceLoc source = {});
  void SetRole(Value value, Role role);

  /// Reserves `name` for a later value: the builder does not choose it.
  void KeepFree(std::string_view name) { kept_free_.emplace(name); }

  /// Records an error if none is recorded yet; returns an inert value. For
  /// functions over the IR (nn/) that check their own arguments. A SourceLoc{}
  /// adds no place to the message.
  Value Fail(std::string_view message, SourceLoc loc);
  Value Fail(Error error);

  /// The recorded error, if any.
  const std::optional<Error>& error() const { return error_; }

  const ValueInfo& info(Value value) const;
  std::optional<Value> Find(std::string_view name);
  const Graph& graph() const { return graph_; }

  /// Ends the building: the first error, or the verified, legal graph. The
  /// builder must not be used afterwards.
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
  std::optional<SourceLoc> source_;                    // of SetOrigin
  std::unordered_map<std::string, int64_t> counters_;  // for FreshName
  std::unordered_set<std::string> kept_free_;          // for FreshName
  std::vector<bool> named_;  // per value: named by the user, not by FreshName
};

}  // namespace stowage

#endif  // STOWAGE_IR_BUILDER_H_
