#ifndef STOWAGE_TEXT_DECODER_H_
#define STOWAGE_TEXT_DECODER_H_

// Makes text of tokens as they are written in a vocabulary: steps, each of which takes
// the list that the one before it gives; what is left is joined. Llama 2's put spaces in
// place of "▁", bytes in place of "<0x0A>", and take the first space away.
//
//   Decode({{.kind = DecoderKind::kReplace, .pattern = "▁", .content = " "},
//           {.kind = DecoderKind::kByteFallback},
//           {.kind = DecoderKind::kFuse},
//           {.kind = DecoderKind::kStrip, .pattern = " ", .left = 1}},
//          {"▁a", "▁b"}) == "a b";

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stowage {

/// The names are those of tokenizer.json.
enum class DecoderKind {
  kReplace,       // the text `pattern` by `content`
  kByteFallback,  // "<0x0A>" and its like by their bytes
  kFuse,          // joins all
  kStrip,  // the text `pattern` up to so many times at the `left` and `right`
  kMetaspace,  // `pattern` by a space; of the first token by nothing, with `first`
  kWordPiece,  // joins what begins with `pattern` to what is before it; with
               // `cleanup` no spaces stand before punctuation
  kSuffix,     // BPEDecoder: `pattern` by a space, but of the last token
  kSpaces,     // none: a space between tokens
  kToken,      // a token that is `pattern` by `content`
  kSentencePiece,  // "▁" by a space; with `first`, of the first token by nothing
                   // where it begins with one, with `cleanup` of all up to the
                   // first text
};

struct DecoderStep {
  DecoderKind kind = DecoderKind::kFuse;
  std::string pattern = {};
  std::string content = {};
  int32_t left = 0;
  int32_t right = 0;
  bool first = false;
  bool cleanup = false;
};

namespace text {

/// Errors: kUnsupported for more than 64 steps; kInvalidArgument for an empty pattern
/// that something is looked for by.
Status CheckDecoder(const std::vector<DecoderStep>& steps);

/// Precondition: CheckDecoder. Linear in the bytes of the tokens, times the number of
/// steps. Error kInvalidArgument where the text is more than 256 times as long.
Result<std::string> Decode(const std::vector<DecoderStep>& steps,
                           std::vector<std::string> tokens);

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_DECODER_H_
