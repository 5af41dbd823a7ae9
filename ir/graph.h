#ifndef STOWAGE_IR_GRAPH_H_
#define STOWAGE_IR_GRAPH_H_

// Defines Graph, the intermediate representation of models and training steps: an immutable,
// verified list of nodes and their values.
//
// A *value* is a tensor with a type and a unique name. A leaf value (param, input, saved, state,
// cache) has no producer. Every other value is a result of exactly one *node*, an instance of an
// op. Nodes are in execution order, producers before readers, so the index of a node in nodes() is
// its *time*. A view is a value that owns no bytes (ir/layout.h).
//
// An update node writes in place: its result is the new content of an operand and has the same
// bytes. The operand is a param, a state, a cache, a result of `reload`, `fill` or `own_block`, or
// the updated content of one of these. No later node may read the old content.
//
// Params, states and results of `offload` may be in host memory, outside the arena. Only `reload`
// and `offload_update` read such values. Other ops read a reloaded copy.
//
// GraphBuilder (ir/builder.h), passes, ParseGraph (ir/text.h) and GraphFromBytes (ir/graph_bytes.h)
// create graphs. All of them verify the result. Every Graph is therefore well-formed, and the
// kernels of its nodes accept the strides of their operands. Ids are indices and may change when a
// pass rewrites a graph. Code that must survive such a pass refers to values by name.
//
// Control-flow nodes contain graphs (ir/bodies.h).
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

/// A line of the user's source, which error messages state. Every value stores the line that added
/// it, so that reports can attribute memory to the lines of a model.
///
///   Value Linear(Value x, SourceLoc loc = SourceLoc::Current());
struct SourceLoc {
  const char* file = "";
  int line = 0;  // counts from 1; 0 means unknown

  bool is_known() const { return line > 0; }

  static constexpr SourceLoc Current(const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Returns a SourceLoc with a copy of `file`, for file names whose storage is temporary, such as
/// parsed ones. Each distinct file name is copied once and is kept until the process ends. If
/// `line` is below 1, the result is an unknown location.
SourceLoc KeptSourceLoc(std::string_view file, int line);

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

/// The purpose of a value.
///
/// Leaves have one of these roles:
/// - kParam: a trained value, which persists between steps.
/// - kInput: a value that the caller writes before a step.
/// - kSaved: a forward value that a backward graph reads.
/// - kState: optimizer state, which persists between steps.
/// - kCache: a value that is kept from one run of a program to the next, such as the keys and
///   values of decoding. Like an input, it is lost when another program runs.
///
/// Results have one of these roles, except that the result of an update has the role of the leaf
/// that it updates:
/// - kConstant: a result of `constant`.
/// - kGradient: a gradient.
/// - kActivation: any other value that is only live within the step.
/// - kOutput: an activation that callers can read after the step.
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

/// The initial content of a param or state. `scale` must be finite and at least 0. The random kinds
/// (kNormal, kUniform, kTruncatedNormal and kOrthogonal) require a float type. Finish() of the
/// builder returns an error otherwise.
struct Init {
  enum class Kind : uint8_t {
    kZeros,
    kOnes,
    kNormal,           // mean 0, standard deviation `scale`
    kUniform,          // uniform in [-scale, scale)
    kTruncatedNormal,  // kNormal, redrawn beyond two standard deviations
    kOrthogonal,       // see Orthogonal()
    kConstant,         // all elements are `scale`
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
  /// Fills a matrix with orthogonal rows of length `gain`, or with orthogonal columns of this
  /// length if it has fewer columns than rows (Saxe et al. 2014). The size of the first dimension
  /// is the number of rows. The product of the other sizes is the number of columns. Requires at
  /// least two dimensions. The time is quadratic in the smaller of these two numbers.
  static Init Orthogonal(double gain = 1) { return {Kind::kOrthogonal, gain}; }
  /// Sets all elements to `value`, which must not be negative.
  static Init Constant(double value) { return {Kind::kConstant, value}; }
  friend bool operator==(const Init&, const Init&) = default;
};

struct ValueInfo {
  std::string name;
  TensorType type;
  Role role = Role::kActivation;
  NodeId producer = kNoNode;
  int result = 0;         // index among the producer's results
  Init init = {};         // for params and states
  bool on_host = false;   // in host memory, outside the arena
  SourceLoc source = {};  // the line of source that added the value

  bool is_leaf() const { return producer == kNoNode; }
};

/// The phase of a training step to which a node belongs.
enum class Phase : uint8_t { kForward, kBackward, kUpdate };
std::string_view PhaseName(Phase phase);

struct Node {
  OpKind op = OpKind::kCopy;
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> results = {};
  Attrs attrs = {};
  Phase phase = Phase::kForward;
  /// The name of the forward value to which a backward or update node belongs, such as "fc2". Empty
  /// in forward graphs.
  std::string origin = {};
};

/// A value that callers may read by name after a step.
struct GraphOutput {
  std::string name;
  ValueId value = 0;
};

/// A graph. Copies share their contents until one of them is changed, so copying needs constant
/// time and memory. A moved-from graph may only be assigned to or destroyed.
class Graph {
 public:
  Graph();  // with an empty name and no values

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

  /// Returns the value called `name`. If no value has this name, returns the value of the output
  /// called `name`, or nullopt if no output has it either.
  std::optional<ValueId> Find(std::string_view name) const;

  /// Returns the leaves of one role, in the order in which they were declared.
  std::vector<ValueId> Leaves(Role role) const;

  /// Sets the source line of a value. Equal ignores it.
  void SetSource(ValueId id, SourceLoc source) {
    Own().values[static_cast<size_t>(id)].source = source;
  }

  /// Returns a description for reports: `"fc2"` for a forward node, `backward of "fc2"`, or
  /// `update of "fc2.w"`.
  std::string Describe(NodeId id) const;

 private:
  friend class GraphBuilder;
  friend Graph Legalize(Graph graph);
  friend Result<Graph> GraphFromBytes(std::string_view bytes, int depth);
  friend struct GraphTestPeer;  // tests/support: damages graphs to test Verify
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

  // Returns the contents for modification, after copying them if they are shared.
  Parts& Own();

  std::shared_ptr<Parts> parts_;
};

Graph Legalize(Graph graph);  // ir/layout.h

/// Returns whether two graphs have the same values, nodes, names, attributes and order. Source
/// lines are ignored.
bool Equal(const Graph& a, const Graph& b);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_H_
