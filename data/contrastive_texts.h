#ifndef STOWAGE_DATA_CONTRASTIVE_TEXTS_H_
#define STOWAGE_DATA_CONTRASTIVE_TEXTS_H_

// Reads the data for training text embeddings: JSON lines, each with a query, positive documents,
// which match the query, and negative documents, which do not. The keys of sentence-transformers
// and of FlagEmbedding are recognized. A value is a string, or a list of strings for documents.
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
  /// Each ignored key and the number of rows that have it.
  std::map<std::string, int64_t> unread_keys = {};
};

/// Reads JSON lines, skipping blank lines. Each row must have exactly one of the keys for the query
/// and exactly one of the keys for positives. Negatives are optional. A row may have several of
/// their keys:
///
///   query      query, anchor, question, sentence1
///   positives  positive, pos, answer, sentence2
///   negatives  negative, neg, negatives, negative_1, negative_2, ...
///
/// `origin` names `text` in errors. Returns kInvalidArgument, with the line, if a line is not a
/// JSON object in UTF-8, a key is repeated, a row has no query or no positive, a row has two keys
/// for the query or for the positives, a value is not a string or, for documents, a list of
/// strings, or a string is empty. Also returns kInvalidArgument for keys that change training in
/// other programs, such as "label", "score" and "prompt", and if there are no rows.
Result<ContrastiveTexts> ReadContrastiveTexts(std::string_view text,
                                              std::string_view origin);

/// Tokenized rows, split into a training and a validation set. Each distinct text is stored once.
struct ContrastiveSplit {
  /// A query and its documents, as indices into `texts`.
  struct Example {
    size_t query = 0;
    std::vector<size_t> positives = {}, negatives = {};
  };

  int64_t seq = 0;                               // maximum tokens of a text
  int64_t negatives = 0;                         // per example in a batch
  std::vector<std::vector<int32_t>> texts = {};  // tokens, with special tokens
  std::vector<Example> examples = {};
  std::vector<size_t> train = {}, held_out = {};  // indices of examples
  /// The number of truncated texts, and the number of examples that were dropped because a text is
  /// too long.
  int64_t cut = 0, dropped = 0;
  /// The number of training examples that share a positive with an earlier example. If both are in
  /// one batch, the shared positive is also an in-batch negative.
  int64_t repeated = 0;
  int64_t without_token = 0;  // sum of EncodeOptions::without_token

  /// Writes the documents of an example to `documents`, as indices into `texts`: one positive,
  /// followed by `negatives` negatives in the order of the row. `documents` must have 1 + negatives
  /// elements. If the example has more positives or negatives, they are sampled with `random`.
  /// Without `random`, the first ones are used. Does not allocate.
  void Documents(size_t example, std::optional<SplitMix64> random,
                 std::span<size_t> documents) const;

  /// Returns the number of tokens in the longest text of an example.
  int64_t LongestOf(size_t example) const;
};

/// Returns the number of negatives per example in a batch. This is `asked` if it is given, and
/// otherwise the smallest number of negatives in any row. Returns kInvalidArgument if `asked` is
/// negative, or if a row has fewer negatives than `asked`. Requires that `texts` has rows.
Result<int64_t> NegativesOf(const ContrastiveTexts& texts,
                            std::optional<int64_t> asked,
                            std::string_view origin);

struct ContrastiveSplitOptions {
  int64_t seq = 0;
  /// Whether examples with a text of more than `seq` tokens are dropped. If false, the text is
  /// truncated.
  bool drops = false;
  int64_t negatives = 0;  // per example, as returned by NegativesOf
  std::string query_prompt = {}, document_prompt = {};  // prepended to texts
};

/// Encodes the texts with their prompts and the special tokens of `joins`, and splits the rows that
/// are not dropped. Every tenth row is in the validation set, or the last row if there are fewer
/// than ten rows. Returns kInvalidArgument, naming `origin`, if a text has no tokens, a token type
/// is not 0, `seq` is below the number of special tokens, or fewer than 2 rows remain. Propagates
/// errors of Tokenizer::Encode.
Result<ContrastiveSplit> SplitContrastiveTexts(
    const ContrastiveTexts& texts, const Tokenizer& tokenizer,
    const TextTemplate& joins, const ContrastiveSplitOptions& options,
    std::string_view origin);

/// Returns LongestOf for each example in `part`, a list of example indices.
std::vector<int64_t> LongestTexts(const ContrastiveSplit& split,
                                  const std::vector<size_t>& part);

}  // namespace stowage

#endif  // STOWAGE_DATA_CONTRASTIVE_TEXTS_H_
