// ONNX files: what can be read becomes a graph or an error, whatever the sizes.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "onnx/onnx.h"

using namespace stowage;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result<OnnxModel> model = ParseOnnx(bytes, "fuzz/model.onnx");
  if (!model.ok()) return 0;
  OnnxBuildOptions options;
  for (const OnnxInput& input : model->inputs()) {
    for (const OnnxDim& dim : input.dims) {
      if (!dim.symbol.empty()) options.dims[dim.symbol] = 2;
    }
  }
  const Result<Graph> forward = model->Build(options);
  if (!forward.ok()) return 0;
  options.loss = OnnxLoss{};
  const Result<Graph> trained = model->Build(options);
  (void)trained.ok();
  return 0;
}
