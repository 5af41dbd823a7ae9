#include "onnx/node_importer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "onnx/control_flow.h"
#include "onnx/fold.h"
#include "onnx/import.h"
#include "onnx/ops.h"
#include "onnx/parse_model.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

// The maximum depth of nested functions.
constexpr size_t kMaxDepth = 64;
// The maximum number of nodes after inlining; nested functions can make it exponential in the
// file.
constexpr int64_t kMaxNodes = 1'000'000;

Error TooManyNodes() {
  return UnsupportedError("[onnx] the model has more than ", kMaxNodes,
                          " nodes once its functions are written out");
}

Error NotMade(const pb::NodeProto& node, std::string_view name) {
  return InvalidArgumentError("[onnx] node ", Quoted(node.name()), " (",
                              node.op_type(), ") reads ", Quoted(name),
                              ", which no node before it makes");
}

Error Twice(std::string_view name) {
  return InvalidArgumentError("[onnx] two values are called ", Quoted(name),
                              "; names must be unique");
}

}  // namespace

NodeImporter::NodeImporter(const pb::ModelProto& model, const std::string& path,
                           const std::map<std::string, std::string>& constants,
                           const OnnxBuildOptions& options, GraphBuilder* graph)
    : model_(model),
      path_(path),
      options_(options),
      functions_(model),
      opsets_(OpsetsOf(model.opset_import())),
      declared_(model.graph()) {
  context_.model = graph;
  context_.graph = graph;
  context_.path = path;
  context_.read = ReadIn(model);
  context_.training =
      options.loss && !options.evaluation && !options.trained_outputs;
  context_.evaluation = options.evaluation;
  context_.resized = options.resized;
  for (const pb::NodeProto& node : model.graph().node()) {
    for (const std::string& name : node.output()) graph->KeepFree(name);
  }
  for (const auto& [name, tensor] : TensorsOf(model.graph())) {
    graph->KeepFree(name);
    param_names_[tensor] = name;
    tensor_names_.insert(tensor->name());
    const bool is_trained = std::ranges::any_of(
        options.trainable, [&name = name](const std::string& pattern) {
          return GlobMatches(pattern, name);
        });
    if (constants.contains(name) && !is_trained) constants_.insert(tensor);
  }
}

Status NodeImporter::CheckModel() const {
  if (!opsets_.contains("")) {
    return UnsupportedError(
        "[onnx] the file does not say which operator set it asks for");
  }
  STOWAGE_RETURN_IF_ERROR(CheckOpset(opsets_));
  const MissingOps missing = FindMissingOps(model_, functions_);
  if (!missing.empty() && !options_.stand_ins) {
    return UnsupportedError(
        "[onnx] ", Quoted(path_),
        " has ops that are not known: ", ToText(missing),
        "; docs/reference/onnx_ops.md lists those that are, and with stand-ins "
        "the file "
        "can be planned");
  }
  const auto written = functions_.CountWrittenOut(model_.graph().node(),
                                                  kMaxNodes + 1, kMaxDepth);
  if (written.recursive) {
    return InvalidArgumentError("[onnx] the function ",
                                Quoted(written.recursive->name()),
                                " calls itself");
  }
  if (written.nodes > kMaxNodes) return TooManyNodes();
  return {};
}

// --- Names ---

std::string NodeImporter::NameInGraph(const std::string& name) const {
  return onnx::NameInGraph(name, tensor_names_, options_);
}

Operand* NodeImporter::Kept(Operand operand) {
  operands_.push_back(std::move(operand));
  return &operands_.back();
}

Status NodeImporter::Define(const std::string& name, Operand operand,
                            Scope& scope) {
  if (name.empty()) return {};
  operand.name = name;
  if (scope.names.emplace(name, Kept(std::move(operand))).second) return {};
  return Twice(name);
}

Status NodeImporter::CheckNames(const Scope& scope) const {
  std::unordered_set<std::string_view> made;
  for (const pb::NodeProto& node : model_.graph().node()) {
    for (const std::string& name : node.input()) {
      const bool known =
          name.empty() || made.contains(name) || scope.names.contains(name);
      if (!known) return NotMade(node, name);
    }
    for (const std::string& name : node.output()) {
      if (name.empty()) continue;
      if (scope.names.contains(name) || !made.insert(name).second) {
        return Twice(name);
      }
    }
  }
  return {};
}

// The operand of a tensor in a subgraph; one, however often the subgraph is converted.
Operand* NodeImporter::WeightWithin(const pb::TensorProto& tensor,
                                    Operand operand) {
  Operand*& weight = weights_within_[&tensor];
  if (!weight) weight = Kept(std::move(operand));
  Body* const body = context_.body;
  return body ? body->CaptureOfModel(weight) : weight;
}

