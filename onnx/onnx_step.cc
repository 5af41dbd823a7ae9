#include "onnx/onnx_step.h"

#include <utility>

#include "base/strings.h"
#include "ir/canonicalize/canonicalize.h"

namespace stowage {

OnnxLoss ParseOnnxLoss(std::string_view text) {
  constexpr std::pair<std::string_view, OnnxLossKind> kKinds[] = {
      {"cross_entropy", OnnxLossKind::kCrossEntropy},
      {"mse", OnnxLossKind::kMse},
      {"bce", OnnxLossKind::kBce}};
  for (const auto& [name, kind] : kKinds) {
    if (!text.starts_with(name)) continue;
    const std::string_view rest = text.substr(name.size());
    if (rest.empty()) return {.kind = kind};
    if (rest[0] == ':') {
      return {.kind = kind, .output = std::string(rest.substr(1))};
    }
  }
  return {.kind = OnnxLossKind::kOutput, .output = std::string(text)};
}

Result<Graph> OnnxStep::Build(int64_t examples, bool evaluation) const {
  STOWAGE_ASSIGN_OR_RETURN(Canonicalized canonical,
                           BuildCanonical(examples, evaluation));
  return std::move(canonical.graph);
}

Result<Canonicalized> OnnxStep::BuildCanonical(int64_t examples,
                                               bool evaluation) const {
  OnnxBuildOptions of_batch = options;
  of_batch.evaluation = evaluation;
  if (labels_follow_batch) (*of_batch.loss->labels_shape)[0] = examples;
  if (!batch_symbol.empty()) {
    of_batch.dims[batch_symbol] = examples;
  } else if (examples != batch) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[onnx] the file fixes its batch at ", batch,
                        " examples and cannot take ", examples,
                        "; export it with a dimension that has a name")};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, model.Build(of_batch));
  return Canonicalize(graph);
}

Result<Graph> OnnxStep::BuildResized(int64_t examples) const {
  OnnxBuildOptions of_batch = options;
  if (examples != batch) of_batch.resized = {.from = batch, .to = examples};
  for (const OnnxInput& input : model.inputs()) {
    std::vector<int64_t>& shape = of_batch.shapes[input.name];
    if (shape.empty()) {
      for (const OnnxDim& dim : input.dims) {
        const auto known = of_batch.dims.find(dim.symbol);
        shape.push_back(dim.size > 0 || known == of_batch.dims.end()
                            ? dim.size
                            : known->second);
      }
    }
    if (!shape.empty() && shape[0] == batch) shape[0] = examples;
  }
  of_batch.dims.clear();  // which these shapes have
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, model.Build(of_batch));
  STOWAGE_ASSIGN_OR_RETURN(Canonicalized canonical, Canonicalize(graph));
  return std::move(canonical.graph);
}

Result<OnnxStep> SizeOnnxStep(OnnxModel model, OnnxBuildOptions options,
                              std::optional<int64_t> batch) {
  OnnxStep step{.model = std::move(model),
                .options = std::move(options),
                .batch_symbol = {}};
  // Labels are no input of the file.
  if (step.options.loss && step.options.shapes.contains("labels")) {
    step.options.loss->labels_shape = step.options.shapes["labels"];
    step.options.shapes.erase("labels");
    step.labels_follow_batch = !step.options.loss->labels_shape->empty();
  }
  if (step.model.inputs().empty() || step.model.inputs()[0].dims.empty()) {
    step.batch = batch.value_or(1);
    return step;
  }
  const OnnxInput& first = step.model.inputs()[0];
  const auto given = step.options.shapes.find(first.name);
  if (given != step.options.shapes.end()) {
    if (!given->second.empty()) step.batch = given->second[0];
  } else if (first.dims[0].size > 0) {
    step.batch = first.dims[0].size;
  } else {
    step.batch_symbol = first.dims[0].symbol;
    const auto size = step.options.dims.find(step.batch_symbol);
    step.batch =
        size != step.options.dims.end() ? size->second : batch.value_or(1);
  }
  if (batch && *batch != step.batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[onnx] a batch of ", *batch,
                        " contradicts the first dimension of input ",
                        Quoted(first.name), ", ", step.batch)};
  }
  return step;
}

}  // namespace stowage
