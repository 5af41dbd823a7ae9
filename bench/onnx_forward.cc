// Computes the outputs of an ONNX model in its planned arena, for bench/onnx_nets.py:
//
//   onnx_forward MODEL.onnx INPUTS.npz OUTPUTS.npz
//
// INPUTS.npz has the inputs by name, which determine their shapes; OUTPUTS.npz gets the outputs
// by name.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "ir/graph.h"
#include "onnx/onnx.h"
#include "tests/onnx/run_onnx.h"

namespace stowage {
namespace {

Status Run(const std::string& path, const std::string& inputs_path,
           const std::string& outputs_path) {
  STOWAGE_ASSIGN_OR_RETURN(const OnnxModel model, ReadOnnx(path));
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(inputs_path));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<NamedArray> inputs,
                           ParseNpz(bytes, inputs_path));
  OnnxBuildOptions options;
  for (const auto& [name, array] : inputs) {
    options.shapes[name] = {array.type.shape.begin(), array.type.shape.end()};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, model.Build(options));
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Array> results,
                           RunOnnx(model, graph, inputs));
  std::vector<NamedArray> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    outputs.push_back({graph.outputs()[i].name, std::move(results[i])});
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string written, NpzBytes(outputs));
  std::ofstream file(outputs_path, std::ios::binary);
  if (!(file << written).flush()) {
    return Error{ErrorCode::kIo, StrCat("cannot write ", outputs_path)};
  }
  return {};
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr,
                 "usage: onnx_forward MODEL.onnx INPUTS.npz OUTPUTS.npz\n");
    return 2;
  }
  const stowage::Status done = stowage::Run(argv[1], argv[2], argv[3]);
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return 1;
}
