#ifndef STOWAGE_ONNX_NODE_IMPORTER_H_
#define STOWAGE_ONNX_NODE_IMPORTER_H_

// The nodes of a model, one after the other, as nodes of a graph: names are looked up,
// functions are written out, each node is folded or converted (onnx/fold.h,
// onnx/ops.h), and those that hold graphs become loops and branches
// (onnx/control_flow.h).
//
//   NodeImporter nodes(model, path, options, &graph);
//   Scope scope = nodes.ModelScope();
//   nodes.AddInitializers(model.graph(), scope);
//   nodes.Define("x", {.name = "x", .type = x.type(), .value = x}, scope);
//   nodes.AddNodes(model.graph().node(), scope);
//   Operand* y = scope.Find("y");

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "onnx/build_options.h"
#include "onnx/control_flow.h"
#include "onnx/node.h"
#include "onnx/onnx.pb.h"
#include "onnx/ops.h"
#include "onnx/opsets.h"
#include "onnx/parse_model.h"
#include "onnx/scope.h"
#include "onnx/tensor.h"

namespace stowage::onnx {

class NodeImporter : private GraphImporter {
 public:
  /// All must outlive this.
  NodeImporter(const pb::ModelProto& model, const std::string& path,
               const std::map<std::string, std::string>& constants,
               const OnnxBuildOptions& options, GraphBuilder* graph);

  /// That nodes ask for operator sets and ops that are known, that no function calls
  /// itself, and that nodes are not too many once functions are written out: before any
  /// is, and takes memory.
  Status CheckModel() const;

  /// The names of the model's own graph, none yet.
  Scope ModelScope() const { return {.opsets = &opsets_, .is_model = true}; }
  /// What a value of the file is called in the graph (onnx/import.h).
  std::string NameInGraph(const std::string& name) const;
  /// Gives an operand a name. Error: the name is taken.
  Status Define(const std::string& name, Operand operand, Scope& scope);
  /// Defines the tensors of `graph`, whose names `scope` are. Errors: onnx/tensor.h's.
  Status AddInitializers(const pb::GraphProto& graph, Scope& scope);
  /// That each node of the model's own graph reads what `scope`, its inputs and
  /// tensors, or a node before it has, and makes what none of them has: before any is
  /// converted, and takes memory.
  Status CheckNames(const Scope& scope) const;
  /// Converts all nodes, or those that are `needed`: of the others, names are defined.
  Status AddNodes(
      const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
      Scope& scope, const std::vector<bool>& needed = {});
  /// The shapes of inputs are not those of the file, so that others than it declares
  /// follow.
  void ShapesDiffer() { shapes_are_the_files_ = false; }

  ImportContext& context() { return context_; }

 private:
  Result<std::vector<Operand*>> AddGraph(const pb::GraphProto& graph,
                                         const Scope& scope,
                                         std::vector<Operand> inputs,
                                         Body* body) override;
  int64_t CountNodes(const pb::GraphProto& graph) const override;

  Operand* Kept(Operand operand);
  Operand* WeightWithin(const pb::TensorProto& tensor, Operand operand);
  Status LeaveOut(const pb::NodeProto& node, Scope& scope);
  Status AddNode(const pb::NodeProto& node, Scope& scope);
  Status NameResult(const Operand& result, const Scope& scope);
  Result<std::vector<Operand*>> OperandsOf(const pb::NodeProto& node,
                                           const Scope& scope);
  Result<std::vector<Operand>> ResultsOf(const pb::NodeProto& node,
                                         const Scope& scope);
  Result<std::vector<Operand>> Converted(ImportedNode& node,
                                         const ImportedOp& op,
                                         const Scope& scope);
  Result<std::vector<Operand>> OfFunction(ImportedNode& node,
                                          const pb::FunctionProto& function);
  Result<std::vector<Operand>> StandingIn(ImportedNode& node);
  Operand* Renamed(const pb::NodeProto& node, const Scope& scope) const;
  Status CheckDeclared(const Operand& operand) const;

  const pb::ModelProto& model_;
  const std::string& path_;
  const OnnxBuildOptions& options_;
  const FunctionTable functions_;
  const Opsets opsets_;
  ImportContext context_;
  size_t depth_ = 0;  // of functions that are being written out
  const DeclaredTypes declared_;
  bool shapes_are_the_files_ = true;
  std::deque<Operand> operands_;  // at addresses that stay
  // The names of the model's tensors as params, and those within its nodes that are some.
  std::unordered_map<const pb::TensorProto*, std::string> param_names_;
  std::unordered_set<const pb::TensorProto*> constants_;  // that are no params
  std::unordered_set<std::string> tensor_names_;
  std::unordered_map<const pb::TensorProto*, Operand*> weights_within_;
  // Of functions that were written out: operands point into them.
  std::deque<google::protobuf::RepeatedPtrField<pb::NodeProto>> bodies_;
  std::unordered_set<ValueId> named_;
  int64_t nodes_ = 0;
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_NODE_IMPORTER_H_
