#ifndef STOWAGE_TEXT_TOKENIZER_DIGEST_H_
#define STOWAGE_TEXT_TOKENIZER_DIGEST_H_

// A number for all that a tokenizer consists of.
//
//   if (DigestOf(parts) != written) ...  // other tokens

#include <cstdint>

#include "text/tokenizer.h"

namespace stowage::text {

/// The same for parts that are equal, however a file says them (base/hash.h).
uint64_t DigestOf(const TokenizerParts& parts);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKENIZER_DIGEST_H_
