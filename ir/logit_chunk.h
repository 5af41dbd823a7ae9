#ifndef STOWAGE_IR_LOGIT_CHUNK_H_
#define STOWAGE_IR_LOGIT_CHUNK_H_

// Logits by chunks of rows, where nobody says how many (LinearCrossEntropy, ir/ops.h): by
// the built-in language models and by imported ones alike.
//
//   if (vocabulary >= kLargeVocabulary) {
//     loss = LinearCrossEntropy(x, w, labels, LogitChunk(rows));
//   }

#include <algorithm>
#include <cstdint>

namespace stowage {

/// Classes from which on logits are the largest value of a step, and worth their chunks.
inline constexpr int64_t kLargeVocabulary = 8192;

/// Rows of logits that exist at a time, of `rows` in all: a quarter, but at least 256, which
/// keep a device busy, and at most 4,096, which weigh little.
inline int64_t LogitChunk(int64_t rows) {
  return std::clamp<int64_t>((rows + 3) / 4, 256, 4096);
}

}  // namespace stowage

#endif  // STOWAGE_IR_LOGIT_CHUNK_H_
