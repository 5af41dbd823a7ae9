#ifndef STOWAGE_TOOLS_LABELED_SPLIT_H_
#define STOWAGE_TOOLS_LABELED_SPLIT_H_

// The texts of a run that trains a classifier: their tokens and labels, split into a training
// and a validation set.
//
//   Result<LabeledSplit> split = SplitLabeledTexts(texts, labels, tokenizer, joins,
//                                                  {.seq = 128}, "films.csv");

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/labeled_texts.h"
#include "text/text_template.h"
#include "text/tokenizer.h"

namespace stowage::tools {

struct LabeledSplit {
  int64_t seq = 0;  // tokens of a text, at most
  std::vector<JoinedTexts> texts = {};
  std::vector<int32_t> labels = {};               // of each text
  std::vector<size_t> train = {}, held_out = {};  // numbers of texts
  int64_t cut = 0, dropped = 0;                   // of texts longer than seq
  int64_t without_token = 0;  // EncodeOptions::without_token of all
};

struct LabeledSplitOptions {
  int64_t seq = 0;
  bool drops = false;  // texts that are longer, which are cut else
  int64_t types = 0;  // that the model tells apart; 0: it does not ask for them
};

/// Holds out every tenth text, at least one, so that a file that is sorted by labels has all
/// of them in both parts. `labels` are FindLabels'. Errors, kInvalidArgument, naming
/// `origin`: a text without tokens; a token type that the model does not have; a seq
/// without place for the special tokens; fewer than 2 texts.
Result<LabeledSplit> SplitLabeledTexts(const LabeledTexts& texts,
                                       std::vector<int32_t> labels,
                                       const Tokenizer& tokenizer,
                                       const TextTemplate& joins,
                                       const LabeledSplitOptions& options,
                                       std::string_view origin);

/// Tokens of the texts of a part.
std::vector<int64_t> TextLengths(const LabeledSplit& split,
                                 const std::vector<size_t>& part);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_LABELED_SPLIT_H_
