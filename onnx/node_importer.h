#ifndef STOWAGE_ONNX_NODE_IMPORTER_H_
#define STOWAGE_ONNX_NODE_IMPORTER_H_

// Converts the nodes of a model in the file's order. Resolves names and inlines functions. Folds
// each node (onnx/fold.h) or converts it (onnx/ops.h). Nodes with subgraphs become loops and conds
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
#include "onnx/control_flow.h"
#include "onnx/node.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "onnx/ops.h"
#include "onnx/parse_model.h"
#include "onnx/tensor.h"

namespace stowage::onnx {

class NodeImporter : private GraphImporter {
 public:
  /// Converts into `graph`. All arguments must outlive this object.
  NodeImporter(const pb::ModelProto& model, const std::string& path,
               const std::map<std::string, std::string>& constants,
               const OnnxBuildOptions& options, GraphBuilder* graph);

  /// Checks the model before nodes are converted. Returns kUnsupported for an unsupported operator
  /// set of the file, for unknown ops (unless the options request stand-ins), and for more than
  /// 1,000,000 nodes after inlining. Returns kInvalidArgument for a recursive function.
  Status CheckModel() const;

  /// Returns an empty scope for the model's graph.
  Scope ModelScope() const { return {.opsets = &opsets_, .is_model = true}; }
  /// Returns the name in the graph of a value of the file (onnx/import.h).
  std::string NameInGraph(const std::string& name) const;
  /// Defines `name` in `scope`, or does nothing if `name` is empty. Returns kInvalidArgument if
  /// `scope` already contains the name.
  Status Define(const std::string& name, Operand operand, Scope& scope);
  /// Defines the tensors of `graph`, whose scope is `scope`. Propagates errors of CheckTensor
  /// (onnx/tensor.h). Returns kUnsupported for sparse tensors.
  Status AddInitializers(const pb::GraphProto& graph, Scope& scope);
  /// Checks the names in the model's graph before nodes are converted. Returns kInvalidArgument if
  /// a node reads a name that is neither in `scope` nor a result of an earlier node, or if a result
  /// has a name that is already defined.
  Status CheckNames(const Scope& scope) const;
  /// Converts the nodes for which `needed` is true, or all nodes if `needed` is empty. The results
  /// of other nodes are defined as operands without a value.
  Status AddNodes(
      const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
      Scope& scope, const std::vector<bool>& needed = {});
  /// Disables the comparison of types with the types that the file declares. Must be called if the
  /// shape of an input differs from the declared shape.
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
  size_t depth_ = 0;  // nesting depth of functions being inlined
  const DeclaredTypes declared_;
  bool shapes_are_the_files_ = true;
  std::deque<Operand> operands_;  // at stable addresses
  // The param names of the model's tensors, including tensors of subgraphs.
  std::unordered_map<const pb::TensorProto*, std::string> param_names_;
  std::unordered_set<const pb::TensorProto*> constants_;  // are not params
  std::unordered_set<std::string> tensor_names_;
  std::unordered_map<const pb::TensorProto*, Operand*> weights_within_;
  // The bodies of inlined functions. Operands point into them.
  std::deque<google::protobuf::RepeatedPtrField<pb::NodeProto>> bodies_;
  std::unordered_set<ValueId> named_;
  int64_t nodes_ = 0;
};

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_NODE_IMPORTER_H_
