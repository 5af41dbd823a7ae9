#include "tools/onnx_flags.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "autodiff/optimizer.h"
#include "base/strings.h"
#include "tools/arrays_task.h"
#include "tools/command.h"
#include "tools/optimization_flags.h"
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

// NAME=VALUE; names in files may hold any sign, so the last "=" counts.
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
      "NAME=N: the size of a dimension that the file has by name; may be "
      "repeated");
  options.AddEach(
      "--shape", &flags->shapes,
      "INPUT=N,N,...: the whole shape of an input; may be repeated");
  options.Add("--loss", &flags->loss,
              "What an ONNX file's model is trained for: cross_entropy, mse "
              "or bce of its first output, or an output that is a loss, "
              "by name; without it, a plan is of a pass over the inputs");
  options.AddEach(
      "--freeze", &flags->freeze,
      "Params that are not trained, a pattern of names; may be repeated");
}

Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(OnnxModel model, ReadOnnx(onnx.file));
  OnnxBuildOptions options{.stand_ins = onnx.stand_ins};
  for (const std::string& text : onnx.dims) {
    STOWAGE_ASSIGN_OR_RETURN(const auto dim, ParsePair("dim", text));
    STOWAGE_ASSIGN_OR_RETURN(options.dims[dim.first],
                             ParseSize("dim", dim.second));
  }
  for (const std::string& text : onnx.shapes) {
    STOWAGE_ASSIGN_OR_RETURN(const auto shape, ParsePair("shape", text));
    STOWAGE_ASSIGN_OR_RETURN(options.shapes[shape.first],
                             ParseDims(shape.second));
  }
  if (!onnx.loss.empty()) options.loss = ParseOnnxLoss(onnx.loss);
  return SizeOnnxStep(std::move(model), std::move(options), flags.batch);
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

// As many examples as there are, up to so many, where neither the file nor a flag says.
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
        "--loss"};
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
  spec.info.name = spec.onnx->name();  // which lives as long as the model
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

}  // namespace stowage::tools
