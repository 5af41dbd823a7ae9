#ifndef STOWAGE_TEXT_TEXT_TEMPLATE_H_
#define STOWAGE_TEXT_TEXT_TEMPLATE_H_

// Joins the tokens of one text, or of a pair of texts, with special tokens, as the post-processor
// of a tokenizer.json specifies: "[CLS] A [SEP] B [SEP]". Each token has a type (token_type_ids),
// which tells a model to which text it belongs.
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
  /// A run of special tokens, or a placeholder for a text.
  struct Piece {
    std::vector<int32_t> tokens = {};
    int text = -1;  // text of a placeholder, 0 or 1; -1 otherwise
    int32_t type = 0;
  };

  /// Creates a template without special tokens. The texts have types 0 and 1.
  TextTemplate()
      : single_({{.text = 0}}), pair_({{.text = 0}, {.text = 1, .type = 1}}) {}
  TextTemplate(std::vector<Piece> single, std::vector<Piece> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  /// Parses the content of a tokenizer.json. Returns kInvalidArgument for a malformed
  /// post-processor. Returns kUnsupported unless it is TemplateProcessing, BertProcessing,
  /// RobertaProcessing, ByteLevel, or a Sequence of ByteLevel and one of these.
  static Result<TextTemplate> Parse(std::string_view tokenizer_json);

  /// Returns the number of special tokens that are added to one text, or to a pair.
  int64_t added_tokens(bool is_pair) const;

  /// Joins `first` and, unless it is null, `second`. A result of more than `max_tokens` is
  /// truncated at the ends of the texts, as by `longest_first` of PyPI's `tokenizers`: the longer
  /// text is truncated until both have equal lengths, then both are. Requires that
  /// `max_tokens` is at least `added_tokens(second != nullptr)`.
  JoinedTexts Join(std::span<const int32_t> first,
                   const std::vector<int32_t>* second,
                   int64_t max_tokens) const;

 private:
  std::vector<Piece> single_, pair_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_TEXT_TEMPLATE_H_
