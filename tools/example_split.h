#ifndef STOWAGE_TOOLS_EXAMPLE_SPLIT_H_
#define STOWAGE_TOOLS_EXAMPLE_SPLIT_H_

// The examples of a fine-tuning run: which of them fit a sequence, which are held out, and
// in what order the others are taken.
//
//   Result<ExampleSplit> split = SplitExamples(std::move(examples), ...);
//   TrainOrder order(split->train, seed);
//   order.At((step - 1) * batch + row)   // the example in that row of the step's batch

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/examples.h"

namespace stowage::tools {

/// A sequence in two parts, each as tokens and, for each of them, whether it is learnt: as
/// the text has it, or the prompt of one example and the answer of another.
struct Sequence {
  std::array<std::span<const int32_t>, 2> tokens = {};
  std::array<std::span<const uint8_t>, 2> learnt = {};

  int64_t size() const { return std::ssize(tokens[0]) + std::ssize(tokens[1]); }
};

struct ExampleSplit {
  int64_t seq = 0;  // tokens that a sequence reads, at most
  ExampleKind kind = ExampleKind::kLearnt;
  TokenExamples examples;
  std::vector<size_t> train = {}, held_out = {};  // numbers of examples
  /// Of judged answers, by example: the one before it in its part, whose answer goes with
  /// this one's prompt to tell how far the model is from the reference. Of a part of one
  /// example, one of the other part.
  std::vector<size_t> partners = {};
  /// Of examples longer than a sequence, and of prompts with an answer of a partner.
  int64_t cut = 0, dropped = 0, cut_with_partner = 0;

  size_t size() const {
    return examples.size() / (kind == ExampleKind::kPairs ? 2 : 1);
  }
  /// How many sequences an example is: of preferences 2.
  int sequences() const { return kind == ExampleKind::kLearnt ? 1 : 2; }
  /// Sequence 0 or 1 of an example; of a pair the chosen answer is first.
  Sequence Of(size_t example, int which) const;
  /// Tokens of an example's longest sequence.
  int64_t LongestOf(size_t example) const;
};

/// Holds out the last tenth, at least one. Examples that are longer than `seq` and the token
/// behind are left out if `drops`, else only where nothing learnt is within. Error
/// kInvalidArgument, naming `origin`: fewer than 2 fit.
Result<ExampleSplit> SplitExamples(TokenExamples examples, ExampleKind kind,
                                   int64_t seq, bool drops,
                                   std::string_view origin);

/// What the examples of a part read, cut where they are too long.
std::vector<int64_t> InputsOf(const ExampleSplit& split,
                              const std::vector<size_t>& part, int64_t seq);

/// Sequences of at most `seq` tokens that hold the examples of a part, each in one: the
/// longest first, each where it leaves the least room, best-fit decreasing, which takes
/// time with n log n. Examples of a sequence, and sequences by their first ones, are in the
/// order of the part.
std::vector<std::vector<size_t>> PackExamples(const ExampleSplit& split,
                                              const std::vector<size_t>& part);

/// The train part in another order in every pass: Fisher and Yates's shuffle by the seed.
class TrainOrder {
 public:
  /// `train` must outlive this.
  TrainOrder(const std::vector<size_t>& train, uint64_t seed)
      : train_(train), seed_(seed), order_(train.size()) {}
  /// The example at a position of all passes, counted from 0.
  size_t At(int64_t position);

 private:
  void Shuffle(int64_t pass);

  const std::vector<size_t>& train_;
  const uint64_t seed_;
  std::vector<size_t> order_;
  int64_t pass_ = -1;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_EXAMPLE_SPLIT_H_
