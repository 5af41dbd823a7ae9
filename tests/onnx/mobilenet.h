#ifndef STOWAGE_TESTS_ONNX_MOBILENET_H_
#define STOWAGE_TESTS_ONNX_MOBILENET_H_

// MobileNetV2 as an ONNX file, with the nodes and names of torchvision's model as
// torch.onnx.export writes it in eval mode: batch norms are part of the convolutions.
//
//   const Result<OnnxModel> net = ParseOnnx(MobileNetV2({.width = 0.35, .side = 96}), "net");
//
// Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, table 2.

#include <cstdint>
#include <string>

namespace stowage::testing {

struct MobileNetSizes {
  double width = 1;  // of all layers
  int64_t side = 224;
  int64_t classes = 10;
};

/// The file, for a batch of 1. Weights of convolutions are random, uniform with the variance of He
/// initialization, biases within 0.1.
std::string MobileNetV2(const MobileNetSizes& sizes);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_ONNX_MOBILENET_H_