Status NodeImporter::AddInitializers(const pb::GraphProto& graph,
                                     Scope& scope) {
  for (const pb::TensorProto& tensor : graph.initializer()) {
    Operand operand{.name = tensor.name(), .initializer = &tensor};
    STOWAGE_ASSIGN_OR_RETURN(operand.type, TypeOfTensor(tensor));
    STOWAGE_RETURN_IF_ERROR(CheckTensor(tensor, context_.path));
    // Tensors in functions are copied by each call, and are not weights.
    operand.fixed =
        !param_names_.contains(&tensor) || constants_.contains(&tensor) ||
        !IsFloat(operand.type.dtype) || operand.type.shape.num_elements() == 0;
    if (operand.fixed) {
      STOWAGE_RETURN_IF_ERROR(Define(tensor.name(), std::move(operand), scope));
      continue;
    }
    operand.name = param_names_.at(&tensor);
    Operand* const weight = scope.is_model
                                ? Kept(std::move(operand))
                                : WeightWithin(tensor, std::move(operand));
    if (!scope.names.emplace(tensor.name(), weight).second) {
      return Twice(tensor.name());
    }
  }
  if (graph.sparse_initializer_size() > 0) {
    return UnsupportedError("[onnx] the graph has ",
                            graph.sparse_initializer_size(),
                            " sparse tensors; expected dense ones");
  }
  return {};
}

Status NodeImporter::CheckDeclared(const Operand& operand) const {
  const auto declared = declared_.Find(operand.name);
  if (!declared || !shapes_are_the_files_) return {};
  const auto differs = [&](std::string_view what) {
    return InvalidArgumentError("[onnx] the file declares ",
                                Quoted(operand.name), " with ", what,
                                "; its node makes ", operand.type.ToString());
  };
  const Result<DType> dtype = DTypeOfElement(declared->elem_type());
  if (dtype.ok() && *dtype != operand.type.dtype) {
    return differs(StrCat("elements of ", DTypeName(*dtype)));
  }
  if (!declared->has_shape()) return {};
  if (declared->shape().dim_size() != operand.type.shape.rank()) {
    return differs(StrCat(declared->shape().dim_size(), " dimensions"));
  }
  for (int i = 0; i < operand.type.shape.rank(); ++i) {
    const auto& dim = declared->shape().dim(i);
    if (dim.has_dim_value() && dim.dim_value() != operand.type.shape[i]) {
      return differs(StrCat(dim.dim_value(), " in dimension ", i));
    }
  }
  return {};
}

Status NodeImporter::NameResult(const Operand& result, const Scope& scope) {
  const Value value = result.value;
  if (scope.body && value.ok()) scope.body->Name(result.name, value);
  if (!scope.is_model) return {};
  STOWAGE_RETURN_IF_ERROR(CheckDeclared(result));
  GraphBuilder& graph = *context_.model;
  if (value.ok() && !graph.info(value).is_leaf() &&
      named_.insert(value.id()).second) {
    graph.Name(NameInGraph(result.name), value);
    if (graph.error()) return *graph.error();
  }
  return {};
}

// --- Nodes ---

Result<std::vector<Operand*>> NodeImporter::OperandsOf(
    const pb::NodeProto& node, const Scope& scope) {
  std::vector<Operand*> operands;
  for (const std::string& name : node.input()) {
    Operand* const operand = name.empty() ? nullptr : scope.Find(name);
    if (!name.empty() && !operand) {
      return NotMade(node, name);
    }
    operands.push_back(operand);
  }
  while (!operands.empty() && !operands.back()) operands.pop_back();
  return operands;
}

