#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "train/generation.h"

namespace stowage {
namespace {

constexpr int kDraws = 20000;

// How often each token is drawn.
std::vector<int> Counts(const std::vector<float>& logits,
                        const Sampler& sampler) {
  std::mt19937_64 random(5);
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(DrawToken(logits, sampler, random))];
  }
  return counts;
}

// That the counts are those of `weights`, within five standard deviations.
void CheckDrawn(const std::vector<int>& counts,
                const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (size_t i = 0; i < weights.size(); ++i) {
    CAPTURE(i);
    const double p = weights[i] / sum;
    const double deviation = std::sqrt(kDraws * p * (1 - p));
    CHECK(std::fabs(counts[i] - kDraws * p) <= 5 * deviation);
    if (p == 0) CHECK(counts[i] == 0);
  }
}

// Logits of the probabilities 1/2, 1/8, 1/4 and 1/8, and something more.
const std::vector<float> kLogits = {3 + std::log(4.0f), 3, 3 + std::log(2.0f),
                                    3};

TEST_CASE("tokens are drawn from the softmax over the temperature") {
  CheckDrawn(Counts(kLogits, {.temperature = 1}), {4, 1, 2, 1});
  CheckDrawn(Counts(kLogits, {.temperature = 0.5}), {16, 1, 4, 1});
  CheckDrawn(Counts(kLogits, {.temperature = 2}), {2, 1, std::sqrt(2.0), 1});
}

TEST_CASE("a temperature of 0 is the likeliest, the first of equal ones") {
  std::mt19937_64 random(1);
  const Sampler likeliest{.temperature = 0};
  CHECK(DrawToken(kLogits, likeliest, random) == 0);
  CHECK(DrawToken(std::vector<float>{-2, 7, 7, 1}, likeliest, random) == 1);
  CHECK(DrawToken(std::vector<float>{4}, {}, random) == 0);
}

TEST_CASE("top-k and top-p leave the rest out") {
  CheckDrawn(Counts(kLogits, {.temperature = 1, .top_k = 2}), {4, 0, 2, 0});
  CheckDrawn(Counts(kLogits, {.temperature = 1, .top_k = 9}), {4, 1, 2, 1});
  // Half of all is enough for 0.4, and three quarters for 0.6.
  CheckDrawn(Counts(kLogits, {.temperature = 1, .top_p = 0.4}), {1, 0, 0, 0});
  CheckDrawn(Counts(kLogits, {.temperature = 1, .top_p = 0.6}), {4, 0, 2, 0});
  // Of the two likeliest, the first has two thirds.
  CheckDrawn(Counts(kLogits, {.temperature = 1, .top_k = 2, .top_p = 0.6}),
             {1, 0, 0, 0});
}

// Of all tokens in order, the likeliest first, those that a sampler leaves.
std::vector<int32_t> Left(const std::vector<float>& logits,
                          const Sampler& sampler) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::greater(), [&](int32_t id) {
    return logits[static_cast<size_t>(id)];
  });
  if (sampler.top_k > 0) {
    ids.resize(std::min(ids.size(), static_cast<size_t>(sampler.top_k)));
  }
  double all = 0, kept = 0;
  const auto weight = [&](int32_t id) {
    return std::exp(double{logits[static_cast<size_t>(id)]} /
                    sampler.temperature);
  };
  for (const int32_t id : ids) all += weight(id);
  size_t count = 0;
  while (count < ids.size() && kept < sampler.top_p * all * (1 - 1e-9)) {
    kept += weight(ids[count++]);
  }
  ids.resize(count);
  return ids;
}

TEST_CASE("of many tokens, what a sort leaves is drawn, and nothing else") {
  std::mt19937_64 random(7);
  std::vector<float> logits(500);
  for (float& logit : logits) {
    logit = static_cast<float>(random() % 64) / 16;  // with many equals
  }
  for (const int64_t top_k : {0, 1, 7, 60, 500, 900}) {
    for (const double top_p : {0.05, 0.31, 0.9, 1.0}) {
      CAPTURE(top_k);
      CAPTURE(top_p);
      const Sampler sampler{.temperature = 0.5, .top_k = top_k, .top_p = top_p};
      const std::vector<int32_t> left = Left(logits, sampler);
      std::set<int32_t> drawn;
      for (int i = 0; i < 20000; ++i) {
        drawn.insert(DrawToken(logits, sampler, random));
      }
      CHECK(std::ranges::includes(std::set(left.begin(), left.end()), drawn));
      if (left.size() <= 100) CHECK(drawn.size() == left.size());
    }
  }
}

TEST_CASE("a token that has no probability is never drawn") {
  const float never = -std::numeric_limits<float>::infinity();
  CheckDrawn(Counts({never, 1, never, 1}, {.temperature = 1}), {0, 1, 0, 1});
}

TEST_CASE("what a sampler cannot be is named") {
  const auto message = [](const Sampler& sampler) {
    const Status status = CheckSampler(sampler);
    return status.ok() ? std::string() : status.error().message;
  };
  CHECK(message({}).empty());
  CHECK(message({.temperature = 0, .top_k = 1, .top_p = 0.01}).empty());
  CHECK(message({.temperature = -1}) ==
        "[sample] temperature is -1; expected 0 or more");
  CHECK(message({.temperature = std::nan("")}).find("temperature is") !=
        std::string::npos);
  CHECK(message({.top_k = -3}) ==
        "[sample] top-k is -3; expected 0, for all, or more");
  CHECK(message({.top_p = 0}) ==
        "[sample] top-p is 0; expected a number in (0, 1]");
  CHECK(message({.top_p = 1.5}) ==
        "[sample] top-p is 1.5; expected a number in (0, 1]");
}

}  // namespace
}  // namespace stowage
