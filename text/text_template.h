#ifndef STOWAGE_TEXT_TEXT_TEMPLATE_H_
#define STOWAGE_TEXT_TEXT_TEMPLATE_H_

// How a tokenizer joins the tokens of one text, or of two that are read together, with
// special tokens, as the post-processor of its tokenizer.json says: "[CLS] A [SEP] B [SEP]".
// Each token has a type, by which a model tells the texts apart.
//
//   Result<TextTemplate> joins = TextTemplate::Parse(*ReadFile("bert/tokenizer.json"));
//   JoinedTexts joined = joins->Join(first, &second, /*max_tokens=*/128);

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

struct JoinedTexts {
  std::vector<int32_t> tokens;
  std::vector<int32_t> types;  // one a token
  bool is_cut = false;
};

class TextTemplate {
 public:
  /// A run of special tokens, or the place of a text.
  struct Piece {
    std::vector<int32_t> tokens = {};
    int text = -1;  // 0 or 1: the tokens are those of that text
    int32_t type = 0;
  };

  /// The texts alone, of types 0 and 1.
  TextTemplate()
      : single_({{.text = 0}}), pair_({{.text = 0}, {.text = 1, .type = 1}}) {}
  TextTemplate(std::vector<Piece> single, std::vector<Piece> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  /// Of the content of a tokenizer.json. Errors: kInvalidArgument where its post-processor
  /// lacks what it should have; kUnsupported for another one than TemplateProcessing,
  /// BertProcessing, RobertaProcessing, ByteLevel and a Sequence that has one of them
  /// beside ByteLevel.
  static Result<TextTemplate> Parse(std::string_view tokenizer_json);

  /// The special tokens of one text, or of two.
  int64_t added_tokens(bool is_pair) const;

  /// Joins a text and, unless it is null, a second one. Where they have more than
  /// `max_tokens` together, tokens at the ends of texts are left out, as `tokenizers` does
  /// by longest_first: of the longer text, until both are equally long. Precondition:
  /// max_tokens is at least added_tokens.
  JoinedTexts Join(std::span<const int32_t> first,
                   const std::vector<int32_t>* second,
                   int64_t max_tokens) const;

 private:
  std::vector<Piece> single_, pair_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_TEXT_TEMPLATE_H_
