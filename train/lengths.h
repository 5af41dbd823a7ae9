#ifndef STOWAGE_TRAIN_LENGTHS_H_
#define STOWAGE_TRAIN_LENGTHS_H_

// Which lengths of sequences to have programs for. An example is padded to the length of
// its program, and what is padded is computed for nothing; each length is a program to
// plan and to keep.
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

/// What lengths but the longest are multiples of.
inline constexpr int64_t kLengthStep = 16;

/// At most `most` lengths, the longest first, for inputs of so many tokens each: multiples
/// of kLengthStep, and the longest input, for which the sum over inputs of the shortest
/// length that holds each is the least; of several such choices one of the fewest. Takes
/// time with `most` times the square of the multiples, by dynamic programming over them.
/// Preconditions: there are inputs, all of at least 1; most >= 1.
std::vector<int64_t> ChooseLengths(const std::vector<int64_t>& inputs,
                                   size_t most);

/// Which of the lengths, the longest first, a sequence of that many tokens takes: the
/// position of the shortest that holds it; 0, the longest, where none does. Linear.
size_t ShortestThatHolds(std::span<const int64_t> lengths, int64_t tokens);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_LENGTHS_H_
