#ifndef STOWAGE_NN_MLP_H_
#define STOWAGE_NN_MLP_H_

// A classifier of two hidden layers with relu, for the 8 x 8 digits of
// nn/digits_data.h or for pictures of any size, whose pixels it takes in a row.
//
//   Result<Graph> graph = BuildMlp(ModelPurpose::kTrain, {.batch = 64});

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"
#include "nn/picture_shape.h"

namespace stowage {

inline constexpr int64_t kMlpInputs = 64;
inline constexpr int64_t kMlpHidden = 128;
inline constexpr int64_t kMlpClasses = 10;
inline constexpr PictureShape kMlpPictures = {
    .channels = 1, .height = 8, .width = 8, .classes = kMlpClasses};

/// The graph of the classifier: linear layers "fc1", "fc2" and "fc3", weights
/// normal with deviation sqrt(2 / in) (He et al. 2015). Inputs: "x" (B, 64),
/// always f32 and cast to the dtype of the options, "y" i32 (B) in [0, 10); other
/// pictures, if the options have any, in place of 64 and 10.
/// Outputs: "loss", the mean cross-entropy in nats; when evaluating also
/// "predictions" i32 (B). Errors: batch absent or below 1; a seq or a
/// logit_chunk; impossible pictures; dropout outside [0, 1); an integer dtype;
/// kUnsupported for generating.
Result<Graph> BuildMlp(ModelPurpose purpose, const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_MLP_H_
