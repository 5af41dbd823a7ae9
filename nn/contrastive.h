#ifndef STOWAGE_NN_CONTRASTIVE_H_
#define STOWAGE_NN_CONTRASTIVE_H_

// Computes embeddings of texts and the contrastive loss that trains them, as defined by
// sentence-transformers. An example consists of a query, a document that answers it, and documents
// that do not. InfoNCE (van den Oord et al. 2018) is the cross-entropy of identifying the query's
// document among all documents of the batch:
//
//   -log softmax(scale * similarity(query, documents))[its own]
//
//   const EmbeddingRules rules = {.pooling = Pooling::kMean, .documents = 1};
//   const Value embeddings = PoolTokens(hidden, lengths, rules.pooling);
//   g.Output("loss", InfoNce(Reshape(embeddings, {batch, 2, width}), rules));
//
// The documents of the other examples in the batch serve as negatives, so the loss depends on the
// batch size. autodiff/gradient_cache.h splits a batch into micro-batches without changing this
// loss.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// The function that computes the embedding of a text from the vectors of its tokens.
enum class Pooling {
  kMean,   // the mean of all vectors
  kFirst,  // the vector of the first token, such as [CLS]
  kLast,   // the vector of the last token; in a causal model, it attends to all
};

/// Returns the pooling named `name` in sentence-transformers: "mean", "cls" or "lasttoken".
/// Returns nullopt for another name.
std::optional<Pooling> FindPooling(std::string_view name);
std::string_view PoolingName(Pooling pooling);

enum class Similarity { kCosine, kDot };

struct EmbeddingRules {
  Pooling pooling = Pooling::kMean;
  Similarity similarity = Similarity::kCosine;
  /// Factor of the similarities, which is the inverse of the temperature.
  double scale = 20;
  /// Averages the loss with the loss of identifying a document's query among all queries.
  bool symmetric = false;
  /// The number of documents of each example, which must be at least 1. The first document answers
  /// the query. The others do not.
  int64_t documents = 1;
};

/// Returns kInvalidArgument unless `scale` is finite and above 0 when rounded to f32, and
/// `documents` is at least 1.
Status CheckEmbedding(const EmbeddingRules& rules);

/// Pools x (N, T, C) over the tokens of each text and returns (N, C). The result is f64 if x is
/// f64, and f32 otherwise. `lengths` (N) is i32, and its values must be in [1, T]. Tokens after a
/// text's length are ignored, but must be finite.
Value PoolTokens(Value x, Value lengths, Pooling pooling,
                 SourceLoc loc = SourceLoc::Current());

/// Returns x (..., C), f32 or f64, divided by max(|x|, 1e-12), where |x| is the L2 norm over the
/// last axis.
Value Normalized(Value x, SourceLoc loc = SourceLoc::Current());

/// Returns the mean InfoNCE loss of `embeddings` (B, 1 + rules.documents, C), f32 or f64. The query
/// of each example comes first. Similarities are computed in chunks of LogitChunk rows (ir/ops.h),
/// so memory is linear in the batch.
Value InfoNce(Value embeddings, const EmbeddingRules& rules,
              SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_CONTRASTIVE_H_
