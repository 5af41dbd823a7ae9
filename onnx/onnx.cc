#include "onnx/onnx.h"

#ifdef STOWAGE_HAS_PROTOBUF
#include <google/protobuf/arena.h>
#endif

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/files.h"
#include "base/strings.h"
#include "ir/canonicalize/canonicalize.h"
#ifdef STOWAGE_HAS_PROTOBUF
#include "onnx/import.h"
#include "onnx/onnx.pb.h"
#include "onnx/parse_model.h"
#include "onnx/tensor.h"
#endif

namespace stowage {

#ifdef STOWAGE_HAS_PROTOBUF

namespace {

constexpr int64_t kOldestVersion = 3;
constexpr int64_t kNewestVersion = 14;
constexpr size_t kMaxBytes = 2'147'483'647;  // of what protobuf writes

}  // namespace

struct OnnxModel::File {
  std::string path;
  google::protobuf::Arena arena;
  const onnx::pb::ModelProto* model = nullptr;  // of the arena
  std::vector<OnnxInput> inputs;
  std::vector<std::string> outputs;
  std::unordered_map<std::string, const onnx::pb::TensorProto*> tensors;
  std::map<std::string, std::string> constants;

  // The tensor of a param or state of a graph; null for other values and an optimizer's
  // states.
  const onnx::pb::TensorProto* Find(const ValueInfo& value) const {
    if (value.role != Role::kParam && value.role != Role::kState) {
      return nullptr;
    }
    const auto found = tensors.find(value.name);
    return found == tensors.end() ? nullptr : found->second;
  }
};

OnnxModel::OnnxModel(std::shared_ptr<const File> file)
    : file_(std::move(file)) {}

const std::string& OnnxModel::name() const {
  return file_->model->graph().name();
}
std::span<const OnnxInput> OnnxModel::inputs() const { return file_->inputs; }
std::span<const std::string> OnnxModel::outputs() const {
  return file_->outputs;
}

std::vector<OnnxTensor> OnnxModel::tensors() const {
  std::vector<OnnxTensor> tensors;
  for (const auto& [name, tensor] : onnx::TensorsOf(file_->model->graph())) {
    const Result<TensorType> type = onnx::TypeOfTensor(*tensor);
    if (!type.ok() || !IsFloat(type->dtype)) continue;
    const auto constant = file_->constants.find(name);
    tensors.push_back({name, *type,
                       constant == file_->constants.end() ? std::string()
                                                          : constant->second});
  }
  return tensors;
}

Result<Graph> OnnxModel::Build(const OnnxBuildOptions& options) const {
  for (const std::string& pattern : options.trainable) {
    const bool is_any =
        std::ranges::any_of(file_->constants, [&](const auto& constant) {
          return GlobMatches(pattern, constant.first);
        });
    if (is_any) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[trainable] no constant of ", Quoted(file_->path),
               " is called as ", Quoted(pattern), "; it has ",
               file_->constants.size(), ", and what is none trains already")};
  }
  return onnx::Import(*file_->model, file_->path, file_->constants, options);
}

Status OnnxModel::ForEachWeight(
    const Graph& graph,
    const std::function<Status(const NamedArray&)>& take) const {
  for (const ValueInfo& value : graph.values()) {
    const onnx::pb::TensorProto* const tensor = file_->Find(value);
    if (!tensor) continue;
    STOWAGE_ASSIGN_OR_RETURN(Array array,
                             onnx::ReadTensor(*tensor, file_->path));
    STOWAGE_RETURN_IF_ERROR(take({value.name, std::move(array)}));
  }
  return {};
}

std::vector<std::string> OnnxModel::files() const {
  std::set<std::string> files;
  for (const auto& [name, tensor] : onnx::TensorsOf(file_->model->graph())) {
    const std::optional<std::string> file =
        onnx::FileOfTensor(*tensor, file_->path);
    if (file) files.insert(*file);
  }
  return {files.begin(), files.end()};
}

Result<std::string> OnnxModel::WithWeights(
    const Graph& graph, const std::function<Status(NamedArray&)>& give) const {
  std::unordered_set<std::string_view> names;
  for (const ValueInfo& value : graph.values()) {
    if (file_->Find(value)) names.insert(value.name);
  }
  return WithWeights([&](NamedArray& weight) -> Result<bool> {
    if (!names.contains(weight.name)) return false;
    weight.array.bytes.resize(static_cast<size_t>(weight.array.type.bytes()));
    STOWAGE_RETURN_IF_ERROR(give(weight));
    return true;
  });
}

