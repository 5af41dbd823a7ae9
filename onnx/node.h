#ifndef STOWAGE_ONNX_NODE_H_
#define STOWAGE_ONNX_NODE_H_

// A node of an ONNX file during its conversion (onnx/ops.h): access to its attributes and
// operands.
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

/// The first operator set in which all ops broadcast by NumPy's rules.
inline constexpr int64_t kUsualOpset = 7;

/// The results of a node, in the file's order; inert if the file omits one.
using Values = std::vector<Value>;

/// The meaning of a name in the file.
struct Operand {
  std::string name = {};
  TensorType type = {};
  /// Set once it is in the graph.
  Value value = {};
  /// Its tensor in the file, if any.
  const pb::TensorProto* initializer = nullptr;
  /// Its contents, if they are constant and were requested.
  std::shared_ptr<const Array> contents = {};
  /// True if it is constant over steps: it depends on no param or input.
  bool fixed = false;
  bool kept = false;  // a state, which nodes update
  /// The elements of a sequence of tensors, which is not a value of the graph.
  Values parts = {};
  /// For a captured operand of a body, the operand of the enclosing graph.
  Operand* outer = nullptr;
};

class Body;

/// State that all nodes of a model share.
struct ImportContext {
  GraphBuilder* model = nullptr;
  GraphBuilder* graph = nullptr;  // the current one: the model's, or a body's
  Body* body = nullptr;           // the current body, if any
  SourceLoc source = {};          // of the node of the model's graph
  std::string path;               // of the file
  std::unordered_set<std::string_view> read = {};  // names (ReadIn)
  bool training = false;    // of batch norms and dropouts
  bool evaluation = false;  // batch norms use running statistics
  std::optional<ResizedBatch> resized = {};
  /// Inputs "seed" and "step", i64 scalars, declared by the first random draw.
  Operand seed = {}, step = {};
  int64_t draws = 0;
  int64_t loops_tried_again = 0;  // unrolled after failing as loops
  Bytes folded = 0;               // size of folded results
};

class ImportedNode {
 public:
  /// An operand is null if the file omits it.
  ImportedNode(const pb::NodeProto& node, int64_t version,
               std::vector<Operand*> operands, ImportContext& context);

  GraphBuilder& graph() { return *context_.graph; }
  ImportContext& context() const { return context_; }
  /// The operator set of the file.
  int64_t version() const { return version_; }
  const std::string& op() const { return node_.op_type(); }
  const pb::NodeProto& proto() const { return node_; }

  // --- Operands and results ---

  int num_operands() const { return static_cast<int>(operands_.size()); }
  bool Has(int i) const { return i < num_operands() && operands_[At(i)]; }
  /// Operand i as a value of the graph; inert if there is none, or after an error.
  Value In(int i);
  /// Operand i as a state, if it is a float tensor of the file that no other node uses as a
  /// param; else as In. Error, recorded in the graph: in training, one from outside of the
  /// node's body.
  Value Keep(int i);
  bool IsKept(int i) const;
  /// The type of operand i. Precondition of this and the next three: Has(i).
  const TensorType& Type(int i) const { return operands_[At(i)]->type; }
  const Shape& ShapeOf(int i) const { return Type(i).shape; }
  Operand& OperandAt(int i) const { return *operands_[At(i)]; }
  /// The contents, if constant over steps; else null.
  const Array* Fixed(int i);
  /// The contents as numbers. Error: they are computed by the step.
  Result<std::vector<int64_t>> Ints(int i, std::string_view what);
  Result<std::vector<double>> Reals(int i, std::string_view what);
  /// As above, for a list that older operator sets have as an attribute of that name; absent
  /// if the file has neither.
  Result<std::optional<std::vector<int64_t>>> IntsOrAttribute(
      int i, std::string_view name);
  /// The dimension of an axis, which counts from the end if negative.
  Result<int64_t> Axis(int64_t axis, int rank) const;

  /// Sets the elements of result 0, a sequence.
  void SetParts(Values parts) { parts_ = std::move(parts); }
  const Values& parts() const { return parts_; }

