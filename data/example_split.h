#ifndef STOWAGE_DATA_EXAMPLE_SPLIT_H_
#define STOWAGE_DATA_EXAMPLE_SPLIT_H_

// The examples of a fine-tuning run, truncated to sequences and split into a training and a
// validation set. data/batching.h orders them.
//
//   Result<ExampleSplit> split = SplitExamples(std::move(examples), ...);
//   TrainOrder order(split->train, seed);

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/examples.h"

namespace stowage {

/// A sequence in two parts, as tokens and whether each is learned: an example, or the prompt of
/// one and the answer of another.
struct Sequence {
  std::array<std::span<const int32_t>, 2> tokens = {};
  std::array<std::span<const uint8_t>, 2> learnt = {};

  int64_t size() const { return std::ssize(tokens[0]) + std::ssize(tokens[1]); }
};

struct ExampleSplit {
  int64_t seq = 0;  // maximum tokens that a sequence reads
  ExampleKind kind = ExampleKind::kLearnt;
  TokenExamples examples;
  std::vector<size_t> train = {}, held_out = {};  // indices of examples
  /// For kJudged, by example: the one before it in its set, whose answer is combined with this
  /// one's prompt to estimate the divergence from the reference. If a set has one example, one
  /// of the other set.
  std::vector<size_t> partners = {};
  /// The numbers of longer examples that are truncated or dropped, and of truncated
  /// combinations with a partner.
  int64_t cut = 0, dropped = 0, cut_with_partner = 0;

  size_t size() const {
    return examples.size() / (kind == ExampleKind::kPairs ? 2 : 1);
  }
  /// The number of sequences of an example: 2 for preferences.
  int sequences() const { return kind == ExampleKind::kLearnt ? 1 : 2; }
  /// Sequence 0 or 1 of an example; that of the chosen answer is 0.
  Sequence Of(size_t example, int which) const;
  /// The tokens of an example's longest sequence.
  int64_t LongestOf(size_t example) const;
};

/// Splits off the last tenth, at least one, as validation set. Examples longer than seq + 1
/// tokens are dropped if `drops`, else truncated, and dropped if nothing learned remains. Error
/// kInvalidArgument, with `origin`: fewer than 2 fit.
Result<ExampleSplit> SplitExamples(TokenExamples examples, ExampleKind kind,
                                   int64_t seq, bool drops,
                                   std::string_view origin);

/// The tokens that each example of a set reads, at most `seq`.
std::vector<int64_t> InputsOf(const ExampleSplit& split,
                              const std::vector<size_t>& part, int64_t seq);

/// Packs the examples of a set into sequences of at most `seq` tokens by best-fit decreasing.
/// Examples of a sequence, and sequences by their first examples, are in the order of the set.
/// O(n log n).
std::vector<std::vector<size_t>> PackExamples(const ExampleSplit& split,
                                              const std::vector<size_t>& part);

}  // namespace stowage

#endif  // STOWAGE_DATA_EXAMPLE_SPLIT_H_
