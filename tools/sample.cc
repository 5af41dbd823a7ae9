#include "tools/sample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "math/small_floats.h"
#include "nn/text_data.h"

namespace stowage::tools {
namespace {

// The likeliest first, as many as the sampler draws from.
std::vector<int32_t> Candidates(std::span<const float> logits,
                                const Sampler& sampler) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (sampler.temperature != 0 && sampler.top_k == 0 && sampler.top_p == 1) {
    return ids;
  }
  std::ranges::stable_sort(ids, std::greater(), [&](int32_t id) {
    return logits[static_cast<size_t>(id)];
  });
  const auto most = static_cast<size_t>(sampler.top_k);
  if (sampler.temperature == 0) {
    ids.resize(1);
  } else if (most > 0 && most < ids.size()) {
    ids.resize(most);
  }
  return ids;
}

// A token, by the sampler. Written out because the standard's distributions differ
// between libraries.
int32_t Draw(std::span<const float> logits, const Sampler& sampler,
             std::mt19937_64& random) {
  std::vector<int32_t> ids = Candidates(logits, sampler);
  if (ids.size() == 1) return ids.front();
  const float largest = *std::ranges::max_element(logits);
  std::vector<double> weights;
  double sum = 0;
  for (const int32_t id : ids) {
    const double logit = logits[static_cast<size_t>(id)];
    weights.push_back(std::exp((logit - largest) / sampler.temperature));
    sum += weights.back();
  }
  if (sampler.top_p < 1) {
    double kept = 0;
    size_t count = 0;
    while (count < weights.size() && kept < sampler.top_p * sum) {
      kept += weights[count++];
    }
    ids.resize(count);
    weights.resize(count);
    sum = kept;
  }
  double left = sum * std::ldexp(static_cast<double>(random() >> 11), -53);
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids.back();
}

// The logits as f32, in which they are, or of bf16.
Status ReadLogits(Runner& generate, DType dtype, std::span<float> logits) {
  if (dtype != DType::kBF16) return generate.Read("logits", logits);
  std::vector<uint16_t> bits(logits.size());
  STOWAGE_RETURN_IF_ERROR(generate.ReadBytes(
      "logits", dtype, std::as_writable_bytes(std::span(bits))));
  std::ranges::transform(bits, logits.begin(), math::BFloat16ToFloat);
  return {};
}

}  // namespace

Status CheckSampler(const Sampler& sampler) {
  const auto invalid = [](std::string_view what) {
    return Error{ErrorCode::kInvalidArgument, StrCat("[sample] ", what)};
  };
  if (!(sampler.temperature >= 0) || !std::isfinite(sampler.temperature)) {
    return invalid(
        StrCat("temperature is ", sampler.temperature, "; expected 0 or more"));
  }
  if (sampler.top_k < 0) {
    return invalid(
        StrCat("top-k is ", sampler.top_k, "; expected 0, for all, or more"));
  }
  if (!(sampler.top_p > 0 && sampler.top_p <= 1)) {
    return invalid(
        StrCat("top-p is ", sampler.top_p, "; expected a number in (0, 1]"));
  }
  return {};
}

Result<std::vector<int32_t>> SampleTokens(Runner& generate, int64_t seq,
                                          std::vector<int32_t> prompt,
                                          const SampleOptions& options,
                                          uint64_t seed,
                                          WorkProgress& progress) {
  STOWAGE_CHECK(!prompt.empty());
  const std::optional<ValueId> logits_id = generate.graph().Find("logits");
  STOWAGE_CHECK(logits_id.has_value());
  const auto vocabulary =
      static_cast<size_t>(generate.graph().value(*logits_id).type.shape.back());
  const auto window = static_cast<size_t>(seq);
  const DType dtype = generate.graph().value(*logits_id).type.dtype;
  std::vector<float> logits(window * vocabulary);
  std::vector<int32_t>& text = prompt;
  const auto given = static_cast<std::ptrdiff_t>(text.size());
  std::vector<int32_t> tokens(window);
  std::mt19937_64 random(seed);
  for (int64_t drawn = 0; drawn < options.length; ++drawn) {
    const size_t seen = std::min(text.size(), window);
    std::ranges::fill(tokens, 0);  // after the last: no row looks ahead
    std::copy(text.end() - static_cast<std::ptrdiff_t>(seen), text.end(),
              tokens.begin());
    STOWAGE_RETURN_IF_ERROR(generate.Write("tokens", tokens));
    if (const StepCode code = generate.Step(); code != StepCode::kOk) {
      return generate.Explain(code);
    }
    STOWAGE_RETURN_IF_ERROR(ReadLogits(generate, dtype, logits));
    // The row of the last token.
    const std::span<const float> row =
        std::span<const float>(logits)
            .subspan((seen - 1) * vocabulary, vocabulary)
            .first(std::min(vocabulary, static_cast<size_t>(options.tokens)));
    text.push_back(Draw(row, options.sampler, random));
    progress.Show(drawn + 1, options.length);
    if (text.back() == options.end) break;
  }
  return std::vector<int32_t>(text.begin() + given, text.end());
}

Result<std::string> SampleText(Runner& generate, int64_t seq, int64_t length,
                               const Sampler& sampler, uint64_t seed,
                               WorkProgress& progress) {
  constexpr int32_t kNewline = 0;  // a line begins
  STOWAGE_ASSIGN_OR_RETURN(
      const std::vector<int32_t> text,
      SampleTokens(
          generate, seq, {kNewline},
          {.length = length, .sampler = sampler, .tokens = kTextVocabulary},
          seed, progress));
  return DecodeText(text);
}

}  // namespace stowage::tools
