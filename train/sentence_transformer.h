#ifndef STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_
#define STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_

// The files that sentence-transformers keeps beside a model that embeds texts: modules.json,
// the configuration of its pooling, sentence_bert_config.json and
// config_sentence_transformers.json.
//
//   Result<SentenceTransformer> beside = ReadSentenceTransformer("all-MiniLM-L6-v2", 384);
//   beside->pooling == Pooling::kMean && beside->normalizes
//
// Reading follows versions 2 to 6. A setting that changes embeddings and is not supported,
// such as a Dense module, is an error that names it. Written files are read by all of them.

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
  /// Absent: the model has no modules.json.
  std::optional<Pooling> pooling = {};
  bool pools_prompts =
      true;  // "include_prompt": tokens of prompts are pooled, too
  bool normalizes = false;  // a Normalize module follows
  Similarity similarity = Similarity::kCosine;
  std::optional<int64_t> max_seq = {};  // "max_seq_length"
  std::map<std::string, std::string> prompts = {};
  std::string default_prompt = {};  // its name; "" for none

  /// The prompts that encode_query and encode_document put before texts: that of the name
  /// "query", and of "document", "passage" or "corpus", else the default one; "" for none.
  std::string QueryPrompt() const;
  std::string DocumentPrompt() const;
};

/// Reads the files beside the model at `path`, a folder or a file in it, whose vectors have
/// `width` elements. Errors, which name the file and the value: kIo; kInvalidArgument for files
/// that are no JSON or contradict each other or the width; kUnsupported for other modules than
/// a Transformer in the folder itself, Pooling and Normalize, other poolings than Pooling or
/// several at once, similarities than Similarity, texts in lower case, and unknown settings.
Result<SentenceTransformer> ReadSentenceTransformer(const std::string& path,
                                                    int64_t width);

/// The name of a file in a model's folder, perhaps with a folder in front, and its content.
using FileText = std::pair<std::string, std::string>;

/// The files for a model of that width. Precondition: there is a pooling.
std::vector<FileText> SentenceTransformerFiles(
    const SentenceTransformer& settings, int64_t width);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_SENTENCE_TRANSFORMER_H_
