#ifndef STOWAGE_TEXT_TOKENIZER_JSON_H_
#define STOWAGE_TEXT_TOKENIZER_JSON_H_

// Values of a tokenizer.json, with errors that name them.
//
//   STOWAGE_ASSIGN_OR_RETURN(const bool lower, Flag(step, "lowercase", true));

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::text {

/// The member, or null where there is none.
const nlohmann::json& Member(const nlohmann::json& object, const char* name);

/// A value's "type"; empty without.
std::string TypeOf(const nlohmann::json& object);

/// What a value is called in errors.
std::string NameOf(const nlohmann::json& value);

/// `sequence`'s members when `value` is a Sequence of them, those of Sequences in it in
/// their place, else `value` alone. Precondition: `value` nests as deep as a stack holds.
std::vector<const nlohmann::json*> InSequence(const nlohmann::json& value,
                                              const char* members);

// Members of an object. Errors kInvalidArgument, with the value, where it is something
// else; `absent` where there is none, or null.
Result<bool> Flag(const nlohmann::json& object, const char* name, bool absent);
Result<std::string> TextOf(const nlohmann::json& object, const char* name,
                           std::string_view absent);
/// A whole number from 0 to 2^31 - 1.
Result<int32_t> Number(const nlohmann::json& object, const char* name,
                       int32_t absent);

/// An id below kMaxTokens; `what` has it.
Result<int32_t> Id(const nlohmann::json& value, std::string_view what);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKENIZER_JSON_H_
