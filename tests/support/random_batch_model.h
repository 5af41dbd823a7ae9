#ifndef STOWAGE_TESTS_SUPPORT_RANDOM_BATCH_MODEL_H_
#define STOWAGE_TESTS_SUPPORT_RANDOM_BATCH_MODEL_H_

// Builds random models whose losses over a batch are sums, means, quotients and others. Each
// model states whether its loss can be computed from micro-batches, for tests of gradient
// accumulation.
//
//   const RandomBatchModel model = {.seed = 1, .is_split = true};
//   Graph whole = model.Build(8), part = model.Build(2);

#include <cstdint>
#include <random>

#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage::testing {

/// The dimensions of the inputs. "x" has the shape (batch, kTime, kWidth), and "mask" has the shape
/// (batch, kTime). "labels" has the shape (batch, kTime) and holds integers in [0, kClasses).
constexpr int64_t kTime = 3, kWidth = 4, kClasses = 5;

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  int64_t Below(int64_t n) {
    return static_cast<int64_t>(bits_() % static_cast<uint64_t>(n));
  }
  bool Coin() { return Below(2) == 1; }

 private:
  std::mt19937_64 bits_;
};

struct RandomBatchModel {
  uint64_t seed;
  bool is_split;  // the loss can be computed from micro-batches
  DType dtype = DType::kF64;

  Graph Build(int64_t batch) const;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANDOM_BATCH_MODEL_H_
