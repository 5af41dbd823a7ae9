#include "tools/onnx_flags.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "report/text.h"
#include "tools/arrays_task.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "train/fine_tuning.h"

namespace stowage::tools {

namespace {

Result<int64_t> ParseSize(std::string_view option, std::string_view text) {
  int64_t size = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, size);
  if (parsed.ec != std::errc() || parsed.ptr != end || size < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[", option, "] ", Quoted(text), " is no size of at least 1")};
  }
  return size;
}

// Splits NAME=VALUE at the last "=", since names in files may contain any character.
Result<std::pair<std::string, std::string>> ParsePair(std::string_view option,
                                                      std::string_view text) {
  const size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[", option, "] ", Quoted(text),
                        " is not NAME=", option == "dim" ? "N" : "N,N,...")};
  }
  return std::pair(std::string(text.substr(0, at)),
                   std::string(text.substr(at + 1)));
}

Result<std::vector<int64_t>> ParseDims(std::string_view text) {
  std::vector<int64_t> dims;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    STOWAGE_ASSIGN_OR_RETURN(const int64_t dim,
                             ParseSize("shape", text.substr(0, comma)));
    dims.push_back(dim);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return dims;
}

}  // namespace

void AddOnnxOptions(Options& options, OnnxFlags* flags) {
  options.Group("model");
  options.Add("--onnx", &flags->file,
              "The model of this ONNX file, instead of a --model");
  options.AddEach(
      "--dim", &flags->dims,
      "NAME=N: the size of a named dimension of the file; may be repeated");
  options.AddEach(
      "--shape", &flags->shapes,
      "INPUT=N,N,...: the whole shape of an input; may be repeated");
  options.Add(
      "--loss", &flags->loss,
      "Loss of an ONNX file's model: cross_entropy, mse or bce of its first "
      "output, or of another as cross_entropy:OUTPUT; or the name of an output "
      "that is the loss; without it, a forward pass is planned");
  options.AddEach(
      "--freeze", &flags->freeze,
      "Params that are not trained, by a pattern of names; may be repeated");
  options.AddEach(
      "--trainable", &flags->trainable,
      "Tensors of an ONNX file to train although they look like constants "
      "(--list-params), by a pattern of names; may be repeated");
}

void AddInputMapOption(Options& options, ArrayFlags* flags) {
  options.AddEach("--input-map", &flags->input_map,
                  "INPUT=ARRAY: the array of an .npz for an ONNX file's input "
                  "of another name; may be repeated");
}

namespace {

Error GivenTwice(std::string_view option, const std::string& name) {
  return InvalidArgumentError("[", option, "] ", Quoted(name),
                              " is given twice; give it once");
}

}  // namespace

Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(OnnxModel model, ReadOnnx(onnx.file));
  OnnxBuildOptions options{.trainable = onnx.trainable,
                           .stand_ins = onnx.stand_ins};
  for (const std::string& text : onnx.dims) {
    STOWAGE_ASSIGN_OR_RETURN(const auto dim, ParsePair("dim", text));
    if (options.dims.contains(dim.first)) return GivenTwice("dim", dim.first);
    STOWAGE_ASSIGN_OR_RETURN(options.dims[dim.first],
                             ParseSize("dim", dim.second));
  }
  for (const std::string& text : onnx.shapes) {
    STOWAGE_ASSIGN_OR_RETURN(const auto shape, ParsePair("shape", text));
    if (options.shapes.contains(shape.first)) {
      return GivenTwice("shape", shape.first);
    }
    STOWAGE_ASSIGN_OR_RETURN(options.shapes[shape.first],
                             ParseDims(shape.second));
  }
  if (!onnx.loss.empty()) options.loss = ParseOnnxLoss(onnx.loss);
  return SizeOnnxStep(std::move(model), std::move(options), flags.batch);
}

namespace {

// The params that no gradient of the loss reaches; none if the graph cannot be differentiated,
// which BuildBackward reports later.
std::set<std::string> UnreachedParams(const Graph& graph) {
  const auto names = FindUnreachedParams(graph, "loss");
  if (!names.ok()) return {};
  return {names->begin(), names->end()};
}

}  // namespace

