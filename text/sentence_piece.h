#ifndef STOWAGE_TEXT_SENTENCE_PIECE_H_
#define STOWAGE_TEXT_SENTENCE_PIECE_H_

// SentencePiece's models: the contents of tokenizer.model or spiece.model, which is a
// ModelProto (sentencepiece_model.proto) in protobuf's wire format, parsed here without
// protobuf. GGUF files hold the same lists (text/gguf_tokenizer.h).
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
  kUnknown,      // stands for text without a piece
  kControl,      // never made from text, such as "<s>"
  kUserDefined,  // matched before all other pieces
  kUnused,
  kByte,  // "<0x0A>"
};

struct SentencePieceModel {
  std::vector<std::string> pieces = {};  // by id
  std::vector<double> scores = {};
  std::vector<int32_t> types = {};
  bool is_unigram = false;  // else byte pair encoding
  bool byte_fallback = true;
  SentencePieceRules rules = {};
  // The text that an unknown piece is decoded to; absent: the piece's own text.
  std::optional<std::string> unknown_text = std::nullopt;
  // The ids that may begin and end a text, if the reader adds them; -1: none.
  int32_t bos = -1;
  int32_t eos = -1;
  // Unknown and user-defined pieces are matched in the raw text, and the text after each is
  // normalized like the beginning of a text, as in llama.cpp; else user-defined ones are
  // matched in the normalized text, as in SentencePiece.
  bool is_raw = false;
};

/// The parts of the tokenizer. Control pieces become special added tokens. Errors:
/// kInvalidArgument if the numbers of scores, types and pieces differ; kUnsupported for an
/// unknown type, and for an unused piece unless `is_raw`.
Result<TokenizerParts> PartsOf(SentencePieceModel model);

/// Parses a ModelProto; takes memory of a few times its size. Errors: kInvalidArgument for a
/// malformed message, with the offset, and more than kMaxTokens pieces; kUnsupported for
/// models of words and of characters, white space as a suffix, and a denormalizer.
Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TEXT_SENTENCE_PIECE_H_
