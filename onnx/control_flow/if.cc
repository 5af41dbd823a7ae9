// If: the branch that is known to be taken, or a cond.

#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "onnx/control_flow.h"
#include "onnx/control_flow/common.h"

namespace stowage::onnx {
namespace {

// Those results of a branch that the node names.
Result<Branch> ImportBranch(ImportedNode& node, const pb::GraphProto& graph,
                            const std::string& name, const Scope& scope,
                            GraphImporter& importer) {
  Branch branch{std::make_unique<Body>(name, node.context())};
  STOWAGE_ASSIGN_OR_RETURN(
      const std::vector<Operand*> outputs,
      importer.AddGraph(graph, scope, {}, branch.body.get()));
  for (int i = 0; i < node.num_results(); ++i) {
    if (!node.Wants(i)) continue;
    STOWAGE_ASSIGN_OR_RETURN(const Value result,
                             HandedBack(node, graph.output(i).name(),
                                        *outputs[static_cast<size_t>(i)]));
    branch.results.push_back(result);
  }
  branch.body->Leave();
  return branch;
}

}  // namespace

Result<Operands> ImportIf(ImportedNode& node, const Scope& scope,
                          GraphImporter& importer) {
  std::vector<const pb::GraphProto*> graphs;  // false, true
  for (const char* const name : {"else_branch", "then_branch"}) {
    STOWAGE_ASSIGN_OR_RETURN(const pb::GraphProto* const graph,
                             GraphOf(node, name));
    STOWAGE_RETURN_IF_ERROR(
        CheckGraph(node, *graph, 0, static_cast<size_t>(node.num_results())));
    graphs.push_back(graph);
  }
  if (!node.Has(0)) return node.Wrong("has no condition");
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<bool> known,
                           KnownCondition(node, node.OperandAt(0)));
  Operands results;
  if (known) {
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<Operand*> outputs,
        importer.AddGraph(*graphs[*known ? 1 : 0], scope, {}, nullptr));
    for (Operand* const output : outputs) {
      results.push_back(Passed(*output, node.context()));
    }
    return results;
  }
  std::vector<Branch> branches;
  for (size_t i = 0; i < graphs.size(); ++i) {
    STOWAGE_ASSIGN_OR_RETURN(
        Branch branch, ImportBranch(node, *graphs[i], i == 0 ? "else" : "then",
                                    scope, importer));
    branches.push_back(std::move(branch));
  }
  const Values &no = branches[0].results, &yes = branches[1].results;
  for (int i = 0, k = 0; i < node.num_results(); ++i) {
    if (!node.Wants(i)) continue;
    const TensorType &a = yes[static_cast<size_t>(k)].type(),
                     &b = no[static_cast<size_t>(k)].type();
    ++k;
    if (a == b) continue;
    return node.Unsupported(
        StrCat("gives ", Quoted(node.proto().output(i)), " as ", a.ToString(),
               " in one branch and as ", b.ToString(),
               " in the other; a plan must know one of them"));
  }
  if (no.empty()) return Operands(static_cast<size_t>(node.num_results()));
  STOWAGE_ASSIGN_OR_RETURN(const Values made,
                           EmitCond(node, node.In(0), branches));
  size_t next = 0;
  for (int i = 0; i < node.num_results(); ++i) {
    results.push_back(node.Wants(i) ? AsOperand(made[next++]) : Operand());
  }
  return results;
}

}  // namespace stowage::onnx
