#include "onnx/import.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "formats/array.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "onnx/control_flow.h"
#include "onnx/node.h"
#include "onnx/node_importer.h"
#include "onnx/parse_model.h"
#include "onnx/tensor.h"

namespace stowage::onnx {

namespace {

using Tensors = std::vector<std::pair<std::string, const pb::TensorProto*>>;

void AddTensors(const pb::GraphProto& graph, Tensors* tensors) {
  for (const pb::TensorProto& tensor : graph.initializer()) {
    tensors->emplace_back(tensor.name(), &tensor);
  }
  for (const pb::NodeProto& node : graph.node()) {
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) AddTensors(attribute.g(), tensors);
    }
  }
}

}  // namespace

bool MayNameState(std::string_view name,
                  const std::unordered_set<std::string>& tensors) {
  for (size_t dot = name.find('.'); dot != name.npos;
       dot = name.find('.', dot + 1)) {
    if (tensors.contains(std::string(name.substr(0, dot)))) return true;
  }
  return false;
}

Tensors TensorsOf(const pb::GraphProto& graph) {
  Tensors tensors;
  AddTensors(graph, &tensors);
  std::unordered_set<std::string> names, taken;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  std::unordered_map<std::string, int64_t> counts;
  for (auto& [name, tensor] : tensors) {
    const bool is_free = !IsNameOfStep(name) && !MayNameState(name, names);
    if (is_free && taken.insert(name).second) continue;
    do {
      name = StrCat(tensor->name(), ".", 1 + ++counts[tensor->name()]);
    } while (!taken.insert(name).second);
  }
  return tensors;
}

namespace {

Shape Without(const Shape& shape, int axis) {
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) rest.push_back(shape[i]);
  }
  return rest;
}

// The class axis: the one that the labels lack.
Result<int> ClassAxis(const Shape& logits, const OnnxLoss& loss) {
  if (logits.rank() < 2) {
    return InvalidArgumentError(
        "[onnx] the loss cross_entropy takes logits of two dimensions "
        "or more; they are ",
        logits.ToString());
  }
  if (!loss.labels_shape) return logits.rank() >= 4 ? 1 : logits.rank() - 1;
  const Shape labels{std::span<const int64_t>(*loss.labels_shape)};
  std::optional<int> axis;
  for (int i = 1; i < logits.rank(); ++i) {
    if (Without(logits, i) != labels) continue;
    if (axis) {
      return InvalidArgumentError("[onnx] labels ", labels.ToString(),
                                  " lack dimension ", *axis, " or ", i,
                                  " of logits ", logits.ToString(),
                                  ": which are the classes cannot be told");
    }
    axis = i;
  }
  if (!axis) {
    return InvalidArgumentError("[onnx] labels ", labels.ToString(),
                                " do not go with logits ", logits.ToString(),
                                "; expected their shape without the classes");
  }
  return *axis;
}

// The fraction of labels with the largest logit.
Value Accuracy(Value logits, Value labels) {
  return ReduceMean(
      Cast(Equal(Cast(ArgMax(logits), labels.dtype()), labels), DType::kF32));
}

Result<Value> LossOf(GraphBuilder& g, const OnnxLoss& loss, Value output,
                     bool judges) {
  if (loss.kind == OnnxLossKind::kOutput) return output;
  const Shape shape = output.shape();  // which a new input may move
  if (loss.kind == OnnxLossKind::kCrossEntropy) {
    STOWAGE_ASSIGN_OR_RETURN(const int axis, ClassAxis(shape, loss));
    const Value labels =
        g.Input(loss.labels, DType::kI64, Without(shape, axis));
    Axes order;
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) order.push_back(i);
    }
    order.push_back(axis);
    const Value logits = Permute(output, order);
    const Value cross_entropy = CrossEntropy(logits, labels);
    if (judges) g.Output("accuracy", Accuracy(logits, labels));
    return cross_entropy;
  }
  if (loss.labels_shape &&
      *loss.labels_shape != std::vector<int64_t>(shape.begin(), shape.end())) {
    return InvalidArgumentError(
        "[onnx] the loss compares ", shape.ToString(), " with ",
        Shape(std::span<const int64_t>(*loss.labels_shape)).ToString(),
        "; expected one shape");
  }
  const Value target = g.Input(loss.labels, output.dtype(), shape);
  if (loss.kind == OnnxLossKind::kMse) {
    return MeanSquaredError(output, target);
  }
  // log(1 + e^x) - x t: the cross-entropy of sigmoid(x), without overflow.
  return ReduceMean(Sub(Softplus(output), Mul(output, target)));
}

}  // namespace

Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& name,
               Value output, bool judges) {
  STOWAGE_ASSIGN_OR_RETURN(Value value, LossOf(g, loss, output, judges));
  if (g.error()) return *g.error();
  if (value.shape().num_elements() != 1 || !IsFloat(value.dtype())) {
    return InvalidArgumentError(
        "[onnx] the output ", Quoted(name), " is ", value.type().ToString(),
        "; a loss is one number, or one of cross_entropy, mse "
        "and bce of an output");
  }
  if (value.rank() > 0) value = Reshape(value, {});
  // Losses are f32, whatever the type of the model (Runner::ReadScalar).
  if (value.dtype() != DType::kF32) value = Cast(value, DType::kF32);
  g.Output("loss", value);
  if (g.error()) return *g.error();
  return {};
}

std::string NameInGraph(const std::string& name,
                        const std::unordered_set<std::string>& tensors,
                        const OnnxBuildOptions& options) {
  if (!options.loss) return name;
  const bool is_free = !IsNameOfStep(name) && name != options.loss->labels &&
                       !MayNameState(name, tensors);
  return is_free ? name : StrCat(name, ".2");
}

