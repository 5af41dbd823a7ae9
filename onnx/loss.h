#ifndef STOWAGE_ONNX_LOSS_H_
#define STOWAGE_ONNX_LOSS_H_

// What an imported model is trained for, added to its graph.
//
//   AddLoss(g, {.kind = OnnxLossKind::kMse}, "logits", outputs);

#include <map>
#include <string>

#include "base/result.h"
#include "ir/builder.h"
#include "onnx/build_options.h"

namespace stowage::onnx {

/// The graph's output "loss", a scalar. `first` is the model's first output. Errors,
/// kInvalidArgument: an output that the model does not have, a loss that is no scalar,
/// labels whose shape does not go with the output's, or goes with it in two ways.
Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& first,
               const std::map<std::string, Value>& outputs);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_LOSS_H_
