#ifndef STOWAGE_TEXT_DECODER_H_
#define STOWAGE_TEXT_DECODER_H_

// Decodes tokens to text with a list of steps. Each step rewrites the list of token strings that
// the previous step returned, and the strings of the last list are concatenated. For example, the
// steps of Llama 2 replace "▁" with a space and "<0x0A>" with its byte, and strip the first space.
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
  kSpaces,  // without a decoder in the file: inserts a space between tokens
  kToken,   // replaces a token equal to `pattern` with `content`
  // Replaces "▁" with a space. If `first`, strips one "▁" at the start of the first token. If also
  // `cleanup`, continues with the following tokens until one is not empty.
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

/// Returns kUnsupported if there are more than 64 steps, and kInvalidArgument if a step that
/// searches for its pattern has an empty pattern.
Status CheckDecoder(const std::vector<DecoderStep>& steps);

/// Returns the text of `tokens`. Linear in the bytes of the tokens times the number of steps.
/// Returns kInvalidArgument if the text grows more than 256-fold. Requires that CheckDecoder
/// accepts `steps`.
Result<std::string> Decode(const std::vector<DecoderStep>& steps,
                           std::vector<std::string> tokens);

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_DECODER_H_
