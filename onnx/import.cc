#include "onnx/import.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "onnx/inputs.h"
#include "onnx/loss.h"
#include "onnx/needed_nodes.h"
#include "onnx/node.h"
#include "onnx/node_importer.h"
#include "onnx/scope.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

Error Wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, StrCat("[onnx] ", message)};
}
Error Unsupported(std::string message) {
  return {ErrorCode::kUnsupported, StrCat("[onnx] ", message)};
}

class Importer {
 public:
  Importer(const pb::ModelProto& model, const std::string& path,
           const OnnxBuildOptions& options)
      : model_(model),
        options_(options),
        graph_(model.graph().name().empty() ? "onnx" : model.graph().name()),
        nodes_(model, path, options, &graph_) {}

  Result<Graph> Run();

 private:
  Status AddInputs(Scope& scope);
  Result<Value> ValueOfOutput(const std::string& name, const Scope& scope);
  Status AddOutputs(const std::vector<std::string>& names, const Scope& scope);
  std::vector<std::string> Outputs() const;
  std::string ListOfOutputs() const;
  Result<std::string> NameOfLoss() const;
  Result<std::vector<std::string>> TrainedOutputs() const;
  Status Judge(const std::string& name, const Scope& scope);

  const pb::ModelProto& model_;
  const OnnxBuildOptions& options_;
  GraphBuilder graph_;
  NodeImporter nodes_;
};

Status Importer::AddInputs(Scope& scope) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<OnnxInput> inputs,
                           InputsOf(model_));
  STOWAGE_RETURN_IF_ERROR(CheckOptions(inputs, options_));
  for (const OnnxInput& input : inputs) {
    Operand operand{.name = input.name};
    const auto constant = options_.constants.find(input.name);
    if (constant != options_.constants.end()) {
      operand.type = constant->second.type;
      operand.contents = std::make_shared<const Array>(constant->second);
      operand.fixed = true;
    } else {
      STOWAGE_ASSIGN_OR_RETURN(const Shape shape,
                               ShapeOfInput(input, options_));
      operand.type = {input.dtype, shape};
      // Such a scalar counts the step's own numbers.
      const bool is_counter = input.dtype == DType::kI64 && shape.rank() == 0 &&
                              (input.name == "step" || input.name == "seed");
      operand.value =
          graph_.Input(is_counter ? input.name : nodes_.NameInGraph(input.name),
                       input.dtype, shape);
      if (graph_.error()) return *graph_.error();
    }
    for (int i = 0; i < static_cast<int>(input.dims.size()); ++i) {
      const int64_t size = input.dims[static_cast<size_t>(i)].size;
      if (size > 0 && i < operand.type.shape.rank() &&
          operand.type.shape[i] != size) {
        nodes_.ShapesDiffer();
      }
    }
    STOWAGE_RETURN_IF_ERROR(
        nodes_.Define(input.name, std::move(operand), scope));
  }
  return {};
}

std::vector<std::string> Importer::Outputs() const {
  std::vector<std::string> names;
  for (const pb::ValueInfoProto& output : model_.graph().output()) {
    names.push_back(output.name());
  }
  return names;
}

std::string Importer::ListOfOutputs() const {
  std::string list;
  for (const std::string& name : Outputs()) {
    list += StrCat(list.empty() ? "" : ", ", Quoted(name));
  }
  return list;
}

// The output that the loss judges, or is.
Result<std::string> Importer::NameOfLoss() const {
  const pb::GraphProto& graph = model_.graph();
  const std::string& name = options_.loss->output;
  if (name.empty()) return graph.output(0).name();
  for (const pb::ValueInfoProto& output : graph.output()) {
    if (output.name() == name) return name;
  }
  return Wrong(StrCat("the model has no output ", Quoted(name),
                      " to train for; its outputs are ", ListOfOutputs(),
                      ", and losses of them cross_entropy, mse and bce"));
}

// The outputs whose weights the loss trains: those that need no others.
Result<std::vector<std::string>> Importer::TrainedOutputs() const {
  const pb::GraphProto& graph = model_.graph();
  STOWAGE_ASSIGN_OR_RETURN(const std::string loss, NameOfLoss());
  const auto needs = [&](const std::string& name) {
    auto names = ReadBy(graph.node(), NodesFor(name, graph.node()));
    names.insert(name);
    return names;
  };
  const auto trained = needs(loss);
  std::vector<std::string> outputs;
  for (const std::string& output : Outputs()) {
    const auto needed = needs(output);
    const bool is_trained = std::all_of(
        graph.initializer().begin(), graph.initializer().end(),
        [&](const pb::TensorProto& tensor) {
          const Result<DType> dtype = DTypeOfElement(tensor.data_type());
          return !needed.contains(tensor.name()) ||
                 trained.contains(tensor.name()) ||
                 (dtype.ok() && !IsFloat(*dtype));
        });
    if (is_trained) outputs.push_back(output);
  }
  return outputs;
}

