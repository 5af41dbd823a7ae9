#ifndef STOWAGE_FORMATS_JSON_TEXT_H_
#define STOWAGE_FORMATS_JSON_TEXT_H_

// The check that every JSON text passes before it is read. A JSON library takes the last
// value of a key that comes twice, ends at a NUL as at the end of the text, and recurses
// as deep as a text nests; none of these says why a text is refused.
//
//   STOWAGE_RETURN_IF_ERROR(CheckJsonText(text, /*max_levels=*/64));
//   const nlohmann::json json = nlohmann::json::parse(text);

#include <string_view>

#include "base/result.h"

namespace stowage {

/// Whether `text` is one JSON value in UTF-8, with no key twice in an object and no more
/// than `max_levels` objects and arrays within one another; a byte order mark before it is
/// passed over. Errors, kInvalidArgument, without a tag, for a message that says of what:
/// `is no JSON, at byte 12: a NUL`, `has the key "a" twice`, `nests deeper than 64 levels`.
/// O(n log n) in the text's bytes.
Status CheckJsonText(std::string_view text, int max_levels);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_JSON_TEXT_H_
