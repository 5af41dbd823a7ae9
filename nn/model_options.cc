#include "nn/model_options.h"

#include "base/strings.h"

namespace stowage {

Status CheckModelOptions(std::string_view model, const ModelOptions& options) {
  if (!options.batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", model, " is given no batch size")};
  }
  if (*options.batch < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] batch ", *options.batch, " for ", model,
                        " is below 1; a step needs at least one example")};
  }
  if (!IsFloat(options.dtype)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] dtype ", DTypeName(options.dtype), " for ",
                        model, " does not hold fractions; use f32")};
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] dropout ", options.dropout, " for ", model,
                        " is not a probability in [0, 1)")};
  }
  return {};
}

Status CheckModelSizes(std::string_view model,
                       std::initializer_list<NamedSize> sizes) {
  for (const NamedSize& size : sizes) {
    if (size.size >= 1) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", model, " has ", size.name, " ", size.size,
                        "; it must be at least 1")};
  }
  return {};
}

Status CheckTextModelOptions(std::string_view model, int64_t max_seq,
                             ModelPurpose purpose,
                             const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckModelOptions(model, options));
  if (options.images) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] images are given, but ", model,
                        " reads text; leave them out")};
  }
  if (!options.seq) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", model, " is given no seq length")};
  }
  if (*options.seq < 1 || *options.seq > max_seq) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] seq ", *options.seq, " for ", model,
                        " is out of range; expected 1 to ", max_seq)};
  }
  if (options.logit_chunk && *options.logit_chunk < 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] logit_chunk ", *options.logit_chunk, " for ", model,
               " is negative; expected rows of a chunk, or 0 for all "
               "rows at once")};
  }
  if (options.preference) {
    STOWAGE_RETURN_IF_ERROR(CheckPreference(*options.preference));
    if (options.packed) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[model] packed sequences are asked for beside ",
                 PreferenceObjectiveName(options.preference->objective),
                 ", whose examples are sequences of their own; leave them "
                 "out")};
    }
    if (options.weighted_targets) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[model] weighted_targets are asked for beside ",
                 PreferenceObjectiveName(options.preference->objective),
                 ", whose targets have weights of their own; leave them out")};
    }
  }
  if (options.embedding) {
    STOWAGE_RETURN_IF_ERROR(CheckEmbedding(*options.embedding));
    const char* const other = options.packed             ? "packed"
                              : options.preference       ? "a preference"
                              : options.weighted_targets ? "weighted_targets"
                              : options.logit_chunk      ? "a logit_chunk"
                              : options.cache            ? "a cache"
                                                         : nullptr;
    if (other != nullptr) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[model] ", other, " is given beside an embedding, for which ",
                 model, " predicts no tokens; leave it out")};
    }
  }
  if (!options.cache) return {};
  if (purpose != ModelPurpose::kGenerate) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] a cache of ", *options.cache, " tokens for ", model,
               " is given to a program that does not "
               "generate; leave it out")};
  }
  if (*options.cache < *options.seq || *options.cache > max_seq) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] a cache of ", *options.cache, " tokens for ",
                        model, " is out of range; expected ", *options.seq,
                        ", the seq, to ", max_seq)};
  }
  return {};
}

Status CheckNoLogitChunk(std::string_view model, const ModelOptions& options) {
  if (options.packed) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] packed sequences are asked for, but ", model,
                        " has no attention that keeps their texts apart; leave "
                        "them out")};
  }
  if (options.preference) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ",
                        PreferenceObjectiveName(options.preference->objective),
                        " is asked for, but ", model,
                        " has no log-probabilities of texts; leave it out")};
  }
  if (options.weighted_targets) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] weighted_targets are asked for, but ", model,
                        " has no weights for its targets; leave them out")};
  }
  if (!options.logit_chunk) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[model] logit_chunk ", *options.logit_chunk, " is given, but ",
             model, " has few logits; leave it out")};
}

Status CheckNoEmbedding(std::string_view model, const ModelOptions& options) {
  if (!options.embedding) return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[model] an embedding is given, but ", model,
                      " embeds no texts; leave it out")};
}

Status CheckClassifierOptions(std::string_view model, ModelPurpose purpose,
                              const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckModelOptions(model, options));
  if (options.seq) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] seq ", *options.seq, " is given, but ", model,
                        " has no sequence; leave it out")};
  }
  STOWAGE_RETURN_IF_ERROR(CheckNoLogitChunk(model, options));
  STOWAGE_RETURN_IF_ERROR(CheckNoEmbedding(model, options));
  if (options.vocabulary) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] a vocabulary of ", *options.vocabulary,
                        " tokens is given, but ", model,
                        " reads no text; leave it out")};
  }
  if (options.cache) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] a cache of ", *options.cache, " tokens is given, but ",
               model, " reads no text; leave it out")};
  }
  if (options.images) {
    const auto [channels, height, width, classes] = *options.images;
    constexpr int64_t kMax = 1'000'000;
    const auto possible = [](int64_t size) {
      return size >= 1 && size <= kMax;
    };
    if (!possible(channels) || !possible(height) || !possible(width) ||
        !possible(classes) || classes < 2 ||
        channels * height > kMax * kMax / width) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[model] images (", channels, ", ", height, ", ", width,
                 ") in ", classes, " classes are given for ", model,
                 "; expected sizes of 1 to ", kMax, " and at least 2 classes")};
    }
  }
  if (purpose == ModelPurpose::kGenerate) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[model] ", model,
                        " classifies and cannot generate; use a gpt model")};
  }
  return {};
}

}  // namespace stowage
