#include "train/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace stowage {
namespace {

// The likeliest first, as many as the sampler draws from.
std::vector<int32_t> Candidates(std::span<const float> logits,
                                const Sampler& sampler) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (sampler.top_k == 0 && sampler.top_p == 1) return ids;
  std::ranges::stable_sort(ids, std::greater(), [&](int32_t id) {
    return logits[static_cast<size_t>(id)];
  });
  const auto most = static_cast<size_t>(sampler.top_k);
  if (most > 0 && most < ids.size()) ids.resize(most);
  return ids;
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

// Written out because the standard's distributions differ between libraries.
int32_t DrawToken(std::span<const float> logits, const Sampler& sampler,
                  std::mt19937_64& random) {
  const auto likeliest = std::ranges::max_element(logits);
  if (sampler.temperature == 0) {
    return static_cast<int32_t>(likeliest - logits.begin());
  }
  std::vector<int32_t> ids = Candidates(logits, sampler);
  const float largest = *likeliest;
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

}  // namespace stowage
