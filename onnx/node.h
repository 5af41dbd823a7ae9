#ifndef STOWAGE_ONNX_NODE_H_
#define STOWAGE_ONNX_NODE_H_

// Represents a node of an ONNX file during its conversion (onnx/ops.h), with access to its
// attributes and operands.
//
//   Result<Values> ConvertGemm(ImportedNode& node) {
//     Value y = MatMul(node.In(0), node.In(1), node.Int("transA", 0) != 0,
//                      node.Int("transB", 0) != 0);
//     return Values{node.Has(2) ? Add(y, node.In(2)) : y};
//   }

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/array.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// The first operator set in which all ops broadcast according to NumPy's rules.
inline constexpr int64_t kUsualOpset = 7;

/// The results of a node in the file's order. Results that the file omits are inert
/// (ir/builder.h): they have no value.
using Values = std::vector<Value>;

/// The meaning of a name in the file: a value, a tensor of the file, or a constant.
struct Operand {
  std::string name = {};
  TensorType type = {};
  /// Set when the operand is added to the graph.
  Value value = {};
  /// The operand's tensor in the file, or null.
  const pb::TensorProto* initializer = nullptr;
  /// The contents, if they are constant and have been requested.
  std::shared_ptr<const Array> contents = {};
  /// Whether the operand is constant over steps, because it does not depend on a param or an input.
  bool fixed = false;
  bool kept = false;  // whether it is a state, which nodes update
  /// The elements of a sequence of tensors, which is not a value of the graph.
  Values parts = {};
  /// For an operand captured by a body, the operand in the enclosing graph.
  Operand* outer = nullptr;
};

class Body;

/// State shared by all nodes of a model.
struct ImportContext {
  GraphBuilder* model = nullptr;
  GraphBuilder* graph = nullptr;  // the current one: the model's, or a body's
  Body* body = nullptr;           // the current body, or null
  SourceLoc source = {};          // of the node in the model's graph
  std::string path;               // of the file
  std::unordered_set<std::string_view> read = {};  // names (ReadIn)
  bool training = false;    // training mode of batch norms and dropouts
  bool evaluation = false;  // batch norms use running statistics
  std::optional<ResizedBatch> resized = {};
  /// The inputs "seed" and "step", i64 scalars, declared by the first random draw.
  Operand seed = {}, step = {};
  int64_t draws = 0;
  int64_t loops_tried_again = 0;  // unrolled after failing as loops
  Bytes folded = 0;               // total size of folded results
};

class ImportedNode {
 public:
  /// An operand that the file omits is null.
  ImportedNode(const pb::NodeProto& node, int64_t version,
               std::vector<Operand*> operands, ImportContext& context);

  GraphBuilder& graph() { return *context_.graph; }
  ImportContext& context() const { return context_; }
  /// Returns the version of the operator set of the file.
  int64_t version() const { return version_; }
  const std::string& op() const { return node_.op_type(); }
  const pb::NodeProto& proto() const { return node_; }

  // --- Operands and results ---

  int num_operands() const { return static_cast<int>(operands_.size()); }
  bool Has(int i) const { return i < num_operands() && operands_[At(i)]; }
  /// Returns operand i as a value of the graph. Inert if there is none, or after an error.
  Value In(int i);
  /// Returns operand i as a state if it is a float tensor of the file that no other node uses as a
  /// param, and otherwise as In does. In training, an operand from outside of the node's body is an
  /// error, which the graph records.
  Value Keep(int i);
  bool IsKept(int i) const;
  /// Returns the type of operand i. Requires `Has(i)`, as do the next three functions.
  const TensorType& Type(int i) const { return operands_[At(i)]->type; }
  const Shape& ShapeOf(int i) const { return Type(i).shape; }
  Operand& OperandAt(int i) const { return *operands_[At(i)]; }
  /// Returns the contents of operand i if they are constant over steps, and otherwise null.
  const Array* Fixed(int i);
  /// Returns the contents of operand i as numbers. Returns kUnsupported if the step computes them.
  /// `what` names them in errors.
  Result<std::vector<int64_t>> Ints(int i, std::string_view what);
  Result<std::vector<double>> Reals(int i, std::string_view what);
  /// Returns operand i as above. If it is omitted, returns the attribute `name`, which older
  /// operator sets have instead, or nullopt if the file has neither.
  Result<std::optional<std::vector<int64_t>>> IntsOrAttribute(
      int i, std::string_view name);
  /// Returns the dimension of `axis`, which counts from the end if negative.
  Result<int64_t> Axis(int64_t axis, int rank) const;

  /// Sets the elements of result 0, which is a sequence.
  void SetParts(Values parts) { parts_ = std::move(parts); }
  const Values& parts() const { return parts_; }

