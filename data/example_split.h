#ifndef STOWAGE_DATA_EXAMPLE_SPLIT_H_
#define STOWAGE_DATA_EXAMPLE_SPLIT_H_

// Splits the examples of a fine-tuning run into a training and a validation set, and truncates long
// examples to the sequence length. TrainOrder (data/batching.h) then shuffles them. A token is
// called learned if its prediction counts in the loss.
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

/// A sequence that is the concatenation of two segments. `learnt` holds 1 for each learned token.
/// The segments are an example and nothing, or the prompt of one example and the answer of another.
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
  /// For kJudged, the partner of each example: the example before it in its set, cyclically. The
  /// prompt of the example is combined with the answer of the partner to estimate the divergence
  /// from the reference model. The partner of a set's only example is in the other set.
  std::vector<size_t> partners = {};
  /// The numbers of truncated examples, of dropped examples, and of truncated combinations with a
  /// partner.
  int64_t cut = 0, dropped = 0, cut_with_partner = 0;

  size_t size() const {
    return examples.size() / (kind == ExampleKind::kPairs ? 2 : 1);
  }
  /// Returns the number of sequences per example: 2 for preference data, and 1 otherwise.
  int sequences() const { return kind == ExampleKind::kLearnt ? 1 : 2; }
  /// Returns sequence 0 or 1 of an example. For pairs, sequence 0 has the chosen answer.
  Sequence Of(size_t example, int which) const;
  /// Returns the number of tokens in the longest sequence of an example.
  int64_t LongestOf(size_t example) const;
};
/// Splits `examples`. The validation set is the last tenth, and at least one example. An example
/// longer than seq + 1 tokens is dropped if `drops` is true or if truncation would remove all
/// learned tokens, and truncated otherwise. Returns kInvalidArgument, with `origin`, if fewer than
/// 2 examples remain.
Result<ExampleSplit> SplitExamples(TokenExamples examples, ExampleKind kind,
                                   int64_t seq, bool drops,
                                   std::string_view origin);

/// Returns the number of tokens that each example of `part` reads, at most `seq`.
std::vector<int64_t> InputsOf(const ExampleSplit& split,
                              const std::vector<size_t>& part, int64_t seq);

/// Packs the examples of `part` into sequences of at most `seq` tokens by best-fit decreasing.
/// Within a sequence, examples keep the order of `part`. Sequences are ordered by their first
/// examples. O(n log n).
std::vector<std::vector<size_t>> PackExamples(const ExampleSplit& split,
                                              const std::vector<size_t>& part);

}  // namespace stowage

#endif  // STOWAGE_DATA_EXAMPLE_SPLIT_H_
