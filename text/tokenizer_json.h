#ifndef STOWAGE_TEXT_TOKENIZER_JSON_H_
#define STOWAGE_TEXT_TOKENIZER_JSON_H_

// Parses the components of a tokenizer.json except the vocabulary (text/tokenizer_file.h): the
// normalizer, pre-tokenizer, decoder and post-processor.
//
//   STOWAGE_RETURN_IF_ERROR(ReadNormalizer(file["normalizer"], &parts));
//   STOWAGE_ASSIGN_OR_RETURN(const bool lower, Flag(step, "lowercase", true));
//
// All functions return kInvalidArgument, with the value, for values of another type, and
// kUnsupported, with its name, for an unknown component. A null component is an empty one.

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

/// Returns the name of a value for errors.
std::string NameOf(const nlohmann::json& value);

/// Returns the members of `value` if it is a Sequence, with nested Sequences flattened, and
/// otherwise only `value`. Recursive, so the caller must limit the depth.
std::vector<const nlohmann::json*> InSequence(const nlohmann::json& value,
                                              const char* members);

// These functions return a member of an object, or `absent` if it is missing or null.
Result<bool> Flag(const nlohmann::json& object, const char* name, bool absent);
Result<std::string> TextOf(const nlohmann::json& object, const char* name,
                           std::string_view absent);
/// Returns an integer from 0 to 2^31 - 1.
Result<int32_t> Number(const nlohmann::json& object, const char* name,
                       int32_t absent);

/// Returns an id, which must be below kMaxTokens. `what` names its token in errors.
Result<int32_t> Id(const nlohmann::json& value, std::string_view what);

Status ReadNormalizer(const nlohmann::json& normalizer, TokenizerParts* parts);

/// Sets `*by_bytes` to whether a step is ByteLevel.
Status ReadPreTokenizer(const nlohmann::json& pre_tokenizer,
                        TokenizerParts* parts, bool* by_bytes);

/// Reads the decoder, which must be ByteLevel if and only if `by_bytes`, which ReadPreTokenizer
/// sets.
Status ReadDecoder(const nlohmann::json& decoder, bool by_bytes,
                   TokenizerParts* parts);

/// Sets the prefix and suffix. Also returns kInvalidArgument for a token without an id.
Status ReadPostProcessor(const nlohmann::json& processor,
                         TokenizerParts* parts);

/// Returns the special tokens of the templates for one and for two texts, with token types. Also
/// returns kUnsupported for several post-processors that add tokens.
Result<TextTemplate> ReadTextTemplate(const nlohmann::json& processor);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKENIZER_JSON_H_
