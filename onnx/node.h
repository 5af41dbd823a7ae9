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

/// The results of a node in the file's order. Results that are not computed are inert
/// (ir/builder.h), which means that they are not values of a graph.
using Values = std::vector<Value>;

/// What a name in the file refers to, which is a value, a tensor of the file, or a constant.
struct Operand {
  std::string name = {};
  TensorType type = {};
  /// The operand in the graph. Inert until the operand is added to the graph.
  Value value = {};
  /// The operand's tensor in the file, or null.
  const pb::TensorProto* initializer = nullptr;
  /// The contents, or null. Contents of a tensor of the file are set when they are first read.
  std::shared_ptr<const Array> contents = {};
  /// Whether the operand is constant over steps, because it does not depend on a param or an input.
  bool fixed = false;
  bool kept = false;  // whether it is a state, which nodes update
  /// If the operand is a sequence of tensors, which is not a value of the graph, its elements.
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
  /// The inputs "seed" and "step" of the model's graph, which are i64 scalars. The first random
  /// draw declares them (NextDraws in onnx/ops.h).
  Operand seed = {}, step = {};
  int64_t draws = 0;              // number of random draws so far
  int64_t loops_tried_again = 0;  // unrolled after failing as loops
  Bytes folded = 0;               // total size of folded results
};

class ImportedNode {
 public:
  /// Operands that the file omits are null in `operands`. The references must outlive this object.
  ImportedNode(const pb::NodeProto& node, int64_t version,
               std::vector<Operand*> operands, ImportContext& context);

  GraphBuilder& graph() { return *context_.graph; }
  ImportContext& context() const { return context_; }
  /// Returns the version of ONNX's operator set for this node, which is the version of the file or
  /// of the function that contains the node.
  int64_t version() const { return version_; }
  const std::string& op() const { return node_.op_type(); }
  const pb::NodeProto& proto() const { return node_; }

  // --- Operands and results ---

  int num_operands() const { return static_cast<int>(operands_.size()); }
  bool Has(int i) const { return i < num_operands() && operands_[At(i)]; }
  /// Returns operand i as a value of the graph (ValueOf), or an inert value if it is omitted.
  Value In(int i);
  /// Returns operand i as a state if it is a weight of the file that is not in the graph yet, or
  /// already is a state. Otherwise returns the same as In. In training, a weight from outside of
  /// the node's body is an error, which the graph records.
  Value Keep(int i);
  bool IsKept(int i) const;
  /// Returns the type of operand i. This function and the next two require `Has(i)`.
  const TensorType& Type(int i) const { return operands_[At(i)]->type; }
  const Shape& ShapeOf(int i) const { return Type(i).shape; }
  Operand& OperandAt(int i) const { return *operands_[At(i)]; }
  /// Returns the contents of operand i, or null if it is omitted, is not constant over steps or
  /// cannot be read.
  const Array* Fixed(int i);
  /// Returns the contents of operand i as numbers. `what` describes the operand in errors. Returns
  /// kInvalidArgument if the operand is omitted, and kUnsupported if the step computes it.
  /// Propagates errors of ReadTensor (onnx/tensor.h).
  Result<std::vector<int64_t>> Ints(int i, std::string_view what);
  Result<std::vector<double>> Reals(int i, std::string_view what);
  /// Returns Ints(i, name) if operand i exists. Otherwise returns the attribute `name`, which older
  /// operator sets have instead of the operand, or nullopt if there is no such attribute.
  Result<std::optional<std::vector<int64_t>>> IntsOrAttribute(
      int i, std::string_view name);
  /// Returns the dimension that `axis` denotes. A negative axis counts from the end. Returns
  /// kInvalidArgument unless -rank <= axis < rank.
  Result<int64_t> Axis(int64_t axis, int rank) const;

  /// Makes result 0 a sequence with these elements.
  void SetParts(Values parts) { parts_ = std::move(parts); }
  const Values& parts() const { return parts_; }

