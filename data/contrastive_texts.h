#ifndef STOWAGE_DATA_CONTRASTIVE_TEXTS_H_
#define STOWAGE_DATA_CONTRASTIVE_TEXTS_H_

// The data for training embeddings of texts: a query, documents that belong to it, and documents
// that do not, as JSON lines. The keys are those of sentence-transformers or of FlagEmbedding;
// documents are a text or a list of texts.
//
//   {"anchor": "A fine film.", "positive": "I liked it."}
//   {"query": "capital of France", "positive": "Paris is ...", "negative": "Lyon is ..."}
//   {"query": "capital of France", "pos": ["Paris is ..."], "neg": ["Lyon is ...", "Nice ..."]}
//   {"sentence1": "It rains.", "sentence2": "The street is wet."}
//
//   Result<ContrastiveTexts> texts = ReadContrastiveTexts(bytes, "pairs.jsonl");
//   Result<int64_t> negatives = NegativesOf(*texts, /*asked=*/{}, "pairs.jsonl");
//   Result<ContrastiveSplit> split = SplitContrastiveTexts(
//       *texts, tokenizer, joins, {.seq = 128, .negatives = *negatives}, "pairs.jsonl");

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/batching.h"
#include "text/text_template.h"
#include "text/tokenizer.h"

namespace stowage {

struct ContrastiveRow {
  std::string query = {};
  std::vector<std::string> positives = {};  // at least one
  std::vector<std::string> negatives = {};
  int64_t line = 0;
};

struct ContrastiveTexts {
  std::vector<ContrastiveRow> rows = {};
  /// Keys that are ignored, with the number of rows that have each.
  std::map<std::string, int64_t> unread_keys = {};
};

/// Reads JSON lines; blank lines are skipped. A row has one key of each column:
///
///   query      query, anchor, question, sentence1
///   positives  positive, pos, answer, sentence2
///   negatives  negative, neg, negatives, and negative_1, negative_2, ..., which may be
///              combined; none is required
///
/// `text` is UTF-8; `origin` names it in errors, which state the line. Errors kInvalidArgument:
/// a line that is not a JSON object, two keys of a column or none, a value that is no text or
/// list of texts, an empty text, no positive, no rows, a duplicate key, and keys that change
/// training elsewhere, such as "label", "score" and "prompt".
Result<ContrastiveTexts> ReadContrastiveTexts(std::string_view text,
                                              std::string_view origin);

/// The rows as tokens, split into a training and a validation set. Equal texts are stored once.
struct ContrastiveSplit {
  /// A query and its documents, as indices of `texts`.
  struct Example {
    size_t query = 0;
    std::vector<size_t> positives = {}, negatives = {};
  };

  int64_t seq = 0;                               // maximum tokens of a text
  int64_t negatives = 0;                         // of each example in a batch
  std::vector<std::vector<int32_t>> texts = {};  // tokens, with special tokens
  std::vector<Example> examples = {};
  std::vector<size_t> train = {}, held_out = {};  // indices of examples
  /// The numbers of truncated texts, and of dropped examples with a longer text.
  int64_t cut = 0, dropped = 0;
  /// Training examples with a positive that an earlier one has: in one batch, each is a negative
  /// of the other.
  int64_t repeated = 0;
  int64_t without_token = 0;  // sum of EncodeOptions::without_token

  /// The documents of an example in a batch, to an array of 1 + negatives: a positive, and
  /// negatives in their order. If there are more, they are drawn by `random`; without it, the
  /// first ones are taken. Allocates nothing.
  void Documents(size_t example, std::optional<SplitMix64> random,
                 std::span<size_t> documents) const;

  /// The tokens of the longest text of an example.
  int64_t LongestOf(size_t example) const;
};

/// The negatives of each example in a batch: `asked`, or else the fewest that a row has. Error
/// kInvalidArgument: `asked` is below 0, or a row has fewer.
Result<int64_t> NegativesOf(const ContrastiveTexts& texts,
                            std::optional<int64_t> asked,
                            std::string_view origin);

struct ContrastiveSplitOptions {
  int64_t seq = 0;
  /// Whether examples with a longer text are dropped; else it is truncated.
  bool drops = false;
  int64_t negatives = 0;  // of each example, as NegativesOf returns
  std::string query_prompt = {}, document_prompt = {};  // put before texts
};

/// Encodes the texts with their prompts, and makes every tenth row, at least one, the validation
/// set. Errors kInvalidArgument, with `origin`: a text without tokens; a token of another type
/// than 0; a seq too small for the special tokens; fewer than 2 rows.
Result<ContrastiveSplit> SplitContrastiveTexts(
    const ContrastiveTexts& texts, const Tokenizer& tokenizer,
    const TextTemplate& joins, const ContrastiveSplitOptions& options,
    std::string_view origin);

/// LongestOf of each example of a set.
std::vector<int64_t> LongestTexts(const ContrastiveSplit& split,
                                  const std::vector<size_t>& part);

}  // namespace stowage

#endif  // STOWAGE_DATA_CONTRASTIVE_TEXTS_H_
