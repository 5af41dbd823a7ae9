#ifndef STOWAGE_TEXT_SENTENCE_PIECE_FILE_H_
#define STOWAGE_TEXT_SENTENCE_PIECE_FILE_H_

// SentencePiece's own files, which models keep as tokenizer.model or spiece.model: a
// ModelProto (sentencepiece_model.proto) in protobuf's wire format, which is read here
// without protobuf.
//
//   STOWAGE_ASSIGN_OR_RETURN(SentencePieceModel model, ParseSentencePieceModel(bytes));
//   STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(std::move(model)));

#include <string_view>

#include "base/result.h"
#include "text/sentence_piece.h"

namespace stowage {

/// What such a file holds. Takes memory of a few times the file. Errors:
/// kInvalidArgument: no such message, at which byte, more than kMaxTokens pieces;
/// kUnsupported: models of words and of characters, white space as a suffix, and texts that
/// are rewritten when they are decoded.
Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TEXT_SENTENCE_PIECE_FILE_H_
