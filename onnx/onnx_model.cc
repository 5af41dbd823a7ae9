#include "onnx/onnx_model.h"

#include <google/protobuf/arena.h>

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
#include "onnx/constant_tensors.h"
#include "onnx/import.h"
#include "onnx/onnx.pb.h"
#include "onnx/parse_model.h"
#include "onnx/tensor.h"

namespace stowage {
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

  // The tensor that a value of a graph is a param or a state for; null where it is
  // none, or one of an optimizer.
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
    // Where it lies is an input of the run, whether or not it is read.
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

}  // namespace stowage
