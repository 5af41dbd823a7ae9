#ifndef STOWAGE_TEXT_TEXT_TEMPLATE_H_
#define STOWAGE_TEXT_TEXT_TEMPLATE_H_

// Joins the tokens of one text, or of a pair of texts, with special tokens, as the post-processor
// of a tokenizer.json specifies: "[CLS] A [SEP] B [SEP]". Each token has a type (token_type_ids),
// from which a model knows to which text the token belongs.
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
  std::vector<int32_t> types;  // one per token
  bool is_cut = false;         // whether tokens were truncated
};

class TextTemplate {
 public:
  /// A list of special tokens, or the position of a text.
  struct Piece {
    std::vector<int32_t> tokens = {};
    int text = -1;  // number of the text, 0 or 1; -1 if special tokens
    int32_t type = 0;
  };

  /// Creates a template without special tokens. The texts have types 0 and 1.
  TextTemplate()
      : single_({{.text = 0}}), pair_({{.text = 0}, {.text = 1, .type = 1}}) {}
  TextTemplate(std::vector<Piece> single, std::vector<Piece> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  /// Returns the template of the post-processor in the content of a tokenizer.json, or
  /// TextTemplate() if there is no post-processor. Returns kInvalidArgument for invalid JSON or a
  /// malformed post-processor. Returns kUnsupported unless the post-processor is
  /// TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, or a Sequence of ByteLevel
  /// and one of these.
  static Result<TextTemplate> Parse(std::string_view tokenizer_json);

  /// Returns the number of special tokens that Join adds to one text, or to a pair of texts.
  int64_t added_tokens(bool is_pair) const;

  /// Joins `first` and, unless it is null, `second`. If the result would have more than
  /// `max_tokens` tokens, texts are truncated at their ends, like `longest_first` of PyPI's
  /// `tokenizers`: the longer text is truncated until both have equal lengths, and then both are
  /// truncated. Requires that `max_tokens` is at least `added_tokens(second != nullptr)`.
  JoinedTexts Join(std::span<const int32_t> first,
                   const std::vector<int32_t>* second,
                   int64_t max_tokens) const;

 private:
  std::vector<Piece> single_, pair_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_TEXT_TEMPLATE_H_
