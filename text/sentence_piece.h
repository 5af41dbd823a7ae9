#ifndef STOWAGE_TEXT_SENTENCE_PIECE_H_
#define STOWAGE_TEXT_SENTENCE_PIECE_H_

// Parses SentencePiece models, which are the contents of tokenizer.model or spiece.model. Such a
// file is a ModelProto (sentencepiece_model.proto) in protobuf's wire format, and is parsed here
// without protobuf. GGUF files contain the same lists of tokens, scores and types
// (text/gguf_tokenizer.h). SentencePiece calls its tokens pieces.
//
//   STOWAGE_ASSIGN_OR_RETURN(SentencePieceModel model, ParseSentencePieceModel(bytes));
//   STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(std::move(model)));

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage {

/// Types of pieces, with their numbers in files.
enum class PieceType : int32_t {
  kNormal = 1,
  kUnknown,      // represents text that has no piece
  kControl,      // never encoded from text, such as "<s>"
  kUserDefined,  // matched before all other pieces
  kUnused,
  kByte,  // "<0x0A>"
};

struct SentencePieceModel {
  std::vector<std::string> pieces = {};  // by id
  std::vector<double> scores = {};
  std::vector<int32_t> types = {};
  bool is_unigram = false;  // false means byte pair encoding
  bool byte_fallback = true;
  SentencePieceRules rules = {};
  // The text to which the unknown piece is decoded. If absent, it is the text of the piece.
  std::optional<std::string> unknown_text = std::nullopt;
  // The ids of the tokens that begin and end a text, if the caller adds them. -1 means that there
  // is no such token.
  int32_t bos = -1;
  int32_t eos = -1;
  // If true, unknown and user-defined pieces are matched in the raw text, and the text after each
  // match is normalized like the beginning of a text, as in llama.cpp. If false, user-defined
  // pieces are matched in the normalized text, as in SentencePiece.
  bool is_raw = false;
};

/// Returns the parts of the tokenizer (text/tokenizer.h). Control pieces become special added
/// tokens. Returns kInvalidArgument if the numbers of scores, types and pieces differ, and
/// kUnsupported for an unknown type and, unless `is_raw`, for an unused piece.
Result<TokenizerParts> PartsOf(SentencePieceModel model);

/// Parses a ModelProto, using memory of a few times its size. Returns kInvalidArgument for a
/// malformed message, and if there are no pieces or more than kMaxTokens. Returns kUnsupported for
/// word and character models, white space as a suffix, and a denormalizer.
Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TEXT_SENTENCE_PIECE_H_
