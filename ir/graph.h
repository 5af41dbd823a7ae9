#ifndef STOWAGE_IR_GRAPH_H_
#define STOWAGE_IR_GRAPH_H_

// The IR: an immutable, verified list of nodes over values.
//
// A *value* is an edge: a typed tensor with a unique name. A leaf value (param, input,
// saved, state, cache) has no producer; every other value is a result of exactly one
// *node*, an instance of an op. Nodes are in execution order, inputs before uses, so the
// position of a node in nodes() is its *time*. A view is a value that owns no bytes
// (ir/layout.h). Update nodes write in place: the result is the new content of a param, a
// state, a cache or a reloaded value, and no later node may read the old one.
//
// A param, a state or the result of `offload` may be in host memory, outside the arena.
// Only `reload` and `offload_update` read such values; other ops read a reloaded copy.
//
// Graphs are made by GraphBuilder (ir/builder.h), by passes, by ParseGraph (ir/text.h) and
// by GraphFromBytes (ir/graph_bytes.h). Each verifies its result, so every Graph is well
// formed and its kernels accept the strides of their operands. Ids are positions and may
// change when a pass rewrites a graph; code outside a graph addresses values by name.
//
// Control-flow nodes hold graphs (ir/bodies.h).
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
#include "ir/tensor_type.h"

namespace stowage {

/// A place in the user's source. Errors name it, and every value keeps it, so that a report
/// can attribute memory to the lines of the model.
///
///   Value Linear(Value x, SourceLoc loc = SourceLoc::Current());
struct SourceLoc {
  const char* file = "";
  int line = 0;  // from 1; 0: no place

  bool is_known() const { return line > 0; }

  static constexpr SourceLoc Current(const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// A SourceLoc that was read from a file; unknown if the line is below 1. Each file
/// name is kept once, until the process ends.
SourceLoc KeptSourceLoc(std::string_view file, int line);

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

/// The purpose of a value. Leaves: kParam (trained, persists), kInput (written by the
/// caller before a step), kSaved (a forward value that a backward graph reads), kState
/// (optimizer state, persists), kCache (kept from one run of a program to the next, such as
/// the keys and values of decoding; lost, like inputs, when another program runs). Results:
/// kConstant (of `constant`), kGradient, kActivation, kOutput (an activation that outlives
/// the step).
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
    kTruncatedNormal,  // kNormal, redrawn beyond two standard deviations
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
  /// For at least two dimensions, the first as rows and the others as columns: the rows, or the
  /// columns if these are fewer, are orthogonal and of length `gain` (Saxe et al. 2014).
  /// Quadratic in the smaller number.
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
  SourceLoc source = {};  // the line of the user's source that made it

  bool is_leaf() const { return producer == kNoNode; }
};

/// The part of a training step to which a node belongs.
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

/// Copies share their contents until one of them is changed, so that copying takes constant
/// time and memory. A moved-from graph may only be assigned to or destroyed.
class Graph {
 public:
  Graph();  // without name and values

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

  /// Sets where a value comes from in the user's source. Equal ignores it.
  void SetSource(ValueId id, SourceLoc source) {
    Own().values[static_cast<size_t>(id)].source = source;
  }

  /// A description for reports: `"fc2"` (forward), `backward of "fc2"`, `update of "fc2.w"`.
  std::string Describe(NodeId id) const;

 private:
  friend class GraphBuilder;
  friend Graph Legalize(Graph graph);
  friend Result<Graph> GraphFromBytes(std::string_view bytes, int depth);
  friend struct GraphTestPeer;  // tests/support: breaks graphs to test Verify
  struct NameHash {
    using is_transparent = void;  // looks up a string_view without a copy
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

  // The contents, no longer shared, for changing them.
  Parts& Own();

  std::shared_ptr<Parts> parts_;
};

Graph Legalize(Graph graph);  // ir/layout.h

/// Whether two graphs have the same values, nodes, names, attributes and order; source
/// lines are ignored.
bool Equal(const Graph& a, const Graph& b);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_H_