Result<std::string> OnnxModel::WithWeights(
    const std::function<Result<bool>(NamedArray&)>& give) const {
  onnx::pb::ModelProto model = *file_->model;
  for (const auto& [name, tensor] : onnx::TensorsOf(model.graph())) {
    const Result<TensorType> type = onnx::TypeOfTensor(*tensor);
    if (!type.ok()) continue;
    // The external file is an input of the run even if it is not read.
    STOWAGE_RETURN_IF_ERROR(onnx::CheckTensor(*tensor, file_->path));
    if (!IsFloat(type->dtype)) continue;
    NamedArray weight{name, {*type, {}}};
    STOWAGE_ASSIGN_OR_RETURN(const bool given, give(weight));
    if (!given) continue;
    onnx::SetContents(
        std::move(weight.array.bytes),
        const_cast<onnx::pb::TensorProto*>(tensor));  // our copy's
  }
  std::string bytes;
  if (model.ByteSizeLong() > kMaxBytes || !model.SerializeToString(&bytes)) {
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[onnx] ", Quoted(file_->path), " takes ", model.ByteSizeLong(),
               " bytes with its weights; such a file has at most ", kMaxBytes)};
  }
  return bytes;
}

Result<OnnxModel> ParseOnnx(std::string_view bytes, const std::string& path) {
  auto file = std::make_shared<OnnxModel::File>();
  file->path = path;
  STOWAGE_ASSIGN_OR_RETURN(file->model,
                           onnx::ParseModel(bytes, path, &file->arena));
  const onnx::pb::ModelProto& model = *file->model;
  if (!model.has_graph() || model.graph().node_size() == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[onnx] ", Quoted(path),
                        " holds no graph with nodes; it is no ONNX model, or "
                        "ends early")};
  }
  if (model.ir_version() < kOldestVersion ||
      model.ir_version() > kNewestVersion) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[onnx] ", Quoted(path), " is of IR version ",
                        model.ir_version(), "; ", kOldestVersion, " to ",
                        kNewestVersion, " are supported")};
  }
  STOWAGE_ASSIGN_OR_RETURN(file->inputs, onnx::InputsOf(model));
  for (const auto& [name, tensor] : onnx::TensorsOf(model.graph())) {
    file->tensors[name] = tensor;
  }
  file->constants = onnx::ConstantTensors(model.graph(), path);
  for (const auto& output : model.graph().output()) {
    file->outputs.push_back(output.name());
  }
  return OnnxModel(std::move(file));
}

Result<OnnxModel> ReadOnnx(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return ParseOnnx(bytes, path);
}

#else  // without protobuf

namespace {

Error Absent() {
  return {ErrorCode::kUnsupported,
          "[onnx] this build has no protobuf, by which ONNX files are read; "
          "install libprotobuf-dev and protobuf-compiler and build again"};
}

}  // namespace

struct OnnxModel::File {
  std::string name;
  std::vector<OnnxInput> inputs;
  std::vector<std::string> outputs;
};

const std::string& OnnxModel::name() const { return file_->name; }
std::span<const OnnxInput> OnnxModel::inputs() const { return file_->inputs; }
std::span<const std::string> OnnxModel::outputs() const {
  return file_->outputs;
}
std::vector<OnnxTensor> OnnxModel::tensors() const { return {}; }
std::vector<std::string> OnnxModel::files() const { return {}; }
Result<Graph> OnnxModel::Build(const OnnxBuildOptions&) const {
  return Absent();
}
Status OnnxModel::ForEachWeight(
    const Graph&, const std::function<Status(const NamedArray&)>&) const {
  return Absent();
}
Result<std::string> OnnxModel::WithWeights(
    const Graph&, const std::function<Status(NamedArray&)>&) const {
  return Absent();
}
Result<std::string> OnnxModel::WithWeights(
    const std::function<Result<bool>(NamedArray&)>&) const {
  return Absent();
}
Result<OnnxModel> ReadOnnx(const std::string&) { return Absent(); }
Result<OnnxModel> ParseOnnx(std::string_view, const std::string&) {
  return Absent();
}

#endif  // STOWAGE_HAS_PROTOBUF

bool IsNameOfStep(std::string_view name) {
  return name == "lr" || name == "step" || name == "seed" || name == "loss" ||
         name == "labels";
}

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

OnnxStep OnnxStep::ForwardPass() const {
  OnnxStep pass = *this;
  pass.options.trained_outputs = true;
  pass.labels_follow_batch = false;
  return pass;
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
  // Labels are not an input of the file.
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
