#ifndef STOWAGE_TESTS_FUZZ_USE_TOKENIZER_H_
#define STOWAGE_TESTS_FUZZ_USE_TOKENIZER_H_

// What a tokenizer must do once it has been made, whatever file it is of: what it
// encodes are tokens that it decodes.
//
//   UseTokenizer(*std::move(parts));

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/check.h"
#include "text/tokenizer.h"

namespace stowage::testing {

inline void UseTokenizer(TokenizerParts parts) {
  const Result<Tokenizer> tokenizer = Tokenizer::Create(std::move(parts));
  if (!tokenizer.ok()) {
    Check(tokenizer.error().code != ErrorCode::kIo);
    return;
  }
  Check(tokenizer->size() >= 1 && tokenizer->size() <= kMaxTokens);
  // ASCII, white space, marks that compose, what is special elsewhere, and no UTF-8.
  for (const std::string_view text : {"", "Once, in 1984, we're  ab\n\n",
                                      "e\u0301\u00e9\uac00\u11a8 \u3000<s>",
                                      "<|im_start|>\xc3\x28\xff a\xe2\x82"}) {
    for (const bool special : {true, false}) {
      const Result<std::vector<int32_t>> ids =
          tokenizer->Encode(text, {.special = special, .add_prefix = false});
      if (!ids.ok()) {
        Check(ids.error().code == ErrorCode::kInvalidArgument);
        continue;
      }
      Check(
          *tokenizer->Count(text, {.special = special, .add_prefix = false}) ==
          static_cast<int64_t>(ids->size()));
      for (const bool skip : {false, true}) {
        // A decoder may make far too much of it.
        const auto decoded = tokenizer->Decode(*ids, {.skip_special = skip});
        Check(decoded.ok() || decoded.error().message.find("become a text") !=
                                  std::string::npos);
      }
    }
  }
  // What goes around a text may be an id without a token.
  const Result<std::vector<int32_t>> whole = tokenizer->Encode("ab");
  if (!whole.ok()) return;
  for (const int32_t id : *whole) Check(id >= 0 && id < tokenizer->size());
  const auto decoded = tokenizer->Decode(*whole);
  Check(decoded.ok() || decoded.error().code == ErrorCode::kInvalidArgument);
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_FUZZ_USE_TOKENIZER_H_
