#ifndef STOWAGE_DATA_BATCHING_H_
#define STOWAGE_DATA_BATCHING_H_

// Chooses the examples of each batch and the lengths of sequences. A random draw depends only on
// the seed and the step, so a resumed run draws the same values as an uninterrupted run.
//
//   SplitMix64 random(seed, step);
//   int64_t start = random.Below(100);
//
//   TrainOrder order(split->train, seed);
//   order.At((step - 1) * batch + row)   // the example in this row of the step's batch
//
// Each example is padded to a program's sequence length, and each length needs its own program:
//
//   std::vector<int64_t> lengths = ChooseLengths(inputs, /*most=*/8);
//   for (size_t i = 1; i < lengths.size(); ++i) {   // lengths[0] is the length of the model
//     spec.shapes.push_back({.name = StrCat("of ", lengths[i]),
//                            .model = tuning.ModelOf(ModelPurpose::kTrain, lengths[i])});
//   }

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stowage {

/// A SplitMix64 generator (Steele, Lea & Flood 2014) with a separate stream for each seed and step.
class SplitMix64 {
 public:
  SplitMix64(uint64_t seed, uint64_t step) : state_(seed) {
    state_ = Next() + step;
    state_ = Next();
  }

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Returns a random integer in [0, bound). The probability of each is 1/bound to within 2^-31.
  /// Requires `1 <= bound < 2^31`.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>((Next() >> 32) * static_cast<uint64_t>(bound) >>
                                32);
  }

 private:
  uint64_t state_;
};

/// Fills `order` with a random permutation of 0 to size - 1 (Fisher-Yates). Allocates nothing.
void ShuffleOrder(SplitMix64 random, std::span<int64_t> order);
/// Returns a random permutation of 0 to size - 1 as a new vector.
std::vector<int64_t> ShuffledOrder(int64_t size, SplitMix64 random);

/// The examples of a training set, reshuffled from the seed in each epoch.
class TrainOrder {
 public:
  /// `train` must outlive this object.
  TrainOrder(const std::vector<size_t>& train, uint64_t seed)
      : train_(train), seed_(seed), order_(train.size()) {}
  /// Returns the example at `position`, which counts from 0 across all epochs. The first call in
  /// an epoch is linear in the size of the set, and later calls take constant time. Allocates
  /// nothing.
  size_t At(int64_t position);

 private:
  const std::vector<size_t>& train_;
  const uint64_t seed_;
  std::vector<int64_t> order_;
  int64_t pass_ = -1;
};

/// All lengths except the longest are multiples of this.
inline constexpr int64_t kLengthStep = 16;

/// Returns at most `most` sequence lengths, longest first, for inputs with these numbers of tokens.
/// The first length is the length of the longest input, and the others are multiples of
/// kLengthStep. Each input is padded to the shortest length that fits it, and the lengths minimize
/// the total number of tokens after padding. Among optimal choices, one with the fewest lengths is
/// returned. Uses dynamic programming, in time proportional to `most` times the square of the
/// number of multiples.
/// Requires at least one input, inputs of at least 1, and `most >= 1`.
std::vector<int64_t> ChooseLengths(const std::vector<int64_t>& inputs,
                                   size_t most);

/// Returns the index of the shortest length that is at least `tokens`, or 0, the index of the
/// longest, if all are shorter. Requires that `lengths` is in descending order. Linear.
size_t ShortestThatHolds(std::span<const int64_t> lengths, int64_t tokens);

}  // namespace stowage

#endif  // STOWAGE_DATA_BATCHING_H_
