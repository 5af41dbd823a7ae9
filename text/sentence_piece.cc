#include "text/sentence_piece.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/result.h"

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

// What a piece is but a text that others become.
Status AddPiece(const SentencePieceModel& model, int32_t id,
                TokenizerParts* parts) {
  const auto at = static_cast<size_t>(id);
  const std::string& text = model.pieces[at];
  const auto type = static_cast<PieceType>(model.types[at]);
  if (type == PieceType::kNormal) return {};
  if (type == PieceType::kUnused && !model.is_raw) {
    return UnsupportedError("[text] the piece ", id, ", ", Quoted(text),
                            ", is unused, which is not known");
  }
  if (type == PieceType::kUnknown) parts->unknown = id;
  const bool is_user_defined = type == PieceType::kUserDefined;
  if (is_user_defined && !model.is_raw) {
    parts->normalizer[0].rules.kept.push_back(text);
    if (model.is_unigram) return {};  // a piece of a high score
  }
  parts->apart.push_back(id);
  const bool is_special = type == PieceType::kControl ||
                          (type == PieceType::kUnknown && model.is_raw);
  if (is_special || is_user_defined) {
    parts->added.push_back({.text = text,
                            .id = id,
                            .special = is_special,
                            .normalized = is_user_defined && !model.is_raw,
                            .is_normal = true});
  }
  return {};
}

// As SentencePiece has it, user-defined pieces cost nothing, the longer the less, and the
// least score is that of normal ones.
void SetScores(const SentencePieceModel& model, TokenizerParts* parts) {
  double least = std::numeric_limits<float>::max();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto type = static_cast<PieceType>(model.types[id]);
    if (type == PieceType::kNormal) least = std::min(least, model.scores[id]);
    if (type == PieceType::kUserDefined) {
      const auto bytes = static_cast<double>(model.pieces[id].size());
      parts->scores[id] = 0.1 * (bytes - 1);
    }
  }
  parts->least_score = least;
}

}  // namespace

Result<TokenizerParts> PartsOf(SentencePieceModel model) {
  STOWAGE_RETURN_IF_ERROR(CheckLists(model));
  TokenizerParts parts;
  parts.model =
      model.is_unigram ? TokenizerModel::kUnigram : TokenizerModel::kBpe;
  parts.normalizer.push_back(
      {.kind = NormalizerKind::kSentencePiece, .rules = model.rules});
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    STOWAGE_RETURN_IF_ERROR(AddPiece(model, static_cast<int32_t>(id), &parts));
  }
  parts.byte_fallback = model.byte_fallback;
  parts.fuse_unknown = true;
  parts.is_single = true;
  parts.scores = model.scores;
  if (model.is_unigram) SetScores(model, &parts);
  if (parts.unknown && model.unknown_text) {
    parts.decoder.push_back(
        {.kind = DecoderKind::kToken,
         .pattern = model.pieces[static_cast<size_t>(*parts.unknown)],
         .content = *model.unknown_text});
  }
  parts.decoder.push_back(
      {.kind = DecoderKind::kSentencePiece,
       .first = model.rules.add_space || model.rules.collapse_spaces,
       .cleanup = model.rules.collapse_spaces});
  if (model.byte_fallback) {
    parts.decoder.push_back({.kind = DecoderKind::kByteFallback});
  }
  parts.tokens = std::move(model.pieces);
  return parts;
}

}  // namespace stowage
