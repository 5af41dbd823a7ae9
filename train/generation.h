#ifndef STOWAGE_TRAIN_GENERATION_H_
#define STOWAGE_TRAIN_GENERATION_H_

// Generates text from a language model while it trains, with two programs in the arena of the
// training step. "generate" reads one token and outputs the logits of the next token. "prefill"
// reads several tokens of a prompt in one run. The programs share key-value caches (nn/layers.h),
// so each token of a text is read once. The caches use memory of the arena that the training step
// uses for activations.
//
//   spec.programs = GenerationPrograms(model_of, /*positions=*/1024);
//   Result<Training> training = Train(spec);
//   Generator generator(*training->Find("generate"), training->Find("prefill"));
//   Result<std::vector<int32_t>> words =
//       generator.Continue(prompt, {.length = 100, .sampler = {.top_p = 0.9}});
//
// DrawToken draws a token from logits of any origin:
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
  double temperature = 0.8;  // 0 means always the most probable token
  int64_t top_k = 0;         // keeps the k most probable tokens; 0 means all
  /// Keeps only the fewest most probable tokens whose probabilities add up to at least this number
  /// (Holtzman et al. 2020). The probabilities are computed with the temperature, and after top_k.
  /// 1 means all tokens.
  double top_p = 1;
};

/// Returns kInvalidArgument, with the value, if temperature or top_k is negative, the temperature
/// is not finite, or top_p is outside (0, 1].
Status CheckSampler(const Sampler& sampler);

/// Draws a token from the softmax of `logits / temperature`. Among tokens with equal logits, the
/// first counts as the most probable. The result is determined by the arguments, including the
/// state of `random`. Platforms may differ in rare cases, because their std::exp rounds
/// differently. O(n + k log n) for n logits of which top_k and top_p keep k. Requires that
/// CheckSampler succeeds, that there is at least one logit, that no logit is NaN, and that the
/// largest logit is finite.
int32_t DrawToken(std::span<const float> logits, const Sampler& sampler,
                  std::mt19937_64& random);

/// The number of tokens that "prefill" reads in one run, if the caches have at least this number of
/// positions.
inline constexpr int64_t kPrefillTokens = 32;

/// Returns the program "generate" and, if `positions` is above 1, the program "prefill".
/// `model_of(seq)` must return the model that reads `seq` tokens (ModelOptions::seq) and has caches
/// of `positions` positions (ModelOptions::cache). `positions` must be at least 1.
std::vector<ProgramSpec> GenerationPrograms(
    const std::function<ModelFn(int64_t seq)>& model_of, int64_t positions);

struct GenerationOptions {
  int64_t length = 0;  // maximum number of tokens to draw
  Sampler sampler = {};
  /// Only ids below this number are drawn. 0 means all ids of the vocabulary.
  int64_t tokens = 0;
  std::vector<int32_t> never = {};  // ids that are not drawn
  std::vector<int32_t> ends = {};   // ids that end the text; included in it
  uint64_t seed = 1;                // seed of the draws
  std::function<void(int64_t drawn)> on_token = {};  // called after each token
};

class Generator {
 public:
  /// Creates a generator from the programs of GenerationPrograms, which must outlive it. `prefill`
  /// may be null. Other code may run the programs between calls of Continue. The next call then
  /// reads the whole text into the caches.
  Generator(Runner& generate, Runner* prefill);

  /// Returns the continuation of `text`, without `text`. A prefix that the caches hold from an
  /// earlier call is not read a second time. When the caches are full, the model no longer sees the
  /// first tokens, half of the cache positions at a time, and reads the remaining tokens from
  /// position 0 on. At least one id below `options.tokens` must not be in `options.never`. Returns
  /// kInvalidArgument if `text` is empty. Returns kNotFinite if logits are NaN. Propagates errors
  /// of CheckSampler and of Runner::Explain, for example if a token is outside the vocabulary. The
  /// time to read a token is linear in the number of positions before it.
  Result<std::vector<int32_t>> Continue(std::span<const int32_t> text,
                                        const GenerationOptions& options);

 private:
  // Reads `text` into the caches. Afterwards logits_ are the logits of the next token.
  Status Read(std::span<const int32_t> text);
  Status Run(Runner& runner, size_t position, std::span<const int32_t> tokens);
  // Returns whether the caches still contain the tokens read_, so that Read can continue from them.
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
