#ifndef STOWAGE_ONNX_CONSTANT_TENSORS_H_
#define STOWAGE_ONNX_CONSTANT_TENSORS_H_

// Which tensors of floats in a file are constants of the model's code rather than weights.
// A file does not say: exporters put masks, scales and tables of positions where weights
// are. Recognized are
//
// - one number of no or one dimension, under a name that an exporter has numbered:
//   "val_155", "onnx::Mul_12", "/h.0/Constant_3_output_0", "model/scale/y:0", or called as
//   the function that has made it: "zeros", "full_3";
// - a mask: zeros and one number of -100 or below, or several of -10,000 and below, or a
//   lower triangle of ones;
// - frequencies of rotary embeddings, by the name "inv_freq", and tables of which each
//   column is the sine or cosine of positions times an angle;
//
// where no product, convolution, norm or PReLU reads it, nor a Gather from a mask: these
// have weights, which an exporter may have folded under such a name.
//
//   const auto constants = ConstantTensors(model.graph(), path);
//   constants.at("val_161");  // "a mask"

#include <map>
#include <string>

#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// Names, as TensorsOf has them (onnx/import.h), of those that are constants, and what each
/// is. A tensor that cannot be read is none. Reads what a tensor holds as far as it may be
/// one: at most once through all tensors.
std::map<std::string, std::string> ConstantTensors(const pb::GraphProto& graph,
                                                   const std::string& path);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_CONSTANT_TENSORS_H_