  int num_results() const { return node_.output_size(); }
  /// Returns whether the file names result i and reads it. Exporters name results that
  /// nothing reads, as PyTorch's does a dropout's mask.
  bool Wants(int i) const {
    return i < num_results() && !node_.output(i).empty() &&
           context_.read.contains(node_.output(i));
  }

  // --- Attributes; `otherwise` is the default ---

  const pb::AttributeProto* Find(std::string_view name) const;
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  std::string Text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> IntList(std::string_view name,
                               std::vector<int64_t> otherwise = {}) const;
  std::vector<double> FloatList(std::string_view name) const;
  std::vector<std::string> TextList(std::string_view name) const;

  /// `[onnx] node "conv1" (Conv) what`, kUnsupported.
  Error Unsupported(std::string_view what) const;
  /// As above, kInvalidArgument.
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

/// The contents of an operand, read from the file on first use; null if they are computed by
/// the step.
Result<const Array*> ContentsOf(Operand& operand, const std::string& path);

/// The operand as a value of the graph: the existing one, a new param for a float tensor of
/// the file, else a new constant. Inert after an error, which the graph records.
Value ValueOf(Operand& operand, ImportContext& context);

/// The operand for an alias of its name. A param is declared once, under its own name.
Operand Passed(Operand& operand, ImportContext& context);

/// A subgraph during its conversion: a builder, which receives nodes while the body is
/// entered, and the outside operands that it reads.
///
/// An ONNX subgraph may read any visible name; a body of this IR has explicit operands
/// (ir/bodies.h). A name from outside is captured as an operand of the body, which becomes a
/// leaf when the body computes with it, but not when only its type or constant contents are
/// used. Names from further out are captured by all bodies between.
///
///   Body body("loop", context);     // enters it
///   Operand* x = body.Capture(outside);
///   ...                             // ValueOf(*x, context) declares a leaf
///   body.Leave();                   // back to the enclosing graph
///   for (const auto& [leaf, outer] : body.reads()) ...  // operands of the node
class Body {
 public:
  struct Read {
    Value leaf;      // of this body
    Operand* outer;  // of the enclosing graph
  };

  /// Enters the body. `context` must outlive this object.
  Body(const std::string& name, ImportContext& context);
  /// Leaves it, if that has not been done.
  ~Body() { Leave(); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  /// Returns to the enclosing graph.
  void Leave();

  GraphBuilder& graph() { return graph_; }

  /// A leaf that the node supplies, called `name` if that is free.
  Value Leaf(const std::string& name, const TensorType& type);

  /// Names a value of the body, if the name is free and the value has none.
  void Name(const std::string& name, Value value);

  /// The body's operand for one of the enclosing graph; one per operand. It lives as long as
  /// the body.
  Operand* Capture(Operand* outer);
  /// As above, for an operand of the model's graph, through all enclosing bodies.
  Operand* CaptureOfModel(Operand* operand);
  /// The leaf for a captured operand.
  Value LeafFor(const Operand& captured);
  /// The leaves of captured operands, in the order of first use.
  const std::vector<Read>& reads() const { return reads_; }

  /// Marks the body of a loop. `iteration` is an i64 scalar.
  void SetIteration(Value iteration, int64_t iterations);
  /// The step number for random draws in this body, unique per step and iteration.
  Value StepOfDraws(Operand* step_of_model);

 private:
  ImportContext& context_;
  GraphBuilder graph_;
  GraphBuilder* const outer_graph_;
  Body* const outer_;  // null within the model's own graph
  bool inside_ = true;
  std::deque<Operand> operands_;
  std::unordered_map<const Operand*, Operand*> captured_;  // by outer operand
  std::unordered_map<const Operand*, Value> leaves_;       // likewise
  std::vector<Read> reads_;
  std::unordered_set<ValueId> named_;
  Value iteration_;
  int64_t iterations_ = 1;
  Operand* step_ = nullptr;
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_NODE_H_
