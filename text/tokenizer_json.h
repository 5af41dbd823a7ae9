#ifndef STOWAGE_TEXT_TOKENIZER_JSON_H_
#define STOWAGE_TEXT_TOKENIZER_JSON_H_

// Parses the components of a tokenizer.json except the vocabulary (text/tokenizer_file.h): the
// normalizer, pre-tokenizer, decoder and post-processor.
//
//   STOWAGE_RETURN_IF_ERROR(ReadNormalizer(file["normalizer"], &parts));
//   STOWAGE_ASSIGN_OR_RETURN(const bool lower, Flag(step, "lowercase", true));
//
// Functions that return a Result or Status return kInvalidArgument, with the value, for values of
// the wrong type, and kUnsupported, naming the component, for an unknown component. A component
// that is null has no steps.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_template.h"
#include "text/tokenizer.h"

namespace stowage::text {

/// Returns the member `name`, or null if it is missing.
const nlohmann::json& Member(const nlohmann::json& object, const char* name);

/// Returns the member "type", or "" if it is missing.
std::string TypeOf(const nlohmann::json& object);

/// Returns a description of `value` for error messages.
std::string NameOf(const nlohmann::json& value);

/// Returns the elements of `value`'s array `members` if `value` is a Sequence, with nested
/// Sequences flattened. Otherwise returns only `value`. Recursive, so the caller must limit the
/// depth of the JSON.
std::vector<const nlohmann::json*> InSequence(const nlohmann::json& value,
                                              const char* members);

// Flag, TextOf and Number return the member `name` of `object`, or `absent` if it is missing or
// null.
Result<bool> Flag(const nlohmann::json& object, const char* name, bool absent);
Result<std::string> TextOf(const nlohmann::json& object, const char* name,
                           std::string_view absent);
/// The member must be an integer from 0 to 2^31 - 1.
Result<int32_t> Number(const nlohmann::json& object, const char* name,
                       int32_t absent);

/// Returns `value` as a token id, which must be below kMaxTokens. `what` names the token in errors.
Result<int32_t> Id(const nlohmann::json& value, std::string_view what);

Status ReadNormalizer(const nlohmann::json& normalizer, TokenizerParts* parts);

/// Reads the pre-tokenizer. Sets `*by_bytes` to whether one of its steps is ByteLevel.
Status ReadPreTokenizer(const nlohmann::json& pre_tokenizer,
                        TokenizerParts* parts, bool* by_bytes);

/// Reads the decoder. `by_bytes` is the result of ReadPreTokenizer. The decoder must be ByteLevel
/// if and only if `by_bytes` is true.
Status ReadDecoder(const nlohmann::json& decoder, bool by_bytes,
                   TokenizerParts* parts);

/// Reads the prefix and suffix from the post-processor. Also returns kInvalidArgument for a token
/// without an id.
Status ReadPostProcessor(const nlohmann::json& processor,
                         TokenizerParts* parts);

/// Returns the templates of the post-processor for one text and for two texts. Also returns
/// kUnsupported if several post-processors in a Sequence add tokens.
Result<TextTemplate> ReadTextTemplate(const nlohmann::json& processor);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKENIZER_JSON_H_