  int num_results() const { return node_.output_size(); }
  /// Returns whether result i has a name in the file and a node or an output of a graph reads it.
  /// Exporters also name results that are not read, such as the mask of a dropout (PyTorch).
  bool Wants(int i) const {
    return i < num_results() && !node_.output(i).empty() &&
           context_.read.contains(node_.output(i));
  }

  // --- Attributes (`otherwise` is the result if the node has no such attribute) ---

  const pb::AttributeProto* Find(std::string_view name) const;
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  std::string Text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> IntList(std::string_view name,
                               std::vector<int64_t> otherwise = {}) const;
  std::vector<double> FloatList(std::string_view name) const;
  std::vector<std::string> TextList(std::string_view name) const;

  /// Returns kUnsupported with a message such as `[onnx] node "conv1" (Conv) ` followed by `what`.
  /// A node without a name is called by the name of its first result.
  Error Unsupported(std::string_view what) const;
  /// Returns kInvalidArgument with the same message as Unsupported.
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

/// Returns the contents of an operand, or null if the step computes them. The contents of a tensor
/// are read from the file `path` on first use. For a weight, they are its values in the file.
/// Propagates errors of ReadTensor (onnx/tensor.h).
Result<const Array*> ContentsOf(Operand& operand, const std::string& path);

/// Returns the operand as a value of the current graph. If the operand is not in the graph yet,
/// adds a leaf for an operand that a body has captured, a param for a weight of the file, and
/// otherwise a constant. After an error, which the graph records, the value is inert.
Value ValueOf(Operand& operand, ImportContext& context);

/// Returns a copy of the operand, which can be given another name. Before that, adds the operand to
/// the graph if it is not constant, so that a param has its own name.
Operand Passed(Operand& operand, ImportContext& context);

/// A subgraph during its conversion. A body is entered by its constructor and left by Leave. Nodes
/// that are converted in between are added to the body's graph builder. The body also lists the
/// operands from outside that the subgraph reads.
///
/// An ONNX subgraph may read any visible name, but a body of a loop or cond in a graph
/// (ir/bodies.h) has explicit operands. The body captures each name from outside as an operand of
/// its own. The operand becomes a leaf (an input of the body) when a node of the body reads it, but
/// not if only its type or its constant contents are used. Bodies between the graph that defines
/// the name and this body capture it, too.
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

  /// Enters the body, which becomes the current one of `context`. `context` must outlive this
  /// object.
  Body(const std::string& name, ImportContext& context);
  /// Leaves the body if it has not been left.
  ~Body() { Leave(); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  /// Makes the enclosing graph the current one again. Has no effect if the body has been left.
  void Leave();

  GraphBuilder& graph() { return graph_; }

  /// Adds a leaf of this type. Its name is `name`, or "x" if `name` is empty, with a number such as
  /// ".2" if that name is in use.
  Value Leaf(const std::string& name, const TensorType& type);

  /// Names a value of the body, unless the value is a leaf or already has a name, or the name is in
  /// use.
  void Name(const std::string& name, Value value);

  /// Returns this body's operand for `outer`, an operand of the enclosing graph. Repeated calls
  /// return the same pointer, which is valid as long as the body exists.
  Operand* Capture(Operand* outer);
  /// Captures an operand of the model's graph in all enclosing bodies and in this body, and returns
  /// this body's operand.
  Operand* CaptureOfModel(Operand* operand);
  /// Returns the leaf for `captured`, a result of Capture. The first call adds the leaf.
  Value LeafFor(const Operand& captured);
  /// Returns the leaves that LeafFor has added, in this order.
  const std::vector<Read>& reads() const { return reads_; }

  /// States that this is the body of a loop of `iterations` iterations. `iteration` is the number
  /// of the current iteration, an i64 scalar of the body.
  void SetIteration(Value iteration, int64_t iterations);
  /// Returns the number that random draws in this body use as the step number. It differs between
  /// all steps and all iterations of the enclosing loops.
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
