#include "onnx/control_flow.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/attrs.h"
#include "ir/control_flow.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage::onnx {

namespace {

Operand Known(Array array) {
  Operand operand{.type = array.type, .fixed = true};
  operand.contents = std::make_shared<const Array>(std::move(array));
  return operand;
}

std::vector<ValueId> IdsOf(const Values& values) {
  std::vector<ValueId> ids;
  for (const Value& value : values) ids.push_back(value.id());
  return ids;
}

Result<Values> Emitted(ImportedNode& node, OpKind op, const Values& operands,
                       Attrs attrs) {
  Values results = node.graph().Emit(op, operands, std::move(attrs));
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  return results;
}

}  // namespace

Result<const pb::GraphProto*> GraphOf(const ImportedNode& node,
                                      std::string_view name) {
  const pb::AttributeProto* const attribute = node.Find(name);
  if (!attribute || !attribute->has_g()) {
    return node.Wrong(StrCat("has no graph ", Quoted(name)));
  }
  return &attribute->g();
}

Status CheckGraph(const ImportedNode& node, const pb::GraphProto& graph,
                  size_t inputs, size_t least_outputs) {
  if (static_cast<size_t>(graph.input_size()) != inputs ||
      static_cast<size_t>(graph.output_size()) < least_outputs) {
    return node.Wrong(StrCat("has a graph of ", graph.input_size(),
                             " inputs and ", graph.output_size(),
                             " outputs; expected ", inputs, ", and at least ",
                             least_outputs));
  }
  return {};
}

Status CheckBuilt(const ImportedNode& node) {
  const std::optional<Error>& error = node.context().graph->error();
  if (!error) return {};
  return Error{error->code, node.Wrong(error->message).message};
}

Result<Value> HandedBack(ImportedNode& node, const std::string& name,
                         Operand& operand) {
  if (!operand.parts.empty()) {
    return node.Unsupported(
        StrCat("hands back the sequence ", Quoted(name), " from its graph"));
  }
  if (operand.type.shape.num_elements() == 0) {
    return node.Unsupported(StrCat("hands back ", Quoted(name), " of shape ",
                                   operand.type.shape.ToString(),
                                   " from its graph, which has no elements"));
  }
  GraphBuilder& g = node.graph();
  Value value = ValueOf(operand, node.context());
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  if (g.info(value).role == Role::kConstant) value = Copy(value);
  return value;
}

Operand AsOperand(Value value) {
  return {.type = value.type(), .value = value};
}

Operand KnownNumber(int64_t number) {
  return Known(ArrayOf(DType::kI64, {}, std::vector<int64_t>{number}));
}
Operand KnownTrue() {
  return Known(ArrayOf(DType::kBool, {}, std::vector<int64_t>{1}));
}

Result<std::optional<bool>> KnownCondition(ImportedNode& node,
                                           Operand& operand) {
  if (operand.type.dtype != DType::kBool ||
      operand.type.shape.num_elements() != 1) {
    return node.Wrong(StrCat("has the condition ", operand.type.ToString(),
                             "; expected one bool"));
  }
  if (!operand.fixed) return std::optional<bool>();
  STOWAGE_ASSIGN_OR_RETURN(const Array* const contents,
                           ContentsOf(operand, node.context().path));
  return std::optional(contents && IntsOf(*contents)[0] != 0);
}

Result<Values> EmitCond(ImportedNode& node, Value index,
                        const std::vector<Branch>& branches) {
  std::vector<Operand*> read;
  for (const Branch& branch : branches) {
    for (const Body::Read& one : branch.body->reads()) {
      if (std::count(read.begin(), read.end(), one.outer) == 0) {
        read.push_back(one.outer);
      }
    }
  }
  SubGraphs bodies;
  for (const Branch& branch : branches) {
    std::vector<ValueId> leaves;
    for (Operand* const outer : read) {
      leaves.push_back(branch.body->LeafFor(*branch.body->Capture(outer)).id());
    }
    Result<Graph> body =
        MakeBody(branch.body->graph().graph(), leaves, IdsOf(branch.results));
    if (!body.ok()) return node.Wrong(body.error().message);
    bodies.push_back(std::make_shared<const Graph>(*std::move(body)));
  }
  if (index.rank() != 0) index = Reshape(index, {});
  Values operands = {index};
  for (Operand* const outer : read) {
    operands.push_back(ValueOf(*outer, node.context()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  return Emitted(node, OpKind::kCond, operands,
                 {{"bodies", std::move(bodies)}});
}

bool IsRead(Body& body, Value leaf) {
  for (const Node& node : body.graph().graph().nodes()) {
    if (std::count(node.inputs.begin(), node.inputs.end(), leaf.id()) > 0) {
      return true;
    }
  }
  return false;
}

Result<Values> EmitLoop(ImportedNode& node, Body& body, int64_t iterations,
                        bool reverse, const Handed& handed) {
  std::vector<ValueId> leaves = IdsOf(handed.carried_leaves);
  Values operands = handed.carried;
  const std::vector<ValueId> slices = IdsOf(handed.sliced_leaves);
  leaves.insert(leaves.end(), slices.begin(), slices.end());
  operands.insert(operands.end(), handed.sliced.begin(), handed.sliced.end());
  for (const Body::Read& read : body.reads()) {
    leaves.push_back(read.leaf.id());
    operands.push_back(ValueOf(*read.outer, node.context()));
  }
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  std::vector<ValueId> outputs = IdsOf(handed.next);
  const std::vector<ValueId> stacked = IdsOf(handed.stacked);
  outputs.insert(outputs.end(), stacked.begin(), stacked.end());
  Result<Graph> made = MakeBody(body.graph().graph(), leaves, outputs);
  if (!made.ok()) return node.Wrong(made.error().message);
  const auto number = [](const Values& values) {
    return static_cast<int64_t>(values.size());
  };
  return Emitted(
      node, OpKind::kLoop, operands,
      {{"iterations", iterations},
       {"carried", number(handed.carried)},
       {"sliced", number(handed.sliced)},
       {"summed", int64_t{0}},
       {"reverse", int64_t{reverse}},
       {"bodies", SubGraphs{std::make_shared<const Graph>(*std::move(made))}}});
}

Status CheckCarried(const ImportedNode& node, const std::string& name,
                    const TensorType& before, const TensorType& after) {
  if (before == after) return {};
  return node.Unsupported(StrCat("carries ", Quoted(name), " as ",
                                 before.ToString(),
                                 " into an iteration and as ", after.ToString(),
                                 " out of it; a plan must know one of them"));
}

// --- If ------------------------------------------------------------------------

namespace {

// The results of a branch that the node names.
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
