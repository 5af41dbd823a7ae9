#include "onnx/import.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/numbers.h"
#include "ir/ops.h"
#include "ir/source_loc.h"
#include "onnx/fold.h"
#include "onnx/functions.h"
#include "onnx/loss.h"
#include "onnx/missing_ops.h"
#include "onnx/needed_nodes.h"
#include "onnx/node.h"
#include "onnx/ops.h"
#include "onnx/opsets.h"
#include "onnx/shapes.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

// Nodes that a model may have once its functions are written out: a file of a few
// lines could ask for more than any memory holds.
constexpr int64_t kMostNodes = 1'000'000;
// Functions that may be within each other.
constexpr size_t kMostDepth = 64;

Error Wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, StrCat("[onnx] ", message)};
}
Error Unsupported(std::string message) {
  return {ErrorCode::kUnsupported, StrCat("[onnx] ", message)};
}

Error TooManyNodes() {
  return Unsupported(StrCat("the model has more than ", kMostNodes,
                            " nodes once its functions are written out"));
}

Error Twice(std::string_view name) {
  return Wrong(
      StrCat("two values are called ", Quoted(name), "; names must be unique"));
}

// Names in force at a node: those of its graph, and of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  const Opsets* opsets = nullptr;
  bool names_values =
      false;  // of the model's own graph, which names the values
  std::unordered_map<std::string, Operand*> names = {};

  Operand* Find(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->outer) {
      const auto found = scope->names.find(name);
      if (found != scope->names.end()) return found->second;
    }
    return nullptr;
  }
};

class Importer {
 public:
  Importer(const pb::ModelProto& model, const std::string& path,
           const OnnxBuildOptions& options)
      : model_(model),
        path_(path),
        options_(options),
        functions_(model),
        graph_(model.graph().name().empty() ? "onnx" : model.graph().name()) {
    context_.graph = &graph_;
    context_.folder = std::filesystem::path(path).parent_path().string();
    context_.training = options.loss && !options.evaluation;
    context_.evaluation = options.evaluation;
  }

  Result<Graph> Run();

 private:
  Status AddInitializers(const pb::GraphProto& graph, Scope& scope);
  Status AddInputs(Scope& scope);
  Result<Shape> ShapeOfInput(const OnnxInput& input) const;
  Status CheckOptions(const std::vector<OnnxInput>& inputs) const;

  // All of them, or those that are `needed`.
  Status AddNodes(
      const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
      Scope& scope, const std::vector<bool>& needed = {});
  Status LeaveOut(const pb::NodeProto& node, Scope& scope);
  Status AddNode(const pb::NodeProto& node, Scope& scope);
  Result<std::vector<Operand*>> OperandsOf(const pb::NodeProto& node,
                                           const Scope& scope);
  Result<std::vector<Operand>> ResultsOf(const pb::NodeProto& node,
                                         const Scope& scope);
  Result<std::vector<Operand>> Converted(ImportedNode& node,
                                         const ImportedOp& op);
  Result<std::vector<Operand>> OfBranch(ImportedNode& node, const Scope& scope);
  Result<std::vector<Operand>> OfFunction(ImportedNode& node,
                                          const pb::FunctionProto& function);
  Result<std::vector<Operand>> StandingIn(ImportedNode& node);
  Operand* Renamed(const pb::NodeProto& node, const Scope& scope) const;
  Operand Passed(Operand& operand);
  Status Define(const std::string& name, Operand operand, Scope& scope);
  Status CheckDeclared(const Operand& operand) const;
  Result<Value> ValueOfOutput(const std::string& name, const Scope& scope);
  Status AddOutputs(const Scope& scope);
  Result<std::string> NameOfLoss() const;

  const pb::ModelProto& model_;
  const std::string& path_;
  const OnnxBuildOptions& options_;
  const FunctionTable functions_;
  GraphBuilder graph_;
  ImportContext context_;
  Opsets opsets_;
  std::vector<const pb::FunctionProto*> inside_;  // functions being written out
  std::map<std::string, const pb::TypeProto::Tensor*> declared_;
  bool shapes_are_the_files_ = true;
  std::deque<Operand> operands_;  // at addresses that stay
  // Of functions that were written out: operands point into them.
  std::deque<google::protobuf::RepeatedPtrField<pb::NodeProto>> bodies_;
  std::unordered_set<ValueId> named_;
  int64_t nodes_ = 0;
};