Result<Shape> ShapeOfInput(const OnnxInput& input,
                           const OnnxBuildOptions& options) {
  const auto given = options.shapes.find(input.name);
  Shape shape;
  if (given != options.shapes.end()) {
    shape = Shape(std::span<const int64_t>(given->second));
    if (given->second.size() != input.dims.size()) {
      return InvalidArgumentError(
          "[onnx] the shape ", shape.ToString(), " for input ",
          Quoted(input.name), " has ", given->second.size(),
          " dimensions; the file declares ", input.dims.size());
    }
    return shape;
  }
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const OnnxDim& dim = input.dims[i];
    const auto known = options.dims.find(dim.symbol);
    if (dim.size > 0) {
      shape.push_back(dim.size);
    } else if (!dim.symbol.empty() && known != options.dims.end()) {
      shape.push_back(known->second);
    } else {
      return InvalidArgumentError(
          "[onnx] dimension ", i, " of input ", Quoted(input.name), " is ",
          dim.symbol.empty() ? "not told"
                             : StrCat("called ", Quoted(dim.symbol)),
          "; give its size (--dim ",
          dim.symbol.empty() ? "" : StrCat(dim.symbol, "=N, or "), "--shape ",
          input.name, "=...)");
    }
  }
  return shape;
}

Status CheckOptions(const std::vector<OnnxInput>& inputs,
                    const OnnxBuildOptions& options) {
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
  for (const auto& [name, shape] : options.shapes) {
    if (!names.contains(name)) {
      return InvalidArgumentError("[onnx] a shape is given for ", Quoted(name),
                                  ", which is no input; there are ",
                                  list(names));
    }
  }
  for (const OnnxInput& input : inputs) {
    const auto shape = options.shapes.find(input.name);
    if (shape == options.shapes.end()) continue;
    const size_t rank = std::min(shape->second.size(), input.dims.size());
    for (size_t i = 0; i < rank; ++i) {
      const auto size = options.dims.find(input.dims[i].symbol);
      if (size == options.dims.end() || size->second == shape->second[i]) {
        continue;
      }
      return InvalidArgumentError(
          "[onnx] dimension ", i, " of input ", Quoted(input.name), ", called ",
          Quoted(size->first), ", is ", shape->second[i],
          " by the shape that is given and ", size->second,
          " by the size that is; leave one of them out");
    }
  }
  for (const auto& [name, array] : options.constants) {
    if (!names.contains(name)) {
      return InvalidArgumentError("[onnx] a value is given for ", Quoted(name),
                                  ", which is no input; there are ",
                                  list(names));
    }
  }
  for (const auto& [name, size] : options.dims) {
    if (!symbols.contains(name)) {
      return InvalidArgumentError(
          "[onnx] a size is given for the dimension ", Quoted(name),
          ", which no input has; there are ", list(symbols));
    }
  }
  return {};
}

Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model) {
  std::set<std::string> held;
  for (const pb::TensorProto& tensor : model.graph().initializer()) {
    held.insert(tensor.name());
  }
  std::vector<OnnxInput> inputs;
  for (const pb::ValueInfoProto& info : model.graph().input()) {
    // Up to IR version 3 the file's tensors are also inputs.
    if (held.contains(info.name())) continue;
    if (!info.type().has_tensor_type()) {
      return UnsupportedError("[onnx] input ", Quoted(info.name()),
                              " is no dense tensor");
    }
    OnnxInput input{.name = info.name()};
    const Result<DType> dtype =
        DTypeOfElement(info.type().tensor_type().elem_type());
    if (!dtype.ok()) {
      return UnsupportedError("[onnx] input ", Quoted(info.name()), ": ",
                              dtype.error().message);
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

namespace {

class Importer {
 public:
  Importer(const pb::ModelProto& model, const std::string& path,
           const std::map<std::string, std::string>& constants,
           const OnnxBuildOptions& options)
      : model_(model),
        options_(options),
        graph_(model.graph().name().empty() ? "onnx" : model.graph().name()),
        nodes_(model, path, constants, options, &graph_) {}

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
      // Such a scalar is the step number.
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

// The operand of the loss, or the loss.
Result<std::string> Importer::NameOfLoss() const {
  const pb::GraphProto& graph = model_.graph();
  const std::string& name = options_.loss->output;
  if (name.empty()) return graph.output(0).name();
  for (const pb::ValueInfoProto& output : graph.output()) {
    if (output.name() == name) return name;
  }
  return InvalidArgumentError(
      "[onnx] the model has no output ", Quoted(name),
      " to train for; its outputs are ", ListOfOutputs(),
      ", and losses of them cross_entropy, mse and bce");
}

// The outputs that depend only on weights that the loss trains.
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

// Adds the loss of the output `name`. Errors list the other outputs.
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
    added =
        InvalidArgumentError("[onnx] the output ", Quoted(name),
                             ", which the loss is of, depends on no weight");
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
    return InvalidArgumentError("[onnx] the graph's output ", Quoted(name),
                                " is made by no node");
  }
  if (!found->parts.empty()) {
    return UnsupportedError("[onnx] the output ", Quoted(name),
                            " is a sequence of tensors; expected a tensor");
  }
  if (found->type.shape.num_elements() == 0) {
    return UnsupportedError("[onnx] the output ", Quoted(name), " of shape ",
                            found->type.shape.ToString(), " has no elements");
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
    // A value with another role, or of two outputs, is copied.
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
  if (graph.output_size() == 0)
    return InvalidArgumentError("[onnx] the graph has no outputs");
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
                     const std::map<std::string, std::string>& constants,
                     const OnnxBuildOptions& options) {
  return Importer(model, path, constants, options).Run();
}

}  // namespace stowage::onnx
