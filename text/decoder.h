#ifndef STOWAGE_TEXT_DECODER_H_
#define STOWAGE_TEXT_DECODER_H_

// Decodes tokens to text: a list of steps, each of which rewrites the list of token texts
// that the step before returns; the last list is concatenated. Llama 2's steps replace "▁" by
// a space and "<0x0A>" by its byte, and strip the first space.
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
  kReplace,       // replaces the text `pattern` by `content`
  kByteFallback,  // replaces "<0x0A>" and its like by their bytes
  kFuse,          // concatenates all tokens to one
  kStrip,  // strips `pattern` at most `left` times at the beginning, `right` at the end
  kMetaspace,  // replaces `pattern` by a space, or by "" in the first token if `first`
  kWordPiece,  // joins tokens that begin with `pattern` to the one before; `cleanup` removes
               // spaces before punctuation
  kSuffix,  // BPEDecoder: replaces `pattern` by a space, or by "" in the last token
  kSpaces,  // no decoder in the file: a space between tokens
  kToken,   // replaces a token equal to `pattern` by `content`
  kSentencePiece,  // replaces "▁" by a space; strips one at the start of the first token if
                   // `first`, of all tokens up to the first text if `cleanup`
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

/// Errors: kUnsupported for more than 64 steps; kInvalidArgument for an empty pattern in a
/// step that searches for it.
Status CheckDecoder(const std::vector<DecoderStep>& steps);

/// Linear in the bytes of the tokens times the number of steps. Error kInvalidArgument if the
/// text grows more than 256-fold. Precondition: CheckDecoder.
Result<std::string> Decode(const std::vector<DecoderStep>& steps,
                           std::vector<std::string> tokens);

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_DECODER_H_
