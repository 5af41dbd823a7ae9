#include "text/sentence_piece.h"

#include <utility>

#include "base/errors.h"

namespace stowage {
namespace {

Status CheckLists(const SentencePieceModel& model) {
  const size_t pieces = model.pieces.size();
  if (model.types.size() != pieces) {
    return InvalidArgumentError("[text] there are ", model.types.size(),
                                " types for ", pieces,
                                " tokens; expected one for each");
  }
  if (model.scores.size() != pieces) {
    return InvalidArgumentError("[text] there are ", model.scores.size(),
                                " scores for ", pieces,
                                " tokens; expected one for each");
  }
  for (size_t id = 0; id < pieces; ++id) {
    const int32_t type = model.types[id];
    if (type < static_cast<int32_t>(PieceType::kNormal) ||
        type > static_cast<int32_t>(PieceType::kByte)) {
      return UnsupportedError("[text] the piece ", id, ", ",
                              Quoted(model.pieces[id]), ", is of type ", type,
                              ", which is not known; expected 1 to 6");
    }
  }
  return {};
}

// What a piece is but a text that merges give.
void AddPiece(const SentencePieceModel& model, int32_t id,
              TokenizerParts* parts) {
  const auto at = static_cast<size_t>(id);
  const std::string& text = model.pieces[at];
  const auto type = static_cast<PieceType>(model.types[at]);
  if (type == PieceType::kNormal) return;
  parts->apart.push_back(id);
  if (type == PieceType::kUnknown) parts->unknown = id;
  const bool is_special =
      type == PieceType::kControl ||
      (type == PieceType::kUnknown && model.raw_user_defined);
  if (is_special || type == PieceType::kUserDefined) {
    parts->added.push_back(
        {.text = text,
         .id = id,
         .special = is_special,
         .normalized = !is_special && !model.raw_user_defined});
  }
}

}  // namespace

Result<TokenizerParts> PartsOf(SentencePieceModel model) {
  STOWAGE_RETURN_IF_ERROR(CheckLists(model));
  TokenizerParts parts;
  parts.model = TokenizerModel::kBpe;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    AddPiece(model, static_cast<int32_t>(id), &parts);
  }
  parts.byte_fallback = model.byte_fallback;
  parts.fuse_unknown = true;
  parts.decoder.push_back(
      {.kind = DecoderKind::kSentencePiece,
       .first = model.rules.add_space || model.rules.collapse_spaces,
       .cleanup = model.rules.collapse_spaces});
  if (model.byte_fallback) {
    parts.decoder.push_back({.kind = DecoderKind::kByteFallback});
  }
  parts.normalizer.push_back({.kind = NormalizerKind::kSentencePiece,
                              .rules = std::move(model.rules)});
  parts.tokens = std::move(model.pieces);
  parts.scores = std::move(model.scores);
  return parts;
}

}  // namespace stowage