// --- What is there before any node ---

Status Importer::AddInitializers(const pb::GraphProto& graph, Scope& scope) {
  for (const pb::TensorProto& tensor : graph.initializer()) {
    Operand operand{.name = tensor.name(), .initializer = &tensor};
    STOWAGE_ASSIGN_OR_RETURN(operand.type, TypeOfTensor(tensor));
    STOWAGE_RETURN_IF_ERROR(CheckTensor(tensor, context_.folder));
    // Those of a branch are no weights, which are looked up in the model's own graph.
    operand.fixed = !scope.names_values || !IsFloat(operand.type.dtype) ||
                    operand.type.shape.num_elements() == 0;
    STOWAGE_RETURN_IF_ERROR(Define(tensor.name(), std::move(operand), scope));
  }
  if (graph.sparse_initializer_size() > 0) {
    return Unsupported(StrCat("the graph has ", graph.sparse_initializer_size(),
                              " sparse tensors; expected dense ones"));
  }
  return {};
}

Result<Shape> Importer::ShapeOfInput(const OnnxInput& input) const {
  const auto given = options_.shapes.find(input.name);
  Shape shape;
  if (given != options_.shapes.end()) {
    shape = Shape(std::span<const int64_t>(given->second));
    if (given->second.size() != input.dims.size()) {
      return Wrong(StrCat("the shape ", shape.ToString(), " for input ",
                          Quoted(input.name), " has ", given->second.size(),
                          " dimensions; the file declares ",
                          input.dims.size()));
    }
    return shape;
  }
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const OnnxDim& dim = input.dims[i];
    const auto known = options_.dims.find(dim.symbol);
    if (dim.size > 0) {
      shape.push_back(dim.size);
    } else if (!dim.symbol.empty() && known != options_.dims.end()) {
      shape.push_back(known->second);
    } else {
      return Wrong(
          StrCat("dimension ", i, " of input ", Quoted(input.name), " is ",
                 dim.symbol.empty() ? "not told"
                                    : StrCat("called ", Quoted(dim.symbol)),
                 "; give its size (--dim ",
                 dim.symbol.empty() ? "" : StrCat(dim.symbol, "=N, or "),
                 "--shape ", input.name, "=...)"));
    }
  }
  return shape;
}

Status Importer::CheckOptions(const std::vector<OnnxInput>& inputs) const {
  std::set<std::string> names, symbols;
  for (const OnnxInput& input : inputs) {
    names.insert(input.name);
    for (const OnnxDim& dim : input.dims) {
      if (!dim.symbol.empty()) symbols.insert(dim.symbol);
    }
  }
  const auto list = [](const std::set<std::string>& all) {
    std::string text;
    for (const std::string& name : all) {
      text += StrCat(text.empty() ? "" : ", ", Quoted(name));
    }
    return text.empty() ? std::string("none") : text;
  };
  for (const auto& [name, shape] : options_.shapes) {
    if (!names.contains(name)) {
      return Wrong(StrCat("a shape is given for ", Quoted(name),
                          ", which is no input; there are ", list(names)));
    }
  }
  for (const auto& [name, array] : options_.constants) {
    if (!names.contains(name)) {
      return Wrong(StrCat("a value is given for ", Quoted(name),
                          ", which is no input; there are ", list(names)));
    }
  }
  for (const auto& [name, size] : options_.dims) {
    if (!symbols.contains(name)) {
      return Wrong(StrCat("a size is given for the dimension ", Quoted(name),
                          ", which no input has; there are ", list(symbols)));
    }
  }
  return {};
}

