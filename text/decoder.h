#ifndef STOWAGE_TEXT_DECODER_H_
#define STOWAGE_TEXT_DECODER_H_

// Decodes tokens to text with a list of steps. Each step rewrites the list of strings that the
// previous step returned. The first list is the tokens. The strings of the last list are
// concatenated. For example, the steps of Llama 2 replace "▁" with a space and "<0x0A>" with its
// byte, and strip the first space.
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

/// The kinds of steps, named as in tokenizer.json.
enum class DecoderKind {
  kReplace,       // replaces the string `pattern` with `content`
  kByteFallback,  // replaces "<0x0A>" and similar tokens with their bytes
  kFuse,          // concatenates all tokens into one
  kStrip,  // strips `pattern` up to `left` times at the start, `right` at the end
  kMetaspace,  // replaces `pattern` with a space, or with "" in the first token if `first`
  kWordPiece,  // appends tokens that begin with `pattern` to the previous token; `cleanup` removes
               // spaces before punctuation
  kSuffix,  // BPEDecoder: replaces `pattern` with a space, or with "" in the last token
  kSpaces,  // joins tokens with spaces, if the file has no decoder
  kToken,   // replaces a token equal to `pattern` with `content`
  // Replaces "▁" with a space. If `first`, first strips one "▁" from the start of the first token.
  // If `cleanup` is also set, then strips one "▁" from the start of each following token until a
  // token is not empty.
  kSentencePiece,
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

/// Returns kUnsupported if there are more than 64 steps. Returns kInvalidArgument if a kReplace,
/// kStrip, kMetaspace or kSuffix step has an empty pattern.
Status CheckDecoder(const std::vector<DecoderStep>& steps);

/// Returns the text of `tokens`. Linear in the number of bytes that each step reads and writes.
/// Returns kInvalidArgument if the text becomes longer than 256 times the bytes of `tokens` plus
/// 256 KiB. Requires that CheckDecoder succeeds.
Result<std::string> Decode(const std::vector<DecoderStep>& steps,
                           std::vector<std::string> tokens);

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_DECODER_H_
