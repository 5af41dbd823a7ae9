#ifndef STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_
#define STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_

// Reads and writes the files that sentence-transformers adds to a model that embeds texts:
// modules.json, the config.json of the pooling, sentence_bert_config.json and
// config_sentence_transformers.json.
//
//   Result<SentenceTransformer> beside = ReadSentenceTransformer("all-MiniLM-L6-v2", 384);
//   beside->pooling == Pooling::kMean && beside->normalizes
//
// ReadSentenceTransformer supports files of sentence-transformers versions 2 to 6. It returns an
// error for a setting that changes embeddings and is not supported, such as a Dense module. All
// these versions can read the files of SentenceTransformerFiles.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "nn/contrastive.h"

namespace stowage {

struct SentenceTransformer {
  /// The pooling, or nullopt if the model has no modules.json.
  std::optional<Pooling> pooling = {};
  bool pools_prompts =
      true;  // "include_prompt": the tokens of prompts are also pooled
  bool normalizes = false;  // a Normalize module follows the pooling
  Similarity similarity = Similarity::kCosine;
  std::optional<int64_t> max_seq = {};  // "max_seq_length"
  std::map<std::string, std::string> prompts = {};
  std::string default_prompt = {};  // name of the default, or "" for none

  /// QueryPrompt returns the prompt that encode_query of sentence-transformers prepends to a text.
  /// DocumentPrompt returns the prompt of encode_document. In `prompts`, the query prompt is named
  /// "query", and the document prompt "document", "passage" or "corpus", in this order of
  /// precedence. If there is no prompt of these names, the result is the default prompt, or "" if
  /// there is no default.
  std::string QueryPrompt() const;
  std::string DocumentPrompt() const;
};

/// Reads the files of the model at `path`, which is its folder or a file in its folder. Files that
/// do not exist are skipped. `width` is the number of elements of the model's vectors. Errors name
/// the file and the value. Returns kIo if reading fails. Returns kInvalidArgument if a file is not
/// JSON, or if the files contradict each other or `width`. Returns kUnsupported for modules other
/// than a Transformer in the folder itself, a Pooling and an optional Normalize, in this order, for
/// a pooling that is not in the enum Pooling, for several poolings, for a similarity that is not in
/// the enum Similarity, for lowercasing, and for unknown settings that are not null or false.
Result<SentenceTransformer> ReadSentenceTransformer(const std::string& path,
                                                    int64_t width);

/// The name of a file relative to a model's folder, and its content.
using FileText = std::pair<std::string, std::string>;

/// Returns the files for a model whose vectors have `width` elements. Requires that `settings` has
/// a pooling.
std::vector<FileText> SentenceTransformerFiles(
    const SentenceTransformer& settings, int64_t width);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_
