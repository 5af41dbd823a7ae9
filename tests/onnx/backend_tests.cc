#include "tests/onnx/backend_tests.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"
#include "onnx/tensor.h"
#include "tests/onnx/run_onnx.h"

namespace stowage {
namespace {

constexpr char kFolder[] = "/usr/share/libonnx-testdata/data/";

// The tensors PREFIX_0.pb, PREFIX_1.pb, ... of a folder.
Result<std::vector<Array>> ReadTensors(const std::string& folder,
                                       const std::string& prefix) {
  std::vector<Array> arrays;
  for (int i = 0;; ++i) {
    std::ifstream file(StrCat(folder, "/", prefix, "_", i, ".pb"),
                       std::ios::binary);
    if (!file) return arrays;
    std::stringstream bytes;
    bytes << file.rdbuf();
    onnx::pb::TensorProto tensor;
    if (!tensor.ParseFromString(bytes.str()) || !tensor.has_data_type()) {
      return Error{ErrorCode::kUnsupported, "no dense tensor"};
    }
    STOWAGE_ASSIGN_OR_RETURN(Array array,
                             onnx::ReadTensor(tensor, folder + "/model.onnx"));
    arrays.push_back(std::move(array));
  }
}

// As ONNX's own runner compares: relative 1e-3, absolute 1e-7.
bool IsClose(const Array& got, const Array& expected) {
  if (!(got.type == expected.type)) return false;
  const auto a = RealsOf(got), b = RealsOf(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) ? !std::isnan(a[i])
        : std::isinf(b[i])
            ? a[i] != b[i]
            : !(std::abs(a[i] - b[i]) <= 1e-7 + 1e-3 * std::abs(b[i]))) {
      return false;
    }
  }
  return true;
}

// The message without what is of this test alone: its node's name, its numbers.
std::string Shortened(std::string message) {
  for (const char* const start : {") ", "known: ", "[onnx] "}) {
    const size_t at = message.find(start);
    if (at != std::string::npos) {
      message.erase(0, at + std::string_view(start).size());
      break;
    }
  }
  for (const char* const end : {";", " (", ", which", "; expected"}) {
    message = message.substr(0, message.find(end));
  }
  return message;
}

}  // namespace

std::vector<std::string> BackendTests(const std::string& kind) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(kFolder + kind, error)) {
    if (std::filesystem::exists(entry.path() / "model.onnx")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string RunBackendTest(const std::string& kind, const std::string& name) {
  const std::string folder = StrCat(kFolder, kind, "/", name);
  const Result<OnnxModel> model = ReadOnnx(folder + "/model.onnx");
  if (!model.ok()) return Shortened(model.error().message);
  const std::string data = folder + "/test_data_set_0";
  const Result<std::vector<Array>> inputs = ReadTensors(data, "input");
  if (!inputs.ok()) return Shortened(inputs.error().message);
  const Result<std::vector<Array>> expected = ReadTensors(data, "output");
  if (!expected.ok()) return Shortened(expected.error().message);
  if (inputs->size() > model->inputs().size()) return "other inputs than told";

  // With all inputs written in each step, all but the first known beforehand, all.
  std::string why;
  const size_t count = inputs->size();
  for (const size_t known :
       {size_t{0}, count - std::min<size_t>(count, 1), count}) {
    OnnxBuildOptions options;
    std::vector<NamedArray> written;
    for (size_t i = 0; i < count; ++i) {
      const OnnxInput& input = model->inputs()[i];
      const Array& array = (*inputs)[i];
      if (i >= count - known) {
        options.constants[input.name] = array;
      } else {
        written.push_back({input.name, array});
        options.shapes[input.name] = std::vector<int64_t>(
            array.type.shape.begin(), array.type.shape.end());
      }
    }
    const Result<Graph> graph = model->Build(options);
    if (!graph.ok()) {
      why = Shortened(graph.error().message);
      continue;
    }
    if (graph->Find("seed")) {
      const Array one = ArrayOf(DType::kI64, {}, std::vector<int64_t>{1});
      written.push_back({"seed", one});
      written.push_back({"step", one});
    }
    const Result<std::vector<Array>> outputs = RunOnnx(*model, *graph, written);
    if (!outputs.ok()) {
      why = Shortened(outputs.error().message);
      continue;
    }
    for (size_t i = 0; i < expected->size(); ++i) {
      if (i >= outputs->size() || !IsClose((*outputs)[i], (*expected)[i])) {
        return StrCat("another output ", i);
      }
    }
    return "";
  }
  return why;
}

}  // namespace stowage