Status Importer::AddInputs(Scope& scope) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<OnnxInput> inputs,
                           InputsOf(model_));
  STOWAGE_RETURN_IF_ERROR(CheckOptions(inputs));
  for (const OnnxInput& input : inputs) {
    Operand operand{.name = input.name};
    const auto constant = options_.constants.find(input.name);
    if (constant != options_.constants.end()) {
      operand.type = constant->second.type;
      operand.contents = std::make_shared<const Array>(constant->second);
      operand.fixed = true;
    } else {
      STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeOfInput(input));
      operand.type = {input.dtype, shape};
      operand.value = graph_.Input(input.name, input.dtype, shape);
      if (graph_.error()) return *graph_.error();
    }
    for (int i = 0; i < static_cast<int>(input.dims.size()); ++i) {
      const int64_t size = input.dims[static_cast<size_t>(i)].size;
      if (size > 0 && i < operand.type.shape.rank() &&
          operand.type.shape[i] != size) {
        shapes_are_the_files_ = false;
      }
    }
    STOWAGE_RETURN_IF_ERROR(Define(input.name, std::move(operand), scope));
  }
  return {};
}

// --- Nodes ---

Status Importer::CheckDeclared(const Operand& operand) const {
  const auto found = declared_.find(operand.name);
  if (found == declared_.end() || !shapes_are_the_files_) return {};
  const pb::TypeProto::Tensor& declared = *found->second;
  const auto differs = [&](std::string_view what) {
    return Wrong(StrCat("the file declares ", Quoted(operand.name), " with ",
                        what, "; its node makes ", operand.type.ToString()));
  };
  const Result<DType> dtype = DTypeOfElement(declared.elem_type());
  if (dtype.ok() && *dtype != operand.type.dtype) {
    return differs(StrCat("elements of ", DTypeName(*dtype)));
  }
  if (!declared.has_shape()) return {};
  if (declared.shape().dim_size() != operand.type.shape.rank()) {
    return differs(StrCat(declared.shape().dim_size(), " dimensions"));
  }
  for (int i = 0; i < operand.type.shape.rank(); ++i) {
    const auto& dim = declared.shape().dim(i);
    if (dim.has_dim_value() && dim.dim_value() != operand.type.shape[i]) {
      return differs(StrCat(dim.dim_value(), " in dimension ", i));
    }
  }
  return {};
}

Status Importer::Define(const std::string& name, Operand operand,
                        Scope& scope) {
  if (name.empty()) return {};
  operands_.push_back(std::move(operand));
  if (!scope.names.emplace(name, &operands_.back()).second) {
    return Twice(name);
  }
  return {};
}

Result<std::vector<Operand*>> Importer::OperandsOf(const pb::NodeProto& node,
                                                   const Scope& scope) {
  std::vector<Operand*> operands;
  for (const std::string& name : node.input()) {
    Operand* const operand = name.empty() ? nullptr : scope.Find(name);
    if (!name.empty() && !operand) {
      return Wrong(StrCat("node ", Quoted(node.name()), " (", node.op_type(),
                          ") reads ", Quoted(name),
                          ", which no node before it makes"));
    }
    operands.push_back(operand);
  }
  while (!operands.empty() && !operands.back()) operands.pop_back();
  return operands;
}