Result<std::vector<Operand>> NodeImporter::Converted(ImportedNode& node,
                                                     const ImportedOp& op,
                                                     const Scope& scope) {
  for (int i = 0; i < op.operands; ++i) {
    if (!node.Has(i)) {
      return node.Wrong(StrCat("has ", node.num_operands(),
                               " operands; expected at least ", op.operands));
    }
  }
  if (op.name == "If") return ImportIf(node, scope, *this);
  if (op.name == "Loop") return ImportLoop(node, scope, *this);
  if (op.name == "Scan") return ImportScan(node, scope, *this);
  STOWAGE_ASSIGN_OR_RETURN(auto folded, Fold(node));
  std::vector<Operand> results;
  if (folded) {
    for (Array& array : *folded) {
      Operand operand{.type = array.type, .fixed = true};
      operand.contents = std::make_shared<const Array>(std::move(array));
      results.push_back(std::move(operand));
    }
    return results;
  }
  for (int i = 0; i < node.num_operands(); ++i) {
    if (!node.Has(i)) continue;
    const Operand& operand = node.OperandAt(i);
    if (!operand.parts.empty() &&
        (node.op() != "SequenceAt" || operand.outer)) {
      return node.Unsupported(
          StrCat("reads the sequence ", Quoted(operand.name),
                 "; only SequenceAt may, of the same graph"));
    }
    const Shape& shape = node.ShapeOf(i);
    const bool known = operand.contents || operand.fixed;
    if (!known && std::count(shape.begin(), shape.end(), 0) > 0) {
      return node.Unsupported(StrCat("reads ", Quoted(operand.name),
                                     " of shape ", shape.ToString(),
                                     ", which has no elements"));
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(const Values values, op.convert(node));
  if (const auto& error = context_.graph->error()) {
    return Error{error->code, node.Wrong(error->message).message};
  }
  if (!node.parts().empty()) {
    return std::vector{
        Operand{.type = node.parts()[0].type(), .parts = node.parts()}};
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].ok()) {
      if (node.Wants(static_cast<int>(i))) {
        return node.Unsupported(StrCat("names ", node.num_results(),
                                       " results, of which result ", i,
                                       " is not made here"));
      }
      results.emplace_back();
      continue;
    }
    results.push_back({.type = values[i].type(), .value = values[i]});
  }
  return results;
}

Result<std::vector<Operand*>> NodeImporter::AddGraph(
    const pb::GraphProto& graph, const Scope& scope,
    std::vector<Operand> inputs, Body* body) {
  Scope inner{.outer = &scope, .opsets = scope.opsets, .body = body};
  for (size_t i = 0; i < inputs.size(); ++i) {
    STOWAGE_RETURN_IF_ERROR(Define(graph.input(static_cast<int>(i)).name(),
                                   std::move(inputs[i]), inner));
  }
  STOWAGE_RETURN_IF_ERROR(AddInitializers(graph, inner));
  STOWAGE_RETURN_IF_ERROR(AddNodes(graph.node(), inner));
  std::vector<Operand*> outputs;
  for (const pb::ValueInfoProto& output : graph.output()) {
    Operand* const found = inner.Find(output.name());
    if (!found) {
      return InvalidArgumentError("[onnx] the graph ", Quoted(graph.name()),
                                  " within a node does not make its output ",
                                  Quoted(output.name()));
    }
    outputs.push_back(found);
  }
  return outputs;
}

int64_t NodeImporter::CountNodes(const pb::GraphProto& graph) const {
  return functions_.CountWrittenOut(graph.node(), kMaxNodes, kMaxDepth).nodes;
}

Result<std::vector<Operand>> NodeImporter::OfFunction(
    ImportedNode& node, const pb::FunctionProto& function) {
  if (depth_ >= kMaxDepth) {
    return node.Unsupported(StrCat("calls a function within ", kMaxDepth,
                                   " others, the most there may be"));
  }
  if (node.num_operands() > function.input_size()) {
    return node.Wrong(StrCat("gives ", node.num_operands(),
                             " operands to a function of ",
                             function.input_size()));
  }
  const Opsets opsets = OpsetsOf(function.opset_import());
  STOWAGE_RETURN_IF_ERROR(CheckOpset(opsets));
  Scope inner{.opsets = &opsets};
  for (int i = 0; i < function.input_size(); ++i) {
    if (node.Has(i)) inner.names[function.input(i)] = &node.OperandAt(i);
  }
  const auto& body = bodies_.emplace_back(BodyOf(node.proto(), function));
  ++depth_;
  const Status added = AddNodes(body, inner);
  --depth_;
  STOWAGE_RETURN_IF_ERROR(added);
  std::vector<Operand> results;
  for (const std::string& name : function.output()) {
    Operand* const found = inner.Find(name);
    results.push_back(found ? Passed(*found, context_) : Operand{});
  }
  return results;
}

