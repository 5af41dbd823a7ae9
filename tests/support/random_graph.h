#ifndef STOWAGE_TESTS_SUPPORT_RANDOM_GRAPH_H_
#define STOWAGE_TESTS_SUPPORT_RANDOM_GRAPH_H_

// Builds random models and training steps for differential tests. They contain
// params that are used several times, views of views, results that may be
// written in place, nodes with several results, unused results, integer inputs
// and dropout. Values stay bounded, so differences are finite.
//
//   const Graph step = MakeRandomStep(seed);

#include <cstdint>
#include <string>

#include "ir/graph.h"
#include "runtime/session.h"

namespace stowage::testing {

/// A small random number generator with the same results on every platform (SplitMix64, Steele,
/// Lea & Flood 2014).
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  /// Returns a uniform integer in [0, n). Requires `n >= 1`.
  int64_t Below(int64_t n);
  /// Returns a uniform number in [low, high).
  double Uniform(double low, double high);

 private:
  uint64_t state_;
};

inline constexpr int64_t kRandomModelVocabulary = 7;

/// Returns a random forward graph with the scalar output "loss". Elements of
/// integer inputs must be in [0, kRandomModelVocabulary).
Graph MakeRandomModel(uint64_t seed);

/// Returns the training step of MakeRandomModel(seed). The seed also selects the optimizer, and
/// whether the step has gradient clipping and loss scaling.
Graph MakeRandomStep(uint64_t seed);

/// Writes all inputs of `runner`. The content of an input depends only on
/// `seed`, the input's name and `step`. Floats are in [-1, 1), and indices are in
/// [0, kRandomModelVocabulary). "lr" is 0.01, "step" is `step`, and "seed" is 9.
void WriteRandomInputs(Runner& runner, uint64_t seed, int64_t step);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANDOM_GRAPH_H_
