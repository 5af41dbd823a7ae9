#ifndef STOWAGE_TRAIN_GENERATION_H_
#define STOWAGE_TRAIN_GENERATION_H_

// Generates text from a language model while it trains, with two programs in the arena of the
// training step. "generate" reads one token and returns the logits of the next token. "prefill"
// reads several tokens of a prompt in one run. They share key-value caches (nn/layers.h), so each
// token of a text is read once. The caches occupy the memory of the step's activations.
//
//   spec.programs = GenerationPrograms(model_of, /*positions=*/1024);
//   Result<Training> training = Train(spec);
//   Generator generator(*training->Find("generate"), training->Find("prefill"));
//   Result<std::vector<int32_t>> words =
//       generator.Continue(prompt, {.length = 100, .sampler = {.top_p = 0.9}});
//
// DrawToken samples a token from any logits:
//
//   std::mt19937_64 random(seed);
//   const int32_t token = DrawToken(logits, {.temperature = 0.7, .top_p = 0.9}, random);

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

struct Sampler {
  double temperature = 0.8;  // 0 selects the most probable token
  int64_t top_k = 0;         // keeps the k most probable tokens; 0 means all
  /// Keeps only the most probable tokens whose probabilities, at the temperature, add up to this
  /// (Holtzman et al. 2020). 1 means all.
  double top_p = 1;
};

/// Returns kInvalidArgument, with the value, if temperature or top_k is negative, the temperature
/// is not finite, or top_p is outside (0, 1].
Status CheckSampler(const Sampler& sampler);

/// Draws a token from the softmax of `logits` divided by the temperature. Of equally probable
/// tokens, the first counts as the most probable. The result is the same on every platform for the
/// same state of `random`. O(n + k log n) for n logits of which top_k and top_p keep k. There must
/// be at least one logit, no logit may be NaN, and the sampler must be valid.
int32_t DrawToken(std::span<const float> logits, const Sampler& sampler,
                  std::mt19937_64& random);

/// The number of tokens that "prefill" reads in one run, unless the caches have fewer positions.
inline constexpr int64_t kPrefillTokens = 32;

/// Returns the program "generate", which reads one token, and the program "prefill" if there is
/// more than one position. `model_of` returns the model that reads `seq` tokens (ModelOptions::seq)
/// with a cache of `positions` (ModelOptions::cache), which must be at least 1.
std::vector<ProgramSpec> GenerationPrograms(
    const std::function<ModelFn(int64_t seq)>& model_of, int64_t positions);

struct GenerationOptions {
  int64_t length = 0;  // number of tokens to draw
  Sampler sampler = {};
  /// Only ids below this are drawn. 0 means all ids of the vocabulary.
  int64_t tokens = 0;
  std::vector<int32_t> never = {};  // ids that are not drawn
  std::vector<int32_t> ends = {};   // ids that end the text
  uint64_t seed = 1;  // determines the result, given the model and the text
  std::function<void(int64_t drawn)> on_token = {};  // called after each token
};

class Generator {
 public:
  /// Creates a generator. The programs must have batch 1 and outlive it. `prefill` may be null.
  /// Other code may run the programs between calls. The next call then reads the whole text into
  /// the caches.
  Generator(Runner& generate, Runner* prefill);

  /// Returns the continuation of `text`, which must not be empty. A prefix that the caches hold
  /// from an earlier call is not read a second time. When the caches are full, the text loses its
  /// first tokens, half of the caches at a time, and the remaining tokens are read from position 0
  /// on. Propagates errors of CheckSampler, and of Runner::Explain, for example for a token outside
  /// the vocabulary. Returns kNotFinite if logits are NaN. Time is linear in the number of tokens
  /// read, multiplied by the positions before them.
  Result<std::vector<int32_t>> Continue(std::span<const int32_t> text,
                                        const GenerationOptions& options);

 private:
  // Reads `text` into the caches. Afterwards logits_ are the logits of the next token.
  Status Read(std::span<const int32_t> text);
  Status Run(Runner& runner, size_t position, std::span<const int32_t> tokens);
  // Returns whether the caches hold read_.
  bool Remembers() const;
  uint64_t StepsStarted() const;

  Runner& generate_;
  Runner* prefill_;
  std::optional<size_t>
      positions_;              // positions of the caches; nullopt: unlimited
  size_t at_once_ = 1;         // tokens that a run of `prefill` reads
  std::vector<int32_t> read_;  // the tokens in the caches after the last Read
  uint64_t steps_ = 0;         // StepsStarted() after the last Read
  std::vector<float> logits_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GENERATION_H_
