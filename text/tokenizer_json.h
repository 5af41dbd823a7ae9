#ifndef STOWAGE_TEXT_TOKENIZER_JSON_H_
#define STOWAGE_TEXT_TOKENIZER_JSON_H_

// Parses the parts of a tokenizer.json except the vocabulary (text/tokenizer_file.h):
// normalizer, pre-tokenizer, decoder, post-processor.
//
//   STOWAGE_RETURN_IF_ERROR(ReadNormalizer(file["normalizer"], &parts));
//   STOWAGE_ASSIGN_OR_RETURN(const bool lower, Flag(step, "lowercase", true));
//
// Errors of all: kInvalidArgument, with the value, for values of another type; kUnsupported,
// with its name, for an unknown part. A null part is an empty one.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_template.h"
#include "text/tokenizer.h"

namespace stowage::text {

/// The member; null if it is missing.
const nlohmann::json& Member(const nlohmann::json& object, const char* name);

/// The member "type"; "" if it is missing.
std::string TypeOf(const nlohmann::json& object);

/// The name of a value in errors.
std::string NameOf(const nlohmann::json& value);

/// The members of `value` if it is a Sequence, with nested Sequences flattened; else `value`
/// alone. Recursive: the caller limits the depth.
std::vector<const nlohmann::json*> InSequence(const nlohmann::json& value,
                                              const char* members);

// Members of an object; `absent` if they are missing or null.
Result<bool> Flag(const nlohmann::json& object, const char* name, bool absent);
Result<std::string> TextOf(const nlohmann::json& object, const char* name,
                           std::string_view absent);
/// A whole number from 0 to 2^31 - 1.
Result<int32_t> Number(const nlohmann::json& object, const char* name,
                       int32_t absent);

/// An id below kMaxTokens, of `what`.
Result<int32_t> Id(const nlohmann::json& value, std::string_view what);

Status ReadNormalizer(const nlohmann::json& normalizer, TokenizerParts* parts);

/// Sets `*by_bytes` if a step is ByteLevel.
Status ReadPreTokenizer(const nlohmann::json& pre_tokenizer,
                        TokenizerParts* parts, bool* by_bytes);

/// The decoder must be ByteLevel if `by_bytes`, which ReadPreTokenizer sets, and only then.
Status ReadDecoder(const nlohmann::json& decoder, bool by_bytes,
                   TokenizerParts* parts);

/// Sets prefix and suffix. Error kInvalidArgument also for a token without an id.
Status ReadPostProcessor(const nlohmann::json& processor,
                         TokenizerParts* parts);

/// The special tokens around one text and around two, with token types. Error kUnsupported
/// also for several post-processors that add tokens.
Result<TextTemplate> ReadTextTemplate(const nlohmann::json& processor);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKENIZER_JSON_H_
