#ifndef STOWAGE_TEXT_TOKENIZER_STEPS_H_
#define STOWAGE_TEXT_TOKENIZER_STEPS_H_

// The parts of a tokenizer.json around its model: what rewrites and cuts a text, and what
// makes text of tokens again.
//
//   STOWAGE_RETURN_IF_ERROR(ReadNormalizer(file["normalizer"], &parts));
//
// Null is none. Errors: kInvalidArgument for values of other types; kUnsupported, with its
// name, for a part that is not known.

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage::text {

Status ReadNormalizer(const nlohmann::json& normalizer, TokenizerParts* parts);

/// Sets `*by_bytes` where the last one is ByteLevel.
Status ReadPreTokenizer(const nlohmann::json& pre_tokenizer,
                        TokenizerParts* parts, bool* by_bytes);

/// `by_bytes` as ReadPreTokenizer has it: ByteLevel must be its decoder, and that of no
/// other.
Status ReadDecoder(const nlohmann::json& decoder, bool by_bytes,
                   TokenizerParts* parts);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKENIZER_STEPS_H_
