#ifndef STOWAGE_TEXT_TEXT_TEMPLATE_H_
#define STOWAGE_TEXT_TEXT_TEMPLATE_H_

// Joins the tokens of one text, or of a pair of texts, with special tokens, by the
// post-processor of a tokenizer.json: "[CLS] A [SEP] B [SEP]". Each token has a type
// (token_type_ids), by which a model distinguishes the texts.
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
  bool is_cut = false;         // tokens were truncated
};

class TextTemplate {
 public:
  /// A run of special tokens, or the placeholder of a text.
  struct Piece {
    std::vector<int32_t> tokens = {};
    int text = -1;  // 0 or 1: the placeholder of that text
    int32_t type = 0;
  };

  /// Adds no special tokens; the texts have types 0 and 1.
  TextTemplate()
      : single_({{.text = 0}}), pair_({{.text = 0}, {.text = 1, .type = 1}}) {}
  TextTemplate(std::vector<Piece> single, std::vector<Piece> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  /// Parses the content of a tokenizer.json. Errors: kInvalidArgument for a malformed
  /// post-processor; kUnsupported unless it is TemplateProcessing, BertProcessing,
  /// RobertaProcessing, ByteLevel, or a Sequence of ByteLevel and one of them.
  static Result<TextTemplate> Parse(std::string_view tokenizer_json);

  /// The number of special tokens around one text, or a pair.
  int64_t added_tokens(bool is_pair) const;

  /// Joins a text and, unless it is null, a second one. Longer results than `max_tokens` are
  /// truncated at the ends of texts as by `tokenizers`' longest_first: the longer text first,
  /// until both are equally long. Precondition: max_tokens >= added_tokens.
  JoinedTexts Join(std::span<const int32_t> first,
                   const std::vector<int32_t>* second,
                   int64_t max_tokens) const;

 private:
  std::vector<Piece> single_, pair_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_TEXT_TEMPLATE_H_
