#ifndef STOWAGE_TESTS_SUPPORT_RANDOM_GRAPH_H_
#define STOWAGE_TESTS_SUPPORT_RANDOM_GRAPH_H_

// Random graphs for differential tests: params that are used several times,
// views of views, results that may be written in place, nodes with several
// results, dead ends, integer inputs, dropout. Values stay bounded, so that
// differences are finite.
//
//   const Graph step = MakeRandomStep(seed);

#include <cstdint>
#include <string>

#include "ir/graph.h"
#include "runtime/session.h"

namespace stowage::testing {

/// A small deterministic generator (SplitMix64, Steele, Lea & Flood 2014).
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  /// Uniform in [0, n). Precondition: n >= 1.
  int64_t Below(int64_t n);
  /// Uniform in [low, high).
  double Uniform(double low, double high);

 private:
  uint64_t state_;
};

inline constexpr int64_t kRandomModelVocabulary = 7;

/// The forward graph of a seed, with the scalar output "loss". Integer inputs
/// hold indices below kRandomModelVocabulary.
Graph MakeRandomModel(uint64_t seed);

/// The training step of that graph, by an optimizer that depends on the seed, its
/// gradients clipped for some.
Graph MakeRandomStep(uint64_t seed);

/// Writes every input of `runner` with values that depend on `seed`, its name
/// and the step alone: floats in [-1, 1), indices in range, "lr", "step" and
/// "seed" as a training loop would.
void WriteRandomInputs(Runner& runner, uint64_t seed, int64_t step);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANDOM_GRAPH_H_
