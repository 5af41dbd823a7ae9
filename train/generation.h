#ifndef STOWAGE_TRAIN_GENERATION_H_
#define STOWAGE_TRAIN_GENERATION_H_

// Generates text from a language model while it trains, by two programs in the arena of the
// training step: "generate" reads one token and returns the logits of the next; "prefill"
// reads many tokens of a prompt at once. They share key-value caches (nn/layers.h), so that
// a text is read once. The caches are in the memory of the step's activations.
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
  double temperature = 0.8;  // 0: the most probable token
  int64_t top_k = 0;         // only the k most probable tokens; 0: all
  /// Only the most probable tokens whose probabilities at the temperature add up to this
  /// (Holtzman et al. 2020); 1: all.
  double top_p = 1;
};

/// Error kInvalidArgument, with the value: a temperature or top_k below 0, a top_p outside
/// (0, 1].
Status CheckSampler(const Sampler& sampler);

/// A token drawn from the softmax of `logits` over the temperature; among equally probable
/// tokens the first counts as the most probable. The result is the same on every platform for
/// the same state of `random`. O(n + k log n) for n logits of which top_k and top_p keep k.
/// Preconditions: there are logits, none NaN; the sampler is valid.
int32_t DrawToken(std::span<const float> logits, const Sampler& sampler,
                  std::mt19937_64& random);

/// The number of tokens that "prefill" reads at once, if texts may be that long.
inline constexpr int64_t kPrefillTokens = 32;

/// "generate", of one token, and "prefill" if texts may be longer. `model_of` returns the model
/// that reads `seq` tokens (ModelOptions::seq) with a cache of `positions` (at least 1;
/// ModelOptions::cache).
std::vector<ProgramSpec> GenerationPrograms(
    const std::function<ModelFn(int64_t seq)>& model_of, int64_t positions);

struct GenerationOptions {
  int64_t length = 0;  // tokens to draw
  Sampler sampler = {};
  /// Only ids below this are drawn; 0: all of the vocabulary.
  int64_t tokens = 0;
  std::vector<int32_t> never = {};  // ids that are not drawn
  std::vector<int32_t> ends = {};   // ids that end the text
  uint64_t seed = 1;  // the result is a function of it, model and text
  std::function<void(int64_t drawn)> on_token = {};  // called after each
};

class Generator {
 public:
  /// The programs have batch 1, and must outlive this; `prefill` may be null. Others may run
  /// them between calls: the caches are then read anew.
  Generator(Runner& generate, Runner* prefill);

  /// The continuation of `text`, which is not empty. The prefix that the caches hold from an
  /// earlier call is not read again. When the caches are full, the last half of the text is
  /// read again from position 0. Errors: those of CheckSampler; those of Runner::Explain, such
  /// as a token outside the vocabulary; kNotFinite for logits that are NaN. Time is linear in
  /// the tokens read, times the positions before them.
  Result<std::vector<int32_t>> Continue(std::span<const int32_t> text,
                                        const GenerationOptions& options);

 private:
  // Reads `text` into the caches; logits_ are then those of the next token.
  Status Read(std::span<const int32_t> text);
  Status Run(Runner& runner, size_t position, std::span<const int32_t> tokens);
  // Whether the caches hold read_.
  bool Remembers() const;
  uint64_t StepsStarted() const;

  Runner& generate_;
  Runner* prefill_;
  std::optional<size_t> positions_;  // of the caches; absent: unlimited
  size_t at_once_ = 1;               // tokens that `prefill` reads
  std::vector<int32_t> read_;  // the tokens in the caches after the last Read
  uint64_t steps_ = 0;         // StepsStarted() then
  std::vector<float> logits_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GENERATION_H_
