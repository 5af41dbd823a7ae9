#ifndef STOWAGE_TEXT_SENTENCE_PIECE_H_
#define STOWAGE_TEXT_SENTENCE_PIECE_H_

// What SentencePiece's models consist of, in their own numbers, as their files and GGUF
// files hold it.
//
//   SentencePieceModel model{.pieces = {"<unk>", "▁a"}, .scores = {0, -1}, .types = {2, 1}};
//   STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(std::move(model)));

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage {

/// Types of pieces, by their numbers in files.
enum class PieceType : int32_t {
  kNormal = 1,
  kUnknown,      // what has no piece
  kControl,      // which no text becomes, as "<s>"
  kUserDefined,  // found in a text before all else
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
  // What an unknown piece is decoded to; nothing: its own text.
  std::optional<std::string> unknown_text = std::nullopt;
  // What begins and ends a text where a reader of the model says so; -1: none.
  int32_t bos = -1;
  int32_t eos = -1;
  // Unknown and user-defined pieces are found in the text as it is, each followed by a new
  // begin, as llama.cpp has it; else user-defined ones in the normalized text, as
  // SentencePiece.
  bool is_raw = false;
};

/// The parts of such a tokenizer. Its control tokens are added tokens, and special. Errors:
/// kInvalidArgument: other numbers of scores or types than of pieces; kUnsupported: a type
/// of no number above, and an unused piece where not `is_raw`.
Result<TokenizerParts> PartsOf(SentencePieceModel model);

}  // namespace stowage

#endif  // STOWAGE_TEXT_SENTENCE_PIECE_H_
