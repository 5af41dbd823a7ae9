#ifndef STOWAGE_IR_GRAPH_H_
#define STOWAGE_IR_GRAPH_H_

// The IR: an immutable, verified list of nodes over values.
//
// A *value* is an edge: a typed tensor with a unique name. A leaf value (param,
// input, saved, state, cache) has no producer; every other value is a result of
// exactly one *node*, one op instance. Nodes stand in execution order, inputs
// before uses, so the position of a node in nodes() is its *time*. A view is a
// value that owns no bytes (ir/layout.h says where it lies). Update nodes write
// in place: the result is the new content of a param, a state, a cache or a
// reloaded value, and no later node may read the old one.
//
// A param, a state, or the result of `offload` may lie in the host's memory, outside the
// arena. Only `reload` and `offload_update` read such values: whoever computes with
// one reloads it first.
//
// Graphs are made by GraphBuilder (ir/builder.h), by passes, by ParseGraph
// (ir/text.h) or by GraphFromBytes (ir/graph_bytes.h); each verifies what it
// makes, so a Graph in hand is well formed and every kernel can take the strides
// it will see. Ids are positions and may
// change when a pass rewrites a graph: from outside, name values by their
// names.
//
// Nodes of control flow hold graphs of their own (ir/bodies.h).
//
//   ValueId loss = *graph.Find("loss");
//   graph.value(loss).type.shape;  graph.value(loss).producer;

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/shape.h"
#include "ir/source_loc.h"

namespace stowage {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

/// What a value is for. Leaves: kParam (trained, persists), kInput (the caller
/// writes it before a step), kSaved (a forward value that a backward graph
/// reads), kState (optimizer memory, persists), kCache (what runs of a program
/// leave to its next ones, as the keys and values of a text that is read token by
/// token; lost, as inputs are, when a program without it is used). Results:
/// kConstant (of `constant`), kGradient, kActivation, kOutput (an activation that
/// outlives the step).
enum class Role : uint8_t {
  kParam,
  kInput,
  kSaved,
  kState,
  kCache,
  kConstant,
  kActivation,
  kGradient,
  kOutput,
};
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

/// How a param or state is filled before the first step.
struct Init {
  enum class Kind : uint8_t {
    kZeros,
    kOnes,
    kNormal,           // of the standard deviation `scale`
    kUniform,          // in [-scale, scale)
    kTruncatedNormal,  // kNormal, drawn again beyond two standard deviations
    kOrthogonal,       // see Orthogonal
    kConstant,         // `scale` everywhere
  };
  Kind kind = Kind::kZeros;
  double scale = 0;

  static Init Zeros() { return {Kind::kZeros, 0}; }
  static Init Ones() { return {Kind::kOnes, 0}; }
  static Init Normal(double stddev) { return {Kind::kNormal, stddev}; }
  static Init Uniform(double bound) { return {Kind::kUniform, bound}; }
  static Init TruncatedNormal(double stddev) {
    return {Kind::kTruncatedNormal, stddev};
  }
  /// For at least two dimensions, the first as rows and the others as columns: the
  /// rows, or the columns where these are fewer, are at right angles and `gain` long
  /// (Saxe et al. 2014). Takes time with the square of the fewer.
  static Init Orthogonal(double gain = 1) { return {Kind::kOrthogonal, gain}; }
  static Init Constant(double value) { return {Kind::kConstant, value}; }
  friend bool operator==(const Init&, const Init&) = default;
};

struct ValueInfo {
  std::string name;
  TensorType type;
  Role role = Role::kActivation;
  NodeId producer = kNoNode;
  int result = 0;         // which result of the producer
  Init init = {};         // params and states
  bool on_host = false;   // in the host's memory, outside the arena
  SourceLoc source = {};  // the user's line that made it, or what it is for

  bool is_leaf() const { return producer == kNoNode; }
};

/// Which part of a training step a node belongs to.
enum class Phase : uint8_t { kForward, kBackward, kUpdate };
std::string_view PhaseName(Phase phase);

struct Node {
  OpKind op = OpKind::kCopy;
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> results = {};
  Attrs attrs = {};
  Phase phase = Phase::kForward;
  /// The forward value that a backward or update node exists for; "" in forward
  /// graphs. `backward of "fc2"`.
  std::string origin = {};
};

/// A value that callers may read after a step, by name.
struct GraphOutput {
  std::string name;
  ValueId value = 0;
};

/// Copies share what they hold, until one of them is changed: to copy a graph takes no
/// time and no memory. One that was moved from may only be assigned to or destroyed.
class Graph {
 public:
  Graph();  // of no name and no values

  const std::string& name() const { return parts_->name; }
  std::span<const ValueInfo> values() const { return parts_->values; }
  std::span<const Node> nodes() const { return parts_->nodes; }
  std::span<const GraphOutput> outputs() const { return parts_->outputs; }

  const ValueInfo& value(ValueId id) const {
    return parts_->values[static_cast<size_t>(id)];
  }
  const Node& node(NodeId id) const {
    return parts_->nodes[static_cast<size_t>(id)];
  }
  int num_values() const { return static_cast<int>(parts_->values.size()); }
  int num_nodes() const { return static_cast<int>(parts_->nodes.size()); }

  /// The value called `name` or, failing that, the output called `name`.
  std::optional<ValueId> Find(std::string_view name) const;

  /// Leaves of one role, in the order they were declared.
  std::vector<ValueId> Leaves(Role role) const;

  /// Where a value comes from, for people: it changes nothing that the graph
  /// means, nor Equal.
  void SetSource(ValueId id, SourceLoc source) {
    Own().values[static_cast<size_t>(id)].source = source;
  }

  /// For people: `"fc2"` (forward), `backward of "fc2"`, `update of "fc2.w"`.
  std::string Describe(NodeId id) const;

 private:
  friend class GraphBuilder;
  friend Graph Legalize(Graph graph);
  friend Result<Graph> GraphFromBytes(std::string_view bytes, int depth);
  friend struct GraphTestPeer;  // tests/support: breaks graphs to test Verify
  struct NameHash {
    using is_transparent = void;  // finds a view without making a string
    size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };

  struct Parts {
    std::string name;
    std::vector<ValueInfo> values;
    std::vector<Node> nodes;
    std::vector<GraphOutput> outputs;
    std::unordered_map<std::string, ValueId, NameHash, std::equal_to<>> by_name;
  };

  // To change: no other graph's from here on.
  Parts& Own();

  std::shared_ptr<Parts> parts_;
};

Graph Legalize(Graph graph);  // ir/legalize.h

/// Whether two graphs are the same, values, nodes, names, attributes and order;
/// source lines aside.
bool Equal(const Graph& a, const Graph& b);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_H_
