#ifndef STOWAGE_TESTS_ONNX_MOBILENET_H_
#define STOWAGE_TESTS_ONNX_MOBILENET_H_

// Builds MobileNetV2 as an ONNX file, with the nodes and names that torch.onnx.export writes for
// torchvision's model in eval mode. Batch norms are folded into the convolutions.
//
//   const Result<OnnxModel> net = ParseOnnx(MobileNetV2({.width = 0.35, .side = 96}), "net");
//
// See Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2.

#include <cstdint>
#include <string>

namespace stowage::testing {

struct MobileNetSizes {
  double width = 1;  // multiplies the channels of all layers
  int64_t side = 224;
  int64_t classes = 10;
};

/// Returns the file, for a batch of 1. Convolution weights are uniform random numbers with the
/// variance of He initialization. Biases are in [-0.1, 0.1].
std::string MobileNetV2(const MobileNetSizes& sizes);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_ONNX_MOBILENET_H_
