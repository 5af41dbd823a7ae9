#ifndef STOWAGE_TOOLS_SAMPLE_H_
#define STOWAGE_TOOLS_SAMPLE_H_

// Text from a trained language model, of characters or of other tokens.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"
#include "tools/work_progress.h"

namespace stowage::tools {

/// Which token is drawn.
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

struct SampleOptions {
  int64_t length = 0;  // tokens
  Sampler sampler = {};
  int64_t tokens = 0;  // of the vocabulary, those that may be drawn
  std::optional<int32_t> end = {};  // nothing is drawn after it
};

/// Goes on from `prompt`, which is not empty, one run of the generation program a token:
/// each is drawn from the softmax of the logits over the temperature, as the sampler has
/// it, by the seed alone.
/// The model sees the last `seq` tokens. Returns what was drawn. Tells `progress` of
/// each. Precondition: a program for batch 1 and that seq.
Result<std::vector<int32_t>> SampleTokens(Runner& generate, int64_t seq,
                                          std::vector<int32_t> prompt,
                                          const SampleOptions& options,
                                          uint64_t seed,
                                          WorkProgress& progress);

/// Draws `length` characters likewise, a newline before the first.
Result<std::string> SampleText(Runner& generate, int64_t seq, int64_t length,
                               const Sampler& sampler, uint64_t seed,
                               WorkProgress& progress);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SAMPLE_H_
