#include "onnx/onnx_model.h"

#include <filesystem>
#include <unordered_map>
#include <utility>

#include "base/read_file.h"
#include "base/strings.h"
#include "onnx/import.h"
#include "onnx/onnx.pb.h"
#include "onnx/tensor.h"

namespace stowage {
namespace {

constexpr int64_t kOldestVersion = 3;
constexpr int64_t kNewestVersion = 13;

}  // namespace

struct OnnxModel::File {
  std::string path;
  onnx::pb::ModelProto model;
  std::vector<OnnxInput> inputs;
  std::vector<std::string> outputs;
};

OnnxModel::OnnxModel(std::shared_ptr<const File> file)
    : file_(std::move(file)) {}

const std::string& OnnxModel::name() const {
  return file_->model.graph().name();
}
std::span<const OnnxInput> OnnxModel::inputs() const { return file_->inputs; }
std::span<const std::string> OnnxModel::outputs() const {
  return file_->outputs;
}

Result<Graph> OnnxModel::Build(const OnnxBuildOptions& options) const {
  return onnx::Import(file_->model, file_->path, options);
}

Status OnnxModel::ForEachWeight(
    const Graph& graph,
    const std::function<Status(const NamedArray&)>& take) const {
  std::unordered_map<std::string, const onnx::pb::TensorProto*> tensors;
  for (const auto& tensor : file_->model.graph().initializer()) {
    tensors[tensor.name()] = &tensor;
  }
  const std::string folder =
      std::filesystem::path(file_->path).parent_path().string();
  for (const ValueInfo& value : graph.values()) {
    if (value.role != Role::kParam && value.role != Role::kState) continue;
    const auto found = tensors.find(value.name);
    if (found == tensors.end()) continue;  // of an optimizer
    STOWAGE_ASSIGN_OR_RETURN(Array array,
                             onnx::ReadTensor(*found->second, folder));
    STOWAGE_RETURN_IF_ERROR(take({value.name, std::move(array)}));
  }
  return {};
}

Result<OnnxModel> ReadOnnx(const std::string& path) {
  auto file = std::make_shared<OnnxModel::File>();
  file->path = path;
  {
    STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
    if (!file->model.ParseFromString(bytes)) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[onnx] ", Quoted(path), ", ", bytes.size(),
                          " bytes, is no ONNX file or ends early")};
    }
  }
  const onnx::pb::ModelProto& model = file->model;
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
  for (const auto& output : model.graph().output()) {
    file->outputs.push_back(output.name());
  }
  return OnnxModel(std::move(file));
}

}  // namespace stowage
