// In a build without protobuf.

#include "base/strings.h"
#include "onnx/onnx_model.h"

namespace stowage {
namespace {

Error Absent() {
  return {ErrorCode::kUnsupported,
          "[onnx] this build has no protobuf, by which ONNX files are read; "
          "install "
          "libprotobuf-dev and protobuf-compiler and build again"};
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

}  // namespace stowage
