#ifndef STOWAGE_NN_MODEL_PARTS_H_
#define STOWAGE_NN_MODEL_PARTS_H_

// What the models of nn/models.def have in common, at their two ends.
//
//   GraphBuilder g("logistic");
//   Pictures in = DeclarePictures(g, options);
//   Dropouts dropouts = DeclareDropouts(g, purpose, options);
//   ...
//   return FinishClassifier(g, logits, in.labels, purpose);

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "nn/layers.h"
#include "nn/model_options.h"

namespace stowage {

struct Pictures {
  Value x;       // (B, C, H, W), of the dtype of the options
  Value labels;  // i32 (B), or (B, H, W)
};
/// Inputs "x" f32, cast to the dtype of the options, and "y". Precondition: the
/// options have a batch and pictures.
Pictures DeclarePictures(GraphBuilder& g, const ModelOptions& options);
/// The same where each pixel has a label.
Pictures DeclareLabelledPixels(GraphBuilder& g, const ModelOptions& options);

/// The dropouts of a model, with inputs "seed" and "step" where it trains with any.
Dropouts DeclareDropouts(GraphBuilder& g, ModelPurpose purpose,
                         const ModelOptions& options);

/// Outputs "loss", the mean cross-entropy in nats, and, when evaluating,
/// "predictions" i32, of the labels' shape; then the graph. logits (B, classes), or
/// (B, H, W, classes) for labels of pixels.
Result<Graph> FinishClassifier(GraphBuilder& g, Value logits, Value labels,
                               ModelPurpose purpose);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_PARTS_H_
