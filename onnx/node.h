#ifndef STOWAGE_ONNX_NODE_H_
#define STOWAGE_ONNX_NODE_H_

// One node of an ONNX file on its way into a graph: its attributes and operands, as a
// conversion (onnx/ops.h) asks for them.
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
#include "onnx/build_options.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// Before this operator set, ops do not broadcast as all do since.
inline constexpr int64_t kUsualOpset = 7;

/// The results of a node, in the file's order; inert where the file leaves one out.
using Values = std::vector<Value>;

/// What a name in the file stands for.
struct Operand {
  std::string name = {};
  TensorType type = {};
  /// Once it is in the graph.
  Value value = {};
  /// The tensor of the file that it is, if it is one.
  const pb::TensorProto* initializer = nullptr;
  /// What it holds, where that is known and has been asked for.
  std::shared_ptr<const Array> contents = {};
  /// Whether it holds the same in every step: training changes no part of it.
  bool fixed = false;
  bool kept = false;  // a state, which nodes of the graph overwrite
  /// The parts of a sequence of tensors, which is no value of the graph.
  Values parts = {};
  /// What it stands for in the graph around its body (onnx/node.h), if it is of there.
  Operand* outer = nullptr;
};

class Body;

/// What all nodes of a model share.
struct ImportContext {
  GraphBuilder* model = nullptr;
  GraphBuilder* graph =
      nullptr;              // that nodes go into: the model's, or a body's
  Body* body = nullptr;     // whose graph that is, if it is one's
  SourceLoc source = {};    // of the node of the model's graph
  std::string path;         // of the file
  bool training = false;    // of batch norms and dropouts
  bool evaluation = false;  // with what batch norms have followed
  std::optional<ResizedBatch> resized = {};
  /// Inputs "seed" and "step", i64 scalars, made with the first random draw.
  Operand seed = {}, step = {};
  int64_t draws = 0;
  int64_t loops_tried_again = 0;  // written out where they could be no loops
  Bytes folded = 0;               // of results that the import has computed
};

class ImportedNode {
 public:
  /// `operands` are null where the file leaves one out.
  ImportedNode(const pb::NodeProto& node, int64_t version,
               std::vector<Operand*> operands, ImportContext& context);

  GraphBuilder& graph() { return *context_.graph; }
  ImportContext& context() const { return context_; }
  /// The operator set that the file asks for.
  int64_t version() const { return version_; }
  const std::string& op() const { return node_.op_type(); }
  const pb::NodeProto& proto() const { return node_; }

  // --- Operands and results ---

  int num_operands() const { return static_cast<int>(operands_.size()); }
  bool Has(int i) const { return i < num_operands() && operands_[At(i)]; }
  /// Operand i as a value of the graph; inert where there is none, or after an error.
  Value In(int i);
  /// Operand i as a state that the model keeps from step to step, if it is a tensor of
  /// floats of the file that no other node has taken for a param; else as In. Error,
  /// kept by the graph: while training, one that is outside of the body the node is in.
  Value Keep(int i);
  bool IsKept(int i) const;
  /// Its type. Preconditions of this and the next three: Has(i).
  const TensorType& Type(int i) const { return operands_[At(i)]->type; }
  const Shape& ShapeOf(int i) const { return Type(i).shape; }
  Operand& OperandAt(int i) const { return *operands_[At(i)]; }
  /// What it holds, if that is the same in every step; else null.
  const Array* Fixed(int i);
  /// The numbers that it holds, as a plan must know them. Error: it depends on what
  /// is computed.
  Result<std::vector<int64_t>> Ints(int i, std::string_view what);
  Result<std::vector<double>> Reals(int i, std::string_view what);
  /// The same of a list that may instead be an attribute of that name, as older
  /// operator sets have it; absent where the file has neither.
  Result<std::optional<std::vector<int64_t>>> IntsOrAttribute(
      int i, std::string_view name);
  /// The dimension that an axis means, counted from the end where below 0.
  Result<int64_t> Axis(int64_t axis, int rank) const;

  /// What result 0 is, where it is a sequence.
  void SetParts(Values parts) { parts_ = std::move(parts); }
  const Values& parts() const { return parts_; }

  int num_results() const { return node_.output_size(); }
  /// Whether the file names result i.
  bool Wants(int i) const {
    return i < num_results() && !node_.output(i).empty();
  }

  // --- Attributes; what the file leaves out is `otherwise` ---

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
  /// The same, kInvalidArgument.
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

/// The contents of an operand, read from the file when they are first asked for; null
/// where they depend on what is computed.
Result<const Array*> ContentsOf(Operand& operand, const std::string& path);

/// The operand as a value of the graph: what it is already, a param where it is a
/// tensor of floats of the file, a constant otherwise. Inert after an error, which
/// the graph keeps.
Value ValueOf(Operand& operand, ImportContext& context);

/// The operand for another name to stand for, too: a param is declared once, under its
/// own.
Operand Passed(Operand& operand, ImportContext& context);

// The graph inside a node of control flow on its way into a graph: a builder of its
// own, which nodes are converted into while it is there, and what it reads from outside.
//
// A body of ONNX reads any name that is in force around it; one of ours is handed what it
// reads (ir/bodies.h). So a name found outside stands for an operand of the body's own,
// which becomes a leaf when the body computes with it, and not when it only asks for its
// type, or for what it is known to hold. Names found further out pass through all bodies
// between.
//
//   Body body("loop", context);     // nodes go into it from here on
//   Operand* x = body.Capture(outside);
//   ...                             // ValueOf(*x, context) declares a leaf
//   body.Leave();                   // and into the graph around it again
//   for (const auto& [leaf, outer] : body.reads()) ...  // what to hand in

class Body {
 public:
  struct Read {
    Value leaf;      // of this body
    Operand* outer;  // of the graph around it
  };

  /// Enters the body; `context` must outlive this.
  Body(const std::string& name, ImportContext& context);
  /// Leaves it, where that has not been done.
  ~Body() { Leave(); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  /// Nodes go into the graph around the body from here on.
  void Leave();

  GraphBuilder& graph() { return graph_; }

  /// A leaf that the node hands in itself, called like `name` where that is free.
  Value Leaf(const std::string& name, const TensorType& type);

  /// Calls a value of the body so, where the name is free and it was not named before.
  void Name(const std::string& name, Value value);

  /// What stands in here for an operand of the graph around this body; the same for
  /// the same. It lives as long as the body.
  Operand* Capture(Operand* outer);
  /// Likewise of an operand of the model's own graph, through all bodies around this.
  Operand* CaptureOfModel(Operand* operand);
  /// The leaf for an operand that Capture made.
  Value LeafFor(const Operand& captured);
  /// The leaves of captured operands, in the order in which they were first read.
  const std::vector<Read>& reads() const { return reads_; }

  /// Says that this is the body of a loop, and which iteration, an i64 scalar, is run.
  void SetIteration(Value iteration, int64_t iterations);
  /// The number by which nodes in here draw, another one in each iteration of each step.
  Value StepOfDraws(Operand* step_of_model);

 private:
  ImportContext& context_;
  GraphBuilder graph_;
  GraphBuilder* const outer_graph_;
  Body* const outer_;  // null within the model's own graph
  bool inside_ = true;
  std::deque<Operand> operands_;
  std::unordered_map<const Operand*, Operand*>
      captured_;                                      // by what it stands for
  std::unordered_map<const Operand*, Value> leaves_;  // likewise
  std::vector<Read> reads_;
  std::unordered_set<ValueId> named_;
  Value iteration_;
  int64_t iterations_ = 1;
  Operand* step_ = nullptr;
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_NODE_H_
