#ifndef STOWAGE_NN_CONTRASTIVE_H_
#define STOWAGE_NN_CONTRASTIVE_H_

// Embeddings of texts, and the contrastive loss that trains them, with the definitions of
// sentence-transformers. An example is a query, a document that answers it, and documents
// that do not. InfoNCE (van den Oord et al. 2018) is the cross-entropy of finding the query's
// document among all documents of the batch:
//
//   -log softmax(scale * similarity(query, documents))[its own]
//
//   const EmbeddingRules rules = {.pooling = Pooling::kMean, .documents = 1};
//   const Value embeddings = PoolTokens(hidden, lengths, rules.pooling);
//   g.Output("loss", InfoNce(Reshape(embeddings, {batch, 2, width}), rules));
//
// The documents of the other examples serve as negatives, so that a larger batch makes a
// harder task. autodiff/gradient_cache.h splits such a batch into micro-batches.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// How the vectors of a text's tokens become its embedding.
enum class Pooling {
  kMean,   // their mean
  kFirst,  // the first token's, such as [CLS]
  kLast,  // the last token's, which is the only one that reads all in a causal model
};

/// "mean", "cls" or "lasttoken", as sentence-transformers names them; absent for another name.
std::optional<Pooling> FindPooling(std::string_view name);
std::string_view PoolingName(Pooling pooling);

enum class Similarity { kCosine, kDot };

struct EmbeddingRules {
  Pooling pooling = Pooling::kMean;
  Similarity similarity = Similarity::kCosine;
  /// Factor of similarities: the inverse of the temperature.
  double scale = 20;
  /// Adds the loss of finding a document's query among all queries; the loss is the mean of
  /// both.
  bool symmetric = false;
  /// Documents of each example, at least 1; the first belongs to the query, the others do not.
  int64_t documents = 1;
};

/// Error kInvalidArgument unless scale is finite and above 0 in f32, and documents is at least
/// 1.
Status CheckEmbedding(const EmbeddingRules& rules);

/// x (N, T, C) and lengths (N) i32, each in [1, T] -> (N, C), f64 for f64, else f32. Tokens
/// after a text's length are ignored.
Value PoolTokens(Value x, Value lengths, Pooling pooling,
                 SourceLoc loc = SourceLoc::Current());

/// x (..., C) divided by max(|x|, 1e-12).
Value Normalized(Value x, SourceLoc loc = SourceLoc::Current());

/// The mean loss of embeddings (B, 1 + documents, C), f32 or f64; the query comes first. Scores
/// are computed LogitChunk rows at a time (ir/ops.h), so that memory is linear in the batch.
Value InfoNce(Value embeddings, const EmbeddingRules& rules,
              SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_CONTRASTIVE_H_
