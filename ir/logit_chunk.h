#ifndef STOWAGE_IR_LOGIT_CHUNK_H_
#define STOWAGE_IR_LOGIT_CHUNK_H_

// How many rows of logits exist at a time (LinearCrossEntropy, ir/ops.h) where nobody says:
// a quarter, at least 256 and at most 4,096, of a vocabulary from which on it is worth it.

#include <algorithm>
#include <cstdint>

namespace stowage {

inline constexpr int64_t kLargeVocabulary = 8192;

inline int64_t LogitChunk(int64_t rows) {
  return std::clamp<int64_t>((rows + 3) / 4, 256, 4096);
}

}  // namespace stowage

#endif  // STOWAGE_IR_LOGIT_CHUNK_H_