Result<std::string> ListParams(const OnnxStep& step, const OnnxFlags& onnx,
                               bool json) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, step.Build(step.batch));
  const std::set<std::string> unreached =
      step.options.loss ? UnreachedParams(graph) : std::set<std::string>();
  const auto frozen_by = [&](const std::string& name) -> const std::string* {
    const auto found = std::ranges::find_if(
        onnx.freeze,
        [&](const std::string& pattern) { return GlobMatches(pattern, name); });
    return found == onnx.freeze.end() ? nullptr : &*found;
  };
  const auto become = [&](const OnnxTensor& tensor)
      -> std::pair<std::string_view, std::string> {
    const std::optional<ValueId> id = graph.Find(tensor.name);
    const Role role = id ? graph.value(*id).role : Role::kConstant;
    if (role == Role::kState) return {"state", "the step writes it"};
    if (role != Role::kParam) {
      if (!tensor.constant.empty()) return {"constant", tensor.constant};
      return {"left out", step.options.loss ? "the loss does not read it"
                                            : "no output reads it"};
    }
    if (!step.options.loss) return {"read", ""};
    if (const std::string* const pattern = frozen_by(tensor.name)) {
      return {"frozen", StrCat("--freeze ", *pattern)};
    }
    if (unreached.contains(tensor.name)) {
      return {"frozen", "no gradient reaches it"};
    }
    return {"trained", ""};
  };
  std::string text = "becomes   type                    name\n";
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const OnnxTensor& tensor : step.model.tensors()) {
    const auto [becomes, why] = become(tensor);
    const std::string type = tensor.type.ToString();
    text += StrCat(PadRight(std::string(becomes), 10), PadRight(type, 24),
                   WithoutControls(tensor.name), why.empty() ? "" : ": ", why,
                   "\n");
    rows.push_back({{"name", tensor.name},
                    {"type", type},
                    {"becomes", becomes},
                    {"why", why}});
  }
  if (!json) return text;
  return nlohmann::ordered_json{{"params", std::move(rows)}}.dump(
             2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

Result<TrainingSpec> ReadOnnxTraining(const OnnxStep& step,
                                      const OnnxFlags& onnx,
                                      const ModelFlags& flags) {
  ModelFlags named = flags;
  if (named.optimizer.empty()) named.optimizer = "adamw";
  STOWAGE_ASSIGN_OR_RETURN(TrainingSpec training,
                           ReadTrainingFlags(named, {}, step.batch));
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<LoraRules> lora,
                           ReadLora(flags));
  training.model = WithSmoothing(
      flags.optimization,
      WithAdapters([step](int64_t examples) { return step.Build(examples); },
                   lora));
  for (const std::string& pattern : onnx.freeze) {
    training.training.groups.push_back({.pattern = pattern, .frozen = true});
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, training.model(step.batch));
  for (const std::string& name : UnreachedParams(graph)) {
    training.training.groups.push_back({.pattern = name, .frozen = true});
  }
  if (lora) {
    if (!onnx.freeze.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "[lora] --lora-rank freezes all but its adapters; leave "
                   "--freeze away"};
    }
    training.training.groups = LoraGroups();
  }
  STOWAGE_RETURN_IF_ERROR(SetNoDecay(flags.optimization, &training));
  return training;
}

namespace {

// The maximum default batch, if neither the file nor a flag sets it.
constexpr int64_t kUsualBatch = 32;

const Array* FindLabels(const std::vector<NamedArray>& arrays) {
  for (const NamedArray& array : arrays) {
    if (array.name == "labels" && array.array.type.shape.rank() > 0) {
      return &array.array;
    }
  }
  return nullptr;
}

}  // namespace

Result<StepSpec> ReadOnnxRun(const OnnxFlags& onnx, const ArrayFlags& arrays,
                             const RunFlags& flags) {
  if (onnx.loss.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "[train] what the file's model is trained for is not told; give "
        "--loss cross_entropy, mse or bce, or an output that is a loss"};
  }
  STOWAGE_ASSIGN_OR_RETURN(std::vector<NamedArray> read,
                           ReadArrays(flags.data, arrays.input_map));
  STOWAGE_ASSIGN_OR_RETURN(OnnxStep step, ReadOnnxStep(onnx, flags.model));
  const Array* const labels = FindLabels(read);
  const bool is_open = !step.batch_symbol.empty() && !flags.model.batch &&
                       !step.options.dims.contains(step.batch_symbol);
  if (is_open && labels) {
    step.batch = std::min(labels->type.shape[0], kUsualBatch);
  }
  if (labels && step.options.loss->kind == OnnxLossKind::kCrossEntropy) {
    const Shape& shape = labels->type.shape;
    step.options.loss->labels_shape =
        std::vector<int64_t>(shape.begin(), shape.end());
    step.labels_follow_batch = true;
  }
  StepSpec spec;
  STOWAGE_ASSIGN_OR_RETURN(spec.training,
                           ReadOnnxTraining(step, onnx, flags.model));
  spec.onnx = std::make_shared<const OnnxModel>(step.model);
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<LoraRules> lora,
                           ReadLora(flags.model));
  spec.onnx_evaluation = WithAdapters(
      [step](int64_t examples) {
        return step.Build(examples, /*evaluation=*/true);
      },
      lora);
  spec.arrays =
      std::make_shared<const std::vector<NamedArray>>(std::move(read));
  spec.info.name = spec.onnx->name();  // lives as long as the model
  TrainingDefaults& defaults = spec.info.training;
  const Optimizer& optimizer = spec.training.training.optimizer;
  defaults.optimizer = OptimizerName(optimizer);
  defaults.schedule.peak = DefaultLearningRate(optimizer);
  defaults.steps = 100;
  spec.options.batch = step.batch;
  const Result<Graph> graph = spec.training.model(step.batch);
  if (!graph.ok()) return graph.error();
  return spec;
}

Result<StepSpec> ReadStep(std::string_view command, const RunFlags& flags,
                          const OnnxFlags& onnx, const ArrayFlags& arrays) {
  const bool is_file = !onnx.file.empty();
  if (is_file == !flags.model.model.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[", command, "] ",
                        is_file ? "both --model and --onnx are given; give one"
                                : "there is no model; give --model or --onnx")};
  }
  return is_file ? ReadOnnxRun(onnx, arrays, flags) : ReadRunFlags(flags);
}

Status WriteOnnxWeights(const StepSpec& spec, Runner& step) {
  if (!spec.onnx) return {};
  return spec.onnx->ForEachWeight(step.graph(), [&](const NamedArray& weight) {
    return step.WriteBytes(weight.name, weight.array.type.dtype,
                           weight.array.data());
  });
}

}  // namespace stowage::tools
