#ifndef STOWAGE_DATA_BATCHING_H_
#define STOWAGE_DATA_BATCHING_H_

// Chooses the examples of each batch and the lengths of sequences. Random numbers depend only on
// the seed and the step, so a resumed run draws the same batches as an uninterrupted run.
//
//   SplitMix64 random(seed, step);
//   int64_t start = random.Below(100);
//
//   TrainOrder order(split->train, seed);
//   order.At((step - 1) * batch + row)   // the example in this row of the step's batch
//
// Each example is padded to a sequence length, and each sequence length needs its own program:
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

  /// Returns a random integer in [0, bound). The probability of each integer is 1 / bound to within
  /// 2^-31. Requires `1 <= bound < 2^31`.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>((Next() >> 32) * static_cast<uint64_t>(bound) >>
                                32);
  }

 private:
  uint64_t state_;
};

/// Fills `order` with a random permutation of 0 to order.size() - 1 (Fisher-Yates). Does not
/// allocate.
void ShuffleOrder(SplitMix64 random, std::span<int64_t> order);
/// Returns a random permutation of 0 to size - 1 as a new vector.
std::vector<int64_t> ShuffledOrder(int64_t size, SplitMix64 random);

/// The order of the examples of a training set. It is shuffled differently in each epoch, as
/// determined by the seed.
class TrainOrder {
 public:
  /// Creates the order of the examples `train`, which must not be empty and must outlive this
  /// object.
  TrainOrder(const std::vector<size_t>& train, uint64_t seed)
      : train_(train), seed_(seed), order_(train.size()) {}
  /// Returns the element of `train` at `position`, which counts from 0 across all epochs. A call
  /// for another epoch than the previous call is linear in the size of the set. Other calls take
  /// constant time. Does not allocate.
  size_t At(int64_t position);

 private:
  const std::vector<size_t>& train_;
  const uint64_t seed_;
  std::vector<int64_t> order_;
  int64_t pass_ = -1;
};

/// All lengths except the longest are multiples of this number.
inline constexpr int64_t kLengthStep = 16;

/// Returns at most `most` sequence lengths, longest first, for inputs with these numbers of tokens.
/// The first length is the length of the longest input, and the others are multiples of
/// kLengthStep. If each input is padded to the shortest length in which it fits, the result
/// minimizes the total number of tokens after padding. Among optimal results, one with the fewest
/// lengths is returned. Uses dynamic programming, in time proportional to `most` times the square
/// of the number of multiples up to the longest input. Requires at least one input, inputs of at
/// least 1, and `most >= 1`.
std::vector<int64_t> ChooseLengths(const std::vector<int64_t>& inputs,
                                   size_t most);

/// Returns the index of the shortest length that is at least `tokens`. If all lengths are shorter,
/// returns 0, the index of the longest length. Requires that `lengths` is in descending order.
/// Linear.
size_t ShortestThatHolds(std::span<const int64_t> lengths, int64_t tokens);

}  // namespace stowage

#endif  // STOWAGE_DATA_BATCHING_H_