Result<std::vector<Operand>> Importer::Converted(ImportedNode& node,
                                                 const ImportedOp& op) {
  for (int i = 0; i < op.operands; ++i) {
    if (!node.Has(i)) {
      return node.Wrong(StrCat("has ", node.num_operands(),
                               " operands; expected at least ", op.operands));
    }
  }
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
    if (!node.OperandAt(i).parts.empty() && node.op() != "SequenceAt") {
      return node.Unsupported(StrCat("reads the sequence ",
                                     Quoted(node.OperandAt(i).name),
                                     "; only SequenceAt may"));
    }
    const Shape& shape = node.ShapeOf(i);
    const bool known = node.OperandAt(i).contents || node.OperandAt(i).fixed;
    if (!known && std::count(shape.begin(), shape.end(), 0) > 0) {
      return node.Unsupported(StrCat("reads ", Quoted(node.OperandAt(i).name),
                                     " of shape ", shape.ToString(),
                                     ", which has no elements"));
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(const Values values, op.convert(node));
  if (const auto& error = graph_.error()) {
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

// What goes by another name outside: a param is declared once, under its own.
Operand Importer::Passed(Operand& operand) {
  if (!operand.fixed) ValueOf(operand, context_);
  return operand;
}

// The branch of an If whose condition is known.
Result<std::vector<Operand>> Importer::OfBranch(ImportedNode& node,
                                                const Scope& scope) {
  const Array* const condition = node.Fixed(0);
  if (!condition || condition->type.shape.num_elements() != 1) {
    return node.Unsupported(
        "chooses by what is computed in each step; a plan must know the "
        "branch");
  }
  const auto* const branch =
      node.Find(IntsOf(*condition)[0] != 0 ? "then_branch" : "else_branch");
  if (!branch || !branch->has_g()) return node.Wrong("lacks a branch");
  Scope inner{.outer = &scope, .opsets = scope.opsets};
  STOWAGE_RETURN_IF_ERROR(AddInitializers(branch->g(), inner));
  STOWAGE_RETURN_IF_ERROR(AddNodes(branch->g().node(), inner));
  std::vector<Operand> results;
  for (const pb::ValueInfoProto& output : branch->g().output()) {
    Operand* const found = inner.Find(output.name());
    if (!found) {
      return node.Wrong(StrCat("has a branch that does not make its output ",
                               Quoted(output.name())));
    }
    results.push_back(Passed(*found));
  }
  return results;
}

Result<std::vector<Operand>> Importer::OfFunction(
    ImportedNode& node, const pb::FunctionProto& function) {
  if (std::count(inside_.begin(), inside_.end(), &function) > 0) {
    return node.Wrong(StrCat("calls the function ", Quoted(function.name()),
                             ", which calls itself"));
  }
  if (inside_.size() >= kMostDepth) {
    return node.Unsupported(StrCat("calls a function within ", kMostDepth,
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
  inside_.push_back(&function);
  const Status added = AddNodes(body, inner);
  inside_.pop_back();
  STOWAGE_RETURN_IF_ERROR(added);
  std::vector<Operand> results;
  for (const std::string& name : function.output()) {
    Operand* const found = inner.Find(name);
    results.push_back(found ? Passed(*found) : Operand{});
  }
  return results;
}

Result<std::vector<Operand>> Importer::StandingIn(ImportedNode& node) {
  Values operands;
  for (int i = 0; i < node.num_operands(); ++i) {
    if (node.Has(i)) operands.push_back(node.In(i));
  }
  std::vector<Shape> shapes;
  std::optional<DType> dtype;
  for (int i = 0; i < node.num_results(); ++i) {
    const std::string& name = node.proto().output(i);
    if (name.empty()) continue;
    const auto found = declared_.find(name);
    Shape shape;
    bool known = found != declared_.end() && found->second->has_shape();
    if (known) {
      for (const auto& dim : found->second->shape().dim()) {
        const auto symbol = options_.dims.find(dim.dim_param());
        const int64_t size = dim.has_dim_value()             ? dim.dim_value()
                             : symbol != options_.dims.end() ? symbol->second
                                                             : 0;
        known = known && size > 0;
        shape.push_back(size);
      }
    }
    if (!known || operands.empty()) {
      return node.Unsupported(
          StrCat("is not known, and cannot be stood in for: it has ",
                 operands.size(), " operands, and the file declares ",
                 found == declared_.end() ? "no shape" : "no whole shape",
                 " for ", Quoted(name)));
    }
    STOWAGE_ASSIGN_OR_RETURN(const DType of,
                             DTypeOfElement(found->second->elem_type()));
    if (dtype && *dtype != of) {
      return node.Unsupported("is not known, and makes values of two types");
    }
    dtype = of;
    shapes.push_back(shape);
  }
  const Values made = StandIn(operands, dtype.value_or(DType::kF32), shapes, 0);
  if (const auto& error = graph_.error()) {
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

Result<std::vector<Operand>> Importer::ResultsOf(const pb::NodeProto& node,
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
  if (node.op_type() == "If") return OfBranch(imported, scope);
  return Converted(imported, *FindOp(node.domain(), node.op_type()));
}

// The tensor of the file to which an Identity gives a second name. It stays what it
// is, a param or a state, as whoever reads it wants.
Operand* Importer::Renamed(const pb::NodeProto& node,
                           const Scope& scope) const {
  if (node.op_type() != "Identity" || !IsOnnxDomain(node.domain()) ||
      node.input_size() != 1 || node.output_size() != 1) {
    return nullptr;
  }
  Operand* const operand = scope.Find(node.input(0));
  return operand && operand->initializer ? operand : nullptr;
}

Status Importer::AddNode(const pb::NodeProto& node, Scope& scope) {
  if (++nodes_ > kMostNodes) return TooManyNodes();
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
    if (i >= static_cast<int>(results.size())) {
      return Unsupported(StrCat(
          "node ", Quoted(node.name()), " (", node.op_type(), ") names ",
          node.output_size(), " results; ", results.size(), " are made here"));
    }
    Operand& result = results[static_cast<size_t>(i)];
    result.name = name;
    if (scope.names.contains(name)) return Twice(name);
    if (scope.names_values) {
      STOWAGE_RETURN_IF_ERROR(CheckDeclared(result));
      const Value value = result.value;
      if (value.ok() && !graph_.info(value).is_leaf() &&
          named_.insert(value.id()).second) {
        graph_.Name(name, value);
        if (graph_.error()) return *graph_.error();
      }
    }
    STOWAGE_RETURN_IF_ERROR(Define(name, std::move(result), scope));
  }
  return {};
}

// Its names are held to the rules all the same.
Status Importer::LeaveOut(const pb::NodeProto& node, Scope& scope) {
  const Result<std::vector<Operand*>> operands = OperandsOf(node, scope);
  if (!operands.ok()) return operands.error();
  for (const std::string& name : node.output()) {
    STOWAGE_RETURN_IF_ERROR(Define(name, {.name = name}, scope));
  }
  return {};
}

Status Importer::AddNodes(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    Scope& scope, const std::vector<bool>& needed) {
  for (int i = 0; i < nodes.size(); ++i) {
    if (!needed.empty() && !needed[static_cast<size_t>(i)]) {
      STOWAGE_RETURN_IF_ERROR(LeaveOut(nodes.Get(i), scope));
      continue;
    }
    if (scope.names_values) {
      graph_.SetOrigin(Phase::kForward, "", KeptSourceLoc(path_, i + 1));
    }
    STOWAGE_RETURN_IF_ERROR(AddNode(nodes.Get(i), scope));
  }
  return {};
}

// --- What comes out ---

// The output that the loss judges, or is.
Result<std::string> Importer::NameOfLoss() const {
  const pb::GraphProto& graph = model_.graph();
  const std::string& name = options_.loss->output;
  if (name.empty()) return graph.output(0).name();
  std::string list;
  for (const pb::ValueInfoProto& output : graph.output()) {
    if (output.name() == name) return name;
    list += StrCat(list.empty() ? "" : ", ", Quoted(output.name()));
  }
  return Wrong(StrCat("the model has no output ", Quoted(name),
                      " to train for; its outputs are ", list,
                      ", and losses of them cross_entropy, mse and bce"));
}

Result<Value> Importer::ValueOfOutput(const std::string& name,
                                      const Scope& scope) {
  Operand* const found = scope.Find(name);
  if (!found) {
    return Wrong(
        StrCat("the graph's output ", Quoted(name), " is made by no node"));
  }
  if (found->type.shape.num_elements() == 0) {
    return Unsupported(StrCat("the output ", Quoted(name), " of shape ",
                              found->type.shape.ToString(),
                              " has no elements"));
  }
  const Value value = ValueOf(*found, context_);
  if (graph_.error()) return *graph_.error();
  return value;
}

Status Importer::AddOutputs(const Scope& scope) {
  std::unordered_set<ValueId> given;
  for (const pb::ValueInfoProto& output : model_.graph().output()) {
    STOWAGE_ASSIGN_OR_RETURN(const Value value,
                             ValueOfOutput(output.name(), scope));
    // What is written elsewhere, or given out twice, is given out as a copy.
    const bool own = !graph_.info(value).is_leaf() &&
                     graph_.info(value).role != Role::kConstant &&
                     given.insert(value.id()).second;
    if (own) {
      graph_.Output(output.name(), value);
      continue;
    }
    const Value copy = Copy(value);
    const bool is_free = !graph_.Find(output.name());
    graph_.Output(is_free ? output.name() : StrCat(output.name(), ".out"),
                  copy);
  }
  return {};
}

Result<Graph> Importer::Run() {
  opsets_ = OpsetsOf(model_.opset_import());
  if (!opsets_.contains("")) {
    return Unsupported("the file does not say which operator set it asks for");
  }
  STOWAGE_RETURN_IF_ERROR(CheckOpset(opsets_));
  const MissingOps missing = FindMissingOps(model_, functions_);
  if (!missing.empty() && !options_.stand_ins) {
    return Unsupported(StrCat(
        Quoted(path_), " has ops that are not known: ", ToText(missing),
        "; docs/onnx_ops.md lists those that are, and with stand-ins the file "
        "can be planned"));
  }
  const pb::GraphProto& graph = model_.graph();
  // Before any is written out, and takes memory.
  if (functions_.CountWrittenOut(graph.node(), kMostNodes + 1, kMostDepth) >
      kMostNodes) {
    return TooManyNodes();
  }
  for (const auto* list : {&graph.value_info(), &graph.output()}) {
    for (const pb::ValueInfoProto& info : *list) {
      if (info.type().has_tensor_type()) {
        declared_[info.name()] = &info.type().tensor_type();
      }
    }
  }
  for (const pb::NodeProto& node : graph.node()) {
    for (const std::string& name : node.output()) graph_.KeepFree(name);
  }
  for (const pb::TensorProto& tensor : graph.initializer()) {
    graph_.KeepFree(tensor.name());
  }
  Scope scope{.opsets = &opsets_, .names_values = true};
  STOWAGE_RETURN_IF_ERROR(AddInitializers(graph, scope));
  STOWAGE_RETURN_IF_ERROR(AddInputs(scope));
  if (graph.output_size() == 0) return Wrong("the graph has no outputs");
  if (options_.loss) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string name, NameOfLoss());
    STOWAGE_RETURN_IF_ERROR(
        AddNodes(graph.node(), scope, NodesFor(name, graph.node())));
    graph_.SetOrigin(Phase::kForward, "");
    STOWAGE_ASSIGN_OR_RETURN(const Value output, ValueOfOutput(name, scope));
    STOWAGE_RETURN_IF_ERROR(
        AddLoss(graph_, *options_.loss, name, output, options_.evaluation));
  } else {
    STOWAGE_RETURN_IF_ERROR(AddNodes(graph.node(), scope));
    graph_.SetOrigin(Phase::kForward, "");
    STOWAGE_RETURN_IF_ERROR(AddOutputs(scope));
  }
  return graph_.Finish();
}

}  // namespace

Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model) {
  std::set<std::string> held;
  for (const pb::TensorProto& tensor : model.graph().initializer()) {
    held.insert(tensor.name());
  }
  std::vector<OnnxInput> inputs;
  for (const pb::ValueInfoProto& info : model.graph().input()) {
    // Up to IR version 3 the file's tensors are inputs, too.
    if (held.contains(info.name())) continue;
    if (!info.type().has_tensor_type()) {
      return Unsupported(
          StrCat("input ", Quoted(info.name()), " is no dense tensor"));
    }
    OnnxInput input{.name = info.name()};
    const Result<DType> dtype =
        DTypeOfElement(info.type().tensor_type().elem_type());
    if (!dtype.ok()) {
      return Unsupported(
          StrCat("input ", Quoted(info.name()), ": ", dtype.error().message));
    }
    input.dtype = *dtype;
    for (const auto& dim : info.type().tensor_type().shape().dim()) {
      input.dims.push_back({dim.has_dim_value() ? dim.dim_value() : 0,
                            dim.has_dim_param() ? dim.dim_param() : ""});
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Result<Graph> Import(const pb::ModelProto& model, const std::string& path,
                     const OnnxBuildOptions& options) {
  return Importer(model, path, options).Run();
}

}  // namespace stowage::onnx