// Adds the loss of the output `name`. Errors say which other outputs it could be of.
Status Importer::Judge(const std::string& name, const Scope& scope) {
  STOWAGE_ASSIGN_OR_RETURN(const Value output, ValueOfOutput(name, scope));
  Status added =
      AddLoss(graph_, *options_.loss, name, output, options_.evaluation);
  const auto is_weight = [](const ValueInfo& value) {
    return value.role == Role::kParam || value.role == Role::kState;
  };
  const auto values = graph_.graph().values();
  if (added.ok() && model_.graph().initializer_size() > 0 &&
      std::none_of(values.begin(), values.end(), is_weight)) {
    added = Wrong(StrCat("the output ", Quoted(name),
                         ", which the loss is of, depends on no weight"));
  }
  if (added.ok() || model_.graph().output_size() < 2) return added;
  Error error = added.error();
  error.message +=
      StrCat("; the loss is of the output ", Quoted(name), ", and there are ",
             ListOfOutputs(), ": cross_entropy:OUTPUT, say, names another");
  return error;
}

Result<Value> Importer::ValueOfOutput(const std::string& name,
                                      const Scope& scope) {
  Operand* const found = scope.Find(name);
  if (!found) {
    return Wrong(
        StrCat("the graph's output ", Quoted(name), " is made by no node"));
  }
  if (!found->parts.empty()) {
    return Unsupported(StrCat("the output ", Quoted(name),
                              " is a sequence of tensors; expected a tensor"));
  }
  if (found->type.shape.num_elements() == 0) {
    return Unsupported(StrCat("the output ", Quoted(name), " of shape ",
                              found->type.shape.ToString(),
                              " has no elements"));
  }
  const Value value = ValueOf(*found, nodes_.context());
  if (graph_.error()) return *graph_.error();
  return value;
}

Status Importer::AddOutputs(const std::vector<std::string>& names,
                            const Scope& scope) {
  std::unordered_set<ValueId> given;
  for (const std::string& name : names) {
    STOWAGE_ASSIGN_OR_RETURN(const Value value, ValueOfOutput(name, scope));
    // What is written elsewhere, or given out twice, is given out as a copy.
    const bool own = !graph_.info(value).is_leaf() &&
                     graph_.info(value).role != Role::kConstant &&
                     given.insert(value.id()).second;
    if (own) {
      graph_.Output(name, value);
      continue;
    }
    const Value copy = Copy(value);
    const bool is_free = !graph_.Find(name);
    graph_.Output(is_free ? name : StrCat(name, ".out"), copy);
  }
  return {};
}

Result<Graph> Importer::Run() {
  STOWAGE_RETURN_IF_ERROR(nodes_.CheckModel());
  const pb::GraphProto& graph = model_.graph();
  Scope scope = nodes_.ModelScope();
  STOWAGE_RETURN_IF_ERROR(nodes_.AddInitializers(graph, scope));
  STOWAGE_RETURN_IF_ERROR(AddInputs(scope));
  STOWAGE_RETURN_IF_ERROR(nodes_.CheckNames(scope));
  if (graph.output_size() == 0) return Wrong("the graph has no outputs");
  if (options_.loss && !options_.trained_outputs) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string name, NameOfLoss());
    STOWAGE_RETURN_IF_ERROR(
        nodes_.AddNodes(graph.node(), scope, NodesFor(name, graph.node())));
    graph_.SetOrigin(Phase::kForward, "");
    STOWAGE_RETURN_IF_ERROR(Judge(name, scope));
  } else {
    std::vector<std::string> outputs = Outputs();
    std::vector<bool> needed;  // empty: all
    if (options_.loss) {
      STOWAGE_ASSIGN_OR_RETURN(outputs, TrainedOutputs());
      needed.resize(static_cast<size_t>(graph.node_size()));
      for (const std::string& output : outputs) {
        const std::vector<bool> of_output = NodesFor(output, graph.node());
        for (size_t i = 0; i < needed.size(); ++i) {
          needed[i] = needed[i] || of_output[i];
        }
      }
    }
    STOWAGE_RETURN_IF_ERROR(nodes_.AddNodes(graph.node(), scope, needed));
    graph_.SetOrigin(Phase::kForward, "");
    STOWAGE_RETURN_IF_ERROR(AddOutputs(outputs, scope));
  }
  return graph_.Finish();
}

}  // namespace

Result<Graph> Import(const pb::ModelProto& model, const std::string& path,
                     const OnnxBuildOptions& options) {
  return Importer(model, path, options).Run();
}

}  // namespace stowage::onnx
