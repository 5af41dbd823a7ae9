#ifndef STOWAGE_TRAIN_GENERATION_H_
#define STOWAGE_TRAIN_GENERATION_H_

// Text from a language model while it trains, by two programs in the arena of the
// training step: one reads a token and gives the logits of the next, the other reads
// many at once, of a prompt. They share the caches of nn/layers.h, so a text is read
// once, however long it grows; where the caches lie, the step keeps its activations.
//
//   spec.programs = GenerationPrograms(model_of, /*positions=*/1024);
//   Result<Training> training = Train(spec);
//   Generator generator(*training->Find("generate"), training->Find("prefill"));
//   Result<std::vector<int32_t>> words =
//       generator.Continue(prompt, {.length = 100, .sampler = {.top_p = 0.9}});

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"
#include "train/step_builder.h"
#include "train/training.h"

namespace stowage {

// Which token follows, given a language model's logits.
//
//   std::mt19937_64 random(seed);
//   const int32_t token = DrawToken(logits, {.temperature = 0.7, .top_p = 0.9}, random);

struct Sampler {
  double temperature = 0.8;  // 0: always the likeliest
  int64_t top_k = 0;         // only among so many of the likeliest; 0: all
  /// Only among the likeliest that together have this probability, at the temperature
  /// (Holtzman et al. 2020); 1: all.
  double top_p = 1;
};

/// Error kInvalidArgument, naming the value: a temperature or top_k below 0, a top_p
/// outside (0, 1].
Status CheckSampler(const Sampler& sampler);

/// A token drawn from the softmax of `logits`, one for each, over the temperature; of
/// tokens that are equally likely the first counts as the likeliest. The same on every
/// platform for the same state of `random`. Preconditions: there are logits, none of
/// them NaN; the sampler is valid. Linear, and with the logarithm of the number of logits for
/// each that top_k and top_p leave.
int32_t DrawToken(std::span<const float> logits, const Sampler& sampler,
                  std::mt19937_64& random);

/// Tokens that the second program reads at once, where texts may be as long.
inline constexpr int64_t kPrefillTokens = 32;

/// "generate", of one token, and, where texts may have more, "prefill". `model_of` gives
/// the model of a program that reads so many tokens (ModelOptions::seq), with
/// ModelOptions::cache of `positions`, at least 1.
std::vector<ProgramSpec> GenerationPrograms(
    const std::function<ModelFn(int64_t seq)>& model_of, int64_t positions);

struct GenerationOptions {
  int64_t length = 0;  // tokens to draw
  Sampler sampler = {};
  /// Of the vocabulary, the first so many may be drawn; 0: all.
  int64_t tokens = 0;
  std::vector<int32_t> never = {};  // of these, those that are not drawn
  std::vector<int32_t> ends = {};   // nothing is drawn after any of them
  uint64_t seed = 1;                // and nothing else decides what is drawn
  std::function<void(int64_t drawn)> on_token = {};  // called after each
};

class Generator {
 public:
  /// For programs of batch 1, which must outlive this; `prefill` is null where there is
  /// none. Others may use them, too: what they leave in the caches is not taken for
  /// one's own.
  Generator(Runner& generate, Runner* prefill);

  /// What the model writes after `text`, which is not empty. What the caches still hold
  /// of its beginning, from a call before, is not read again. Of a text longer than the
  /// caches, the model sees the end: when they are full, the last half of them is read
  /// again as if the text began there. Errors: CheckSampler's; those of
  /// Runner::Explain, such as a token that is not in the vocabulary; kNotFinite for
  /// logits that are no numbers. Time grows with what is read, and for each token with
  /// the positions before it.
  Result<std::vector<int32_t>> Continue(std::span<const int32_t> text,
                                        const GenerationOptions& options);

 private:
  // After it, the caches hold what is seen of `text`, and the logits are those behind
  // it.
  Status Read(std::span<const int32_t> text);
  Status Run(Runner& runner, size_t position, std::span<const int32_t> tokens);
  // Whether the caches hold read_.
  bool Remembers() const;
  uint64_t StepsStarted() const;

  Runner& generate_;
  Runner* prefill_;
  std::optional<size_t> positions_;  // of a text; absent: any number
  size_t at_once_ = 1;               // tokens that `prefill` reads
  std::vector<int32_t> read_;        // what the caches held after the last Read
  uint64_t steps_ = 0;               // StepsStarted then
  std::vector<float> logits_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GENERATION_H_
