#ifndef STOWAGE_NN_CHECK_OPTIONS_H_
#define STOWAGE_NN_CHECK_OPTIONS_H_

// Checks that the models share.

#include <string_view>

#include "base/result.h"
#include "nn/model_options.h"

namespace stowage {

/// Error kInvalidArgument when the batch is absent or below 1, the dtype does
/// not float, or dropout is outside [0, 1).
Status CheckModelOptions(std::string_view model, const ModelOptions& options);

/// The same for a model of text. Further error, kInvalidArgument: pictures.
Status CheckTextModelOptions(std::string_view model,
                             const ModelOptions& options);

/// The same for a model that has no sequences and generates nothing. Further
/// errors: kInvalidArgument for a seq, a logit_chunk or pictures of impossible
/// sizes, kUnsupported for generating.
Status CheckClassifierOptions(std::string_view model, ModelPurpose purpose,
                              const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_CHECK_OPTIONS_H_
