#ifndef STOWAGE_NN_CHECK_OPTIONS_H_
#define STOWAGE_NN_CHECK_OPTIONS_H_

// Checks that the models share.

#include <cstdint>
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

/// Error kInvalidArgument when `value`, which the model calls `what`, is below 1.
Status CheckSize(std::string_view model, std::string_view what, int64_t value);

/// Error kInvalidArgument when seq is absent, or outside 1 to `max_seq`.
Status CheckSeq(std::string_view model, int64_t max_seq,
                const ModelOptions& options);

/// Error kInvalidArgument when there is a logit_chunk, for models of few logits.
Status CheckNoLogitChunk(std::string_view model, const ModelOptions& options);

/// The same as CheckModelOptions for a model that has no sequences and generates nothing. Further
/// errors: kInvalidArgument for a seq, a logit_chunk or pictures of impossible
/// sizes, kUnsupported for generating.
Status CheckClassifierOptions(std::string_view model, ModelPurpose purpose,
                              const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_CHECK_OPTIONS_H_
