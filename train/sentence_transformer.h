#ifndef STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_
#define STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_

// Reads and writes the files that sentence-transformers adds to a model that embeds texts:
// modules.json, the configuration of its pooling, sentence_bert_config.json and
// config_sentence_transformers.json.
//
//   Result<SentenceTransformer> beside = ReadSentenceTransformer("all-MiniLM-L6-v2", 384);
//   beside->pooling == Pooling::kMean && beside->normalizes
//
// The reader supports files of versions 2 to 6. A setting that changes embeddings and is not
// supported, such as a Dense module, results in an error that names it. All these versions can read
// the written files.

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

  /// Return the prompts that encode_query and encode_document prepend to texts. The query prompt is
  /// named "query", and the document prompt "document", "passage" or "corpus". If there is none of
  /// that name, the result is the default prompt, or "" if there is no default.
  std::string QueryPrompt() const;
  std::string DocumentPrompt() const;
};

/// Reads the files in the folder of the model at `path`, which is the folder or a file in it. The
/// model's vectors have `width` elements. Errors name the file and the value. Returns kIo if
/// reading fails. Returns kInvalidArgument if a file is not JSON, or if the files contradict each
/// other or the width. Returns kUnsupported for other modules than a Transformer in the folder
/// itself, Pooling and Normalize, for other poolings than Pooling or several poolings together, for
/// other similarities than Similarity, for lowercasing, and for unknown settings.
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
