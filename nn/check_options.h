#ifndef STOWAGE_NN_CHECK_OPTIONS_H_
#define STOWAGE_NN_CHECK_OPTIONS_H_

// Checks that the models share.

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/result.h"
#include "nn/model_options.h"

namespace stowage {

/// Error kInvalidArgument when the batch is absent or below 1, the dtype does
/// not float, or dropout is outside [0, 1).
Status CheckModelOptions(std::string_view model, const ModelOptions& options);

struct NamedSize {
  std::string_view name;
  int64_t size;
};
/// Error kInvalidArgument when a size of the model itself is below 1.
Status CheckModelSizes(std::string_view model,
                       std::initializer_list<NamedSize> sizes);

/// As CheckModelOptions, for a model of text. Further errors, kInvalidArgument:
/// pictures; a seq that is absent, below 1 or above max_seq; a negative logit_chunk; a
/// cache for anything but generating, below seq or above max_seq.
Status CheckTextModelOptions(std::string_view model, int64_t max_seq,
                             ModelPurpose purpose, const ModelOptions& options);

/// Error kInvalidArgument when there is a logit_chunk or weighted_targets, for models of few
/// logits, whose loss takes neither.
Status CheckNoLogitChunk(std::string_view model, const ModelOptions& options);

/// As CheckModelOptions, for a model that has no sequences and generates nothing. Further
/// errors: kInvalidArgument for a seq, a logit_chunk, a cache or pictures of impossible
/// sizes, kUnsupported for generating.
Status CheckClassifierOptions(std::string_view model, ModelPurpose purpose,
                              const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_CHECK_OPTIONS_H_
