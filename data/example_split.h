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

/// A sequence that is the concatenation of two segments. Either the first segment is an example and
/// the second is empty, or the segments are the prompt of one example and the answer of another.
/// `learnt` is 1 for each learned token and 0 for other tokens.
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
  /// For kJudged, the partner of each example: the previous example in the training or validation
  /// set, cyclically. The prompt of the example with the answer of the partner forms a sequence
  /// from which the divergence from the reference model is estimated (PreferenceObjective::kKto in
  /// nn/losses.h). If a set has only one example, its partner is in the other set.
  std::vector<size_t> partners = {};
  /// The number of truncated examples, the number of dropped examples, and the number of sequences
  /// with the answer of a partner that are truncated.
  int64_t cut = 0, dropped = 0, cut_with_partner = 0;

  size_t size() const {
    return examples.size() / (kind == ExampleKind::kPairs ? 2 : 1);
  }
  /// Returns the number of sequences per example: 2 for preference data, and 1 otherwise.
  int sequences() const { return kind == ExampleKind::kLearnt ? 1 : 2; }
  /// Returns sequence `which`, 0 or 1, of an example. For kPairs, sequence 0 has the chosen answer,
  /// and sequence 1 the rejected answer. For kJudged, sequence 1 has the answer of the partner.
  Sequence Of(size_t example, int which) const;
  /// Returns the number of tokens in the longest sequence of an example.
  int64_t LongestOf(size_t example) const;
};
/// Splits `examples`, which must be of `kind`. The validation set is the last tenth of the
/// examples, and at least one. An example of more than seq + 1 tokens is dropped if `drops` is true
/// or if truncation would remove all learned tokens. Otherwise it is truncated. Returns
/// kInvalidArgument, naming `origin`, if fewer than 2 examples remain.
Result<ExampleSplit> SplitExamples(TokenExamples examples, ExampleKind kind,
                                   int64_t seq, bool drops,
                                   std::string_view origin);

/// Returns the number of tokens that the model reads for each example of `part`, a list of example
/// indices: the tokens of its longest sequence except the last token, and at most `seq`.
std::vector<int64_t> InputsOf(const ExampleSplit& split,
                              const std::vector<size_t>& part, int64_t seq);

/// Packs the examples of `part`, a list of example indices, into sequences of at most split.seq
/// tokens by the best-fit decreasing algorithm. Within a sequence, examples keep the order of
/// `part`. Sequences are ordered by their first examples. O(n log n).
std::vector<std::vector<size_t>> PackExamples(const ExampleSplit& split,
                                              const std::vector<size_t>& part);

}  // namespace stowage

#endif  // STOWAGE_DATA_EXAMPLE_SPLIT_H_
