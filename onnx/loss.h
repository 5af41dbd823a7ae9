#ifndef STOWAGE_ONNX_LOSS_H_
#define STOWAGE_ONNX_LOSS_H_

// What an imported model is trained for, added to its graph.
//
//   AddLoss(g, {.kind = OnnxLossKind::kMse}, "logits", logits, /*judges=*/false);

#include <string>

#include "base/result.h"
#include "ir/builder.h"
#include "onnx/build_options.h"

namespace stowage::onnx {

/// The graph's output "loss", a scalar, of the model's output, called `name`; and where
/// the loss judges, a cross-entropy's "accuracy". Errors, kInvalidArgument: a loss
/// that is no scalar, labels whose shape does not go with the output's, or goes with it
/// in two ways.
Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& name,
               Value output, bool judges);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_LOSS_H_