Result<std::vector<Operand>> NodeImporter::StandingIn(ImportedNode& node) {
  Values operands;
  for (int i = 0; i < node.num_operands(); ++i) {
    if (node.Has(i)) operands.push_back(node.In(i));
  }
  std::vector<Shape> shapes;
  std::optional<DType> dtype;
  for (int i = 0; i < node.num_results(); ++i) {
    const std::string& name = node.proto().output(i);
    if (name.empty()) continue;
    const auto declared = declared_.Find(name);
    Shape shape;
    bool known = declared && declared->has_shape();
    if (known) {
      for (const auto& dim : declared->shape().dim()) {
        const auto symbol = options_.dims.find(dim.dim_param());
        const int64_t size = dim.has_dim_value()             ? dim.dim_value()
                             : symbol != options_.dims.end() ? symbol->second
                                                             : 0;
        known = known && size > 0;
        shape.push_back(size);
      }
    }
    if (!known || operands.empty()) {
      return node.Unsupported(StrCat(
          "is not known, and cannot be stood in for: it has ", operands.size(),
          " operands, and the file declares ",
          declared ? "no whole shape" : "no shape", " for ", Quoted(name)));
    }
    STOWAGE_ASSIGN_OR_RETURN(const DType of,
                             DTypeOfElement(declared->elem_type()));
    if (dtype && *dtype != of) {
      return node.Unsupported("is not known, and makes values of two types");
    }
    dtype = of;
    shapes.push_back(shape);
  }
  const Values made = StandIn(operands, dtype.value_or(DType::kF32), shapes, 0);
  if (const auto& error = context_.graph->error()) {
    return Error{error->code, node.Wrong(error->message).message};
  }
  std::vector<Operand> results;
  size_t next = 0;
  for (const std::string& name : node.proto().output()) {
    if (name.empty()) {
      results.emplace_back();
      continue;
    }
    const Value value = made[next++];
    results.push_back({.type = value.type(), .value = value});
  }
  return results;
}

Result<std::vector<Operand>> NodeImporter::ResultsOf(const pb::NodeProto& node,
                                                     const Scope& scope) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Operand*> operands,
                           OperandsOf(node, scope));
  const auto opset = scope.opsets->find("");
  ImportedNode imported(
      node, opset == scope.opsets->end() ? kNewestOpset : opset->second,
      std::move(operands), context_);
  if (const pb::FunctionProto* const function = functions_.Find(node)) {
    return OfFunction(imported, *function);
  }
  if (!MissingName(node, *scope.opsets, functions_).empty())
    return StandingIn(imported);
  return Converted(imported, *FindOp(node.domain(), node.op_type()), scope);
}

// The tensor of the file of which an Identity is an alias; it remains a param or a state,
// depending on its readers.
Operand* NodeImporter::Renamed(const pb::NodeProto& node,
                               const Scope& scope) const {
  if (node.op_type() != "Identity" || !IsOnnxDomain(node.domain()) ||
      node.input_size() != 1 || node.output_size() != 1) {
    return nullptr;
  }
  Operand* const operand = scope.Find(node.input(0));
  return operand && operand->initializer ? operand : nullptr;
}

Status NodeImporter::AddNode(const pb::NodeProto& node, Scope& scope) {
  if (++nodes_ > kMaxNodes) return TooManyNodes();
  if (Operand* const same = Renamed(node, scope)) {
    if (!scope.names.emplace(node.output(0), same).second) {
      return Twice(node.output(0));
    }
    return {};
  }
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Operand> results,
                           ResultsOf(node, scope));
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    const bool is_made = i < static_cast<int>(results.size());
    if (!is_made && context_.read.contains(name)) {
      return UnsupportedError("[onnx] node ", Quoted(node.name()), " (",
                              node.op_type(), ") names ", node.output_size(),
                              " results; ", results.size(), " are made here");
    }
    Operand result =
        is_made ? std::move(results[static_cast<size_t>(i)]) : Operand();
    result.name = name;
    if (scope.names.contains(name)) return Twice(name);
    STOWAGE_RETURN_IF_ERROR(NameResult(result, scope));
    STOWAGE_RETURN_IF_ERROR(Define(name, std::move(result), scope));
  }
  return {};
}

Status NodeImporter::LeaveOut(const pb::NodeProto& node, Scope& scope) {
  for (const std::string& name : node.output()) {
    STOWAGE_RETURN_IF_ERROR(Define(name, {.name = name}, scope));
  }
  return {};
}

Status NodeImporter::AddNodes(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    Scope& scope, const std::vector<bool>& needed) {
  for (int i = 0; i < nodes.size(); ++i) {
    if (!needed.empty() && !needed[static_cast<size_t>(i)]) {
      STOWAGE_RETURN_IF_ERROR(LeaveOut(nodes.Get(i), scope));
      continue;
    }
    if (scope.is_model) {
      context_.source = KeptSourceLoc(path_, i + 1);
      context_.model->SetOrigin(Phase::kForward, "", context_.source);
    }
    STOWAGE_RETURN_IF_ERROR(AddNode(nodes.Get(i), scope));
  }
  return {};
}

}  // namespace stowage::onnx
