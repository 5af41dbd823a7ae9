#include "train/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace stowage {
namespace {

// How likely tokens are, beside the likeliest.
struct Weights {
  Weights(std::span<const float> logits, float largest, double temperature)
      : logits(logits), largest(largest), temperature(temperature) {}

  double of(int32_t id) const {
    return std::exp((double{logits[static_cast<size_t>(id)]} - largest) /
                    temperature);
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }

  std::span<const float> logits;
  float largest;
  double temperature;
};

// What a token is drawn from.
struct Candidates {
  std::vector<int32_t> ids = {};
  std::vector<double> weights = {};
  double sum = 0;  // of the weights
};

Candidates All(const Weights& weights) {
  Candidates all = {.ids = weights.ids()};
  for (const int32_t id : all.ids) {
    all.weights.push_back(weights.of(id));
    all.sum += all.weights.back();
  }
  return all;
}

// Those that top_k and top_p leave: mostly a few of very many, which are taken from a
// heap, the likeliest first, of equals the first.
Candidates Likeliest(const Weights& weights, const Sampler& sampler) {
  std::vector<int32_t> heap = weights.ids();
  const auto comes_later = [&](int32_t a, int32_t b) {
    const float x = weights.logits[static_cast<size_t>(a)];
    const float y = weights.logits[static_cast<size_t>(b)];
    return x < y || (x == y && a > b);
  };
  std::ranges::make_heap(heap, comes_later);
  size_t most = heap.size();
  double enough = std::numeric_limits<double>::infinity();
  if (sampler.top_k > 0 && static_cast<size_t>(sampler.top_k) < most) {
    most = static_cast<size_t>(sampler.top_k);
  } else {
    enough = sampler.top_p * All(weights).sum;
  }
  Candidates from;
  while (from.ids.size() < most && from.sum < enough) {
    std::ranges::pop_heap(heap, comes_later);
    from.ids.push_back(heap.back());
    heap.pop_back();
    from.weights.push_back(weights.of(from.ids.back()));
    from.sum += from.weights.back();
  }
  if (!std::isinf(enough) || sampler.top_p == 1) return from;
  // Of top_k, as many as have top_p of what these have together.
  enough = sampler.top_p * from.sum;
  size_t count = 0;
  for (from.sum = 0; count < from.ids.size() && from.sum < enough; ++count) {
    from.sum += from.weights[count];
  }
  from.ids.resize(count);
  from.weights.resize(count);
  return from;
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
  const Weights weights(logits, *likeliest, sampler.temperature);
  const bool takes_all = sampler.top_k == 0 && sampler.top_p == 1;
  const Candidates from =
      takes_all ? All(weights) : Likeliest(weights, sampler);
  double left = from.sum * std::ldexp(static_cast<double>(random() >> 11), -53);
  for (size_t i = 0; i + 1 < from.ids.size(); ++i) {
    left -= from.weights[i];
    if (left < 0) return from.ids[i];
  }
  return from.ids.back();
}

}  // namespace stowage
