#include "text/sentence_piece.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
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

// Adds what the type of a piece says: unknown, added, or never made from text.
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
    if (model.is_unigram) return {};  // by a high score
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

// As in SentencePiece, user-defined pieces have scores that grow with their length, and the
// least score is over normal pieces.
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

namespace {

// A field of a message: a number, or the bytes of a string or a nested message.
struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;  // of a varint, or the bits of a fixed32 or fixed64
  std::string_view bytes;
};

// Iterates over the fields of a message.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  bool AtEnd() const { return at_ == bytes_.size(); }

  Result<WireField> Next() {
    WireField field;
    const size_t begin = at_;
    STOWAGE_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
    field.number = tag >> 3;
    switch (tag & 7) {
      case 0: {
        STOWAGE_ASSIGN_OR_RETURN(field.value, Varint());
        return field;
      }
      case 1: {
        STOWAGE_ASSIGN_OR_RETURN(field.value, Fixed(8));
        return field;
      }
      case 2: {
        STOWAGE_ASSIGN_OR_RETURN(const uint64_t size, Varint());
        if (size > bytes_.size() - at_) {
          return InvalidArgumentError("[sentencepiece] field ", field.number,
                                      " has ", size, " bytes, and ",
                                      bytes_.size() - at_, " are left");
        }
        field.bytes = bytes_.substr(at_, size);
        at_ += size;
        return field;
      }
      case 5: {
        STOWAGE_ASSIGN_OR_RETURN(field.value, Fixed(4));
        return field;
      }
      default:
        return InvalidArgumentError("[sentencepiece] byte ", begin,
                                    " of a message begins no field");
    }
  }

 private:
  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (AtEnd()) break;
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return InvalidArgumentError("[sentencepiece] byte ", at_,
                                " of a message ends in a number");
  }
  Result<uint64_t> Fixed(size_t size) {
    if (size > bytes_.size() - at_) {
      return InvalidArgumentError("[sentencepiece] byte ", at_,
                                  " of a message ends in a number");
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value |= uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    }
    at_ += size;
    return value;
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

Status ForEachField(std::string_view message,
                    const std::function<Status(const WireField&)>& take) {
  WireReader reader(message);
  while (!reader.AtEnd()) {
    STOWAGE_ASSIGN_OR_RETURN(const WireField field, reader.Next());
    STOWAGE_RETURN_IF_ERROR(take(field));
  }
  return {};
}

Status ReadPiece(std::string_view message, SentencePieceModel* model) {
  if (model->pieces.size() >= static_cast<size_t>(kMaxTokens)) {
    return InvalidArgumentError("[sentencepiece] there are more than ",
                                kMaxTokens, " pieces");
  }
  std::string text;
  float score = 0;
  auto type = static_cast<int32_t>(PieceType::kNormal);
  STOWAGE_RETURN_IF_ERROR(
      ForEachField(message, [&](const WireField& field) -> Status {
        if (field.number == 1) text = field.bytes;
        if (field.number == 2) {
          score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
        }
        if (field.number == 3) type = static_cast<int32_t>(field.value);
        return {};
      }));
  model->pieces.push_back(std::move(text));
  model->scores.push_back(score);
  model->types.push_back(type);
  return {};
}

// TrainerSpec.
Status ReadTrainer(const WireField& field, SentencePieceModel* model) {
  constexpr uint64_t kUnigram = 1, kBpe = 2;
  switch (field.number) {
    case 3:
      if (field.value != kUnigram && field.value != kBpe) {
        return UnsupportedError("[sentencepiece] model_type is ", field.value,
                                ", which is not known; expected 1, unigram, or "
                                "2, byte pair encoding");
      }
      model->is_unigram = field.value == kUnigram;
      return {};
    case 24:
      if (field.value == 0) return {};
      return UnsupportedError(
          "[sentencepiece] treat_whitespace_as_suffix is set, which is not "
          "known");
    case 35:
      model->byte_fallback = field.value != 0;
      return {};
    case 41:
      model->bos = static_cast<int32_t>(field.value);
      return {};
    case 42:
      model->eos = static_cast<int32_t>(field.value);
      return {};
    case 44:
      model->unknown_text = std::string(field.bytes);
      return {};
    default:
      return {};
  }
}

// NormalizerSpec.
Status ReadRules(const WireField& field, SentencePieceRules* rules) {
  if (field.number == 2) rules->charsmap = field.bytes;
  if (field.number == 3) rules->add_space = field.value != 0;
  if (field.number == 4) rules->collapse_spaces = field.value != 0;
  if (field.number == 5) rules->escape_spaces = field.value != 0;
  return {};
}

Status CheckDenormalizer(const WireField& field) {
  if (field.number != 2 || field.bytes.empty()) return {};
  return UnsupportedError(
      "[sentencepiece] denormalizer_spec has a charsmap of ",
      field.bytes.size(), " bytes, which is not known");
}

}  // namespace

Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes) {
  // Defaults of the fields.
  SentencePieceModel model{
      .is_unigram = true,
      .byte_fallback = false,
      .rules = {.add_space = true, .collapse_spaces = true},
      .unknown_text = " \u2047 ",
      .bos = 1,
      .eos = 2};
  STOWAGE_RETURN_IF_ERROR(
      ForEachField(bytes, [&](const WireField& part) -> Status {
        switch (part.number) {
          case 1:
            return ReadPiece(part.bytes, &model);
          case 2:
            return ForEachField(part.bytes, [&](const WireField& field) {
              return ReadTrainer(field, &model);
            });
          case 3:
            return ForEachField(part.bytes, [&](const WireField& field) {
              return ReadRules(field, &model.rules);
            });
          case 5:
            return ForEachField(part.bytes, CheckDenormalizer);
          default:
            return {};
        }
      }));
  if (model.pieces.empty()) {
    return InvalidArgumentError(
        "[sentencepiece] the file has no pieces; expected a model of "
        "SentencePiece's");
  }
  return model;
}

}  // namespace stowage
