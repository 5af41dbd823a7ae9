#ifndef STOWAGE_TRAIN_SAMPLER_H_
#define STOWAGE_TRAIN_SAMPLER_H_

// Which token follows, given a language model's logits.
//
//   std::mt19937_64 random(seed);
//   const int32_t token = DrawToken(logits, {.temperature = 0.7, .top_p = 0.9}, random);

#include <cstdint>
#include <random>
#include <span>

#include "base/result.h"

namespace stowage {

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

}  // namespace stowage

#endif  // STOWAGE_TRAIN_SAMPLER_H_