  int num_results() const { return node_.output_size(); }
  /// Returns whether the file names result i and a node reads it. Exporters also name results that
  /// no node reads. For example, PyTorch's exporter names the mask of a dropout.
  bool Wants(int i) const {
    return i < num_results() && !node_.output(i).empty() &&
           context_.read.contains(node_.output(i));
  }

  // --- Attributes (`otherwise` is the default value) ---

  const pb::AttributeProto* Find(std::string_view name) const;
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  std::string Text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> IntList(std::string_view name,
                               std::vector<int64_t> otherwise = {}) const;
  std::vector<double> FloatList(std::string_view name) const;
  std::vector<std::string> TextList(std::string_view name) const;

  /// Returns kUnsupported with the message `[onnx] node "conv1" (Conv) what`.
  Error Unsupported(std::string_view what) const;
  /// Returns kInvalidArgument with the same message.
  Error Wrong(std::string_view what) const;

 private:
  static size_t At(int i) { return static_cast<size_t>(i); }
  Result<const Array*> Known(int i, std::string_view what);
  std::string Place() const;

  const pb::NodeProto& node_;
  int64_t version_;
  std::vector<Operand*> operands_;
  ImportContext& context_;
  Values parts_;
};

/// Returns the contents of an operand, which are read from the file on first use. Null if the step
/// computes them.
Result<const Array*> ContentsOf(Operand& operand, const std::string& path);

/// Returns the operand as a value of the graph. If it is not in the graph yet, adds a param for a
/// float tensor of the file, and otherwise a constant. Inert after an error, which the graph
/// records.
Value ValueOf(Operand& operand, ImportContext& context);

/// Returns the operand for an alias of its name. A param is first declared under its own name.
Operand Passed(Operand& operand, ImportContext& context);

/// A subgraph during its conversion. It has a graph builder, which receives the nodes that are
/// converted while the body is entered, and a list of the outside operands that the subgraph reads.
///
/// An ONNX subgraph may read any visible name, while a body of this IR has explicit operands
/// (ir/bodies.h). A name from outside is captured as an operand of the body. The operand becomes a
/// leaf (an input of the body) when the body computes with it, but not if only its type or its
/// constant contents are used. A name from an outer graph is captured by all bodies in between.
///
///   Body body("loop", context);     // enters the body
///   Operand* x = body.Capture(outside);
///   ...                             // ValueOf(*x, context) declares a leaf
///   body.Leave();                   // returns to the enclosing graph
///   for (const auto& [leaf, outer] : body.reads()) ...  // operands of the node
class Body {
 public:
  struct Read {
    Value leaf;      // of this body
    Operand* outer;  // of the enclosing graph
  };

  /// Enters the body. `context` must outlive this object.
  Body(const std::string& name, ImportContext& context);
  /// Leaves the body if it has not been left.
  ~Body() { Leave(); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  /// Returns to the enclosing graph.
  void Leave();

  GraphBuilder& graph() { return graph_; }

  /// Adds a leaf that the node supplies, called `name` if this name is free.
  Value Leaf(const std::string& name, const TensorType& type);

  /// Gives `name` to a value of the body, if the name is free and the value has no name.
  void Name(const std::string& name, Value value);

  /// Returns the body's operand for an operand of the enclosing graph. Repeated calls return the
  /// same operand, which lives as long as the body.
  Operand* Capture(Operand* outer);
  /// Captures an operand of the model's graph in all enclosing bodies and in this body.
  Operand* CaptureOfModel(Operand* operand);
  /// Returns the leaf for a captured operand, and adds it on first use.
  Value LeafFor(const Operand& captured);
  /// Returns the leaves of captured operands, in the order of first use.
  const std::vector<Read>& reads() const { return reads_; }

  /// Marks this as the body of a loop. `iteration` is the iteration number, an i64 scalar.
  void SetIteration(Value iteration, int64_t iterations);
  /// Returns the step number for random draws in this body, which is unique per step and iteration.
  Value StepOfDraws(Operand* step_of_model);

 private:
  ImportContext& context_;
  GraphBuilder graph_;
  GraphBuilder* const outer_graph_;
  Body* const outer_;  // null in the model's own graph
  bool inside_ = true;
  std::deque<Operand> operands_;
  std::unordered_map<const Operand*, Operand*> captured_;  // by outer operand
  std::unordered_map<const Operand*, Value> leaves_;       // by outer operand
  std::vector<Read> reads_;
  std::unordered_set<ValueId> named_;
  Value iteration_;
  int64_t iterations_ = 1;
  Operand* step_ = nullptr;
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_NODE_H_
