#ifndef STOWAGE_DATA_BATCHING_H_
#define STOWAGE_DATA_BATCHING_H_

// Which examples a batch holds, and how long its sequences are. Draws depend on the seed and
// the step alone, so that a resumed run draws what an uninterrupted one would have drawn.
//
//   SplitMix64 random(seed, step);
//   int64_t start = random.Below(100);
//
//   TrainOrder order(split->train, seed);
//   order.At((step - 1) * batch + row)   // the example in that row of the step's batch
//
// An example is padded to the length of its program, and each length is a program to plan:
//
//   std::vector<int64_t> lengths = ChooseLengths(inputs, /*most=*/8);
//   for (size_t i = 1; i < lengths.size(); ++i) {   // the longest is the model itself
//     spec.shapes.push_back({.name = StrCat("of ", lengths[i]),
//                            .model = tuning.ModelOf(ModelPurpose::kTrain, lengths[i])});
//   }

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stowage {

/// Random numbers by SplitMix64 (Steele, Lea & Flood 2014), a stream for each seed and step.
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

  /// In [0, bound), each with probability 1/bound to within 2^-31. Precondition:
  /// 1 <= bound < 2^31.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>((Next() >> 32) * static_cast<uint64_t>(bound) >>
                                32);
  }

 private:
  uint64_t state_;
};

/// Sets `order` to 0 to size - 1 in a random order (Fisher and Yates). Allocates nothing.
void ShuffleOrder(SplitMix64 random, std::span<int64_t> order);
/// The same as a new vector.
std::vector<int64_t> ShuffledOrder(int64_t size, SplitMix64 random);

/// The examples of a training set, shuffled by the seed for every pass.
class TrainOrder {
 public:
  /// `train` must outlive this.
  TrainOrder(const std::vector<size_t>& train, uint64_t seed)
      : train_(train), seed_(seed), order_(train.size()) {}
  /// The example at a position of all passes, counted from 0. Linear when a pass begins.
  /// Allocates nothing.
  size_t At(int64_t position);

 private:
  const std::vector<size_t>& train_;
  const uint64_t seed_;
  std::vector<int64_t> order_;
  int64_t pass_ = -1;
};

/// All lengths but the longest are multiples of this.
inline constexpr int64_t kLengthStep = 16;

/// At most `most` lengths, the longest first, for inputs of so many tokens: the longest input
/// and multiples of kLengthStep, for which the sum over inputs of the shortest length that
/// holds each is minimal; of several such choices one of the fewest lengths. By dynamic
/// programming, in time proportional to `most` times the square of the number of multiples.
/// Preconditions: there are inputs, all of at least 1; most >= 1.
std::vector<int64_t> ChooseLengths(const std::vector<int64_t>& inputs,
                                   size_t most);

/// The index of the shortest of the lengths, which are in descending order, that holds so many
/// tokens; 0, the longest, if none does. Linear.
size_t ShortestThatHolds(std::span<const int64_t> lengths, int64_t tokens);

}  // namespace stowage

#endif  // STOWAGE_DATA_BATCHING_H_
