#include "train/generation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "runtime/values.h"

namespace stowage {

namespace {

// Probabilities of tokens relative to the most probable.
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

// The tokens to draw from.
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

// The tokens that top_k and top_p keep, mostly few of many: taken from a heap, the most
// probable first, of equals the first.
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
  // Of the top_k tokens, those whose probabilities add up to top_p of all of theirs.
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

// Not a distribution of the standard library, since implementations differ.
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

namespace {

// The first token of a text of `size` tokens that the model sees. It moves by half of the caches
// at a time, so that continued texts mostly share it.
size_t FirstSeen(size_t size, size_t positions) {
  if (size <= positions) return 0;
  const size_t half = std::max<size_t>(positions / 2, 1);
  return (size - positions + half - 1) / half * half;
}

}  // namespace

std::vector<ProgramSpec> GenerationPrograms(
    const std::function<ModelFn(int64_t seq)>& model_of, int64_t positions) {
  std::vector<ProgramSpec> programs;
  programs.push_back({.name = "generate", .model = model_of(1), .batch = 1});
  const int64_t at_once = std::min(kPrefillTokens, positions);
  if (at_once > 1) {
    programs.push_back(
        {.name = "prefill", .model = model_of(at_once), .batch = 1});
  }
  return programs;
}

Generator::Generator(Runner& generate, Runner* prefill)
    : generate_(generate), prefill_(prefill) {
  const Graph& graph = generate.graph();
  if (graph.Find("position")) {
    const std::vector<ValueId> caches = graph.Leaves(Role::kCache);
    STOWAGE_CHECK(!caches.empty());
    positions_ = static_cast<size_t>(graph.value(caches.front()).type.shape[1]);
  }
  if (prefill_ != nullptr) {
    const Graph& many = prefill_->graph();
    const std::optional<ValueId> tokens = many.Find("tokens");
    STOWAGE_CHECK(tokens.has_value());
    at_once_ = static_cast<size_t>(many.value(*tokens).type.shape[1]);
  }
}

Status Generator::Run(Runner& runner, size_t position,
                      std::span<const int32_t> tokens) {
  STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", tokens));
  if (positions_) {
    STOWAGE_RETURN_IF_ERROR(
        runner.Write("position", static_cast<int32_t>(position)));
  }
  if (const StepCode code = runner.Step(); code != StepCode::kOk) {
    return runner.Explain(code);
  }
  return {};
}

uint64_t Generator::StepsStarted() const {
  return generate_.started() + (prefill_ == nullptr ? 0 : prefill_->started());
}

bool Generator::Remembers() const {
  return !read_.empty() && generate_.keeps_caches() && steps_ == StepsStarted();
}

Status Generator::Read(std::span<const int32_t> text) {
  if (positions_) text = text.subspan(FirstSeen(text.size(), *positions_));
  size_t known = 0;
  if (Remembers()) {
    const auto differs =
        std::ranges::mismatch(text, std::span<const int32_t>(read_));
    known = static_cast<size_t>(differs.in1 - text.begin());
    known = std::min(known, text.size() - 1);  // logits need a run
    // Without positions, the program cannot go back in the text.
    if (!positions_ && known < read_.size()) known = 0;
  }
  if (known == 0) STOWAGE_RETURN_IF_ERROR(generate_.ClearCaches());
  read_.clear();  // in case a run fails
  Runner* last = &generate_;
  for (size_t at = known; at < text.size();) {
    const bool many = prefill_ != nullptr && text.size() - at >= at_once_;
    last = many ? prefill_ : &generate_;
    const size_t count = many ? at_once_ : 1;
    STOWAGE_RETURN_IF_ERROR(Run(*last, at, text.subspan(at, count)));
    at += count;
  }
  read_.assign(text.begin(), text.end());
  steps_ = StepsStarted();
  STOWAGE_ASSIGN_OR_RETURN(logits_, ReadFloats(*last, "logits"));
  if (std::ranges::none_of(logits_, [](float x) { return std::isnan(x); })) {
    return {};
  }
  return Error{ErrorCode::kNotFinite, StrCat("[generate] the logits behind ",
                                             text.size(), " tokens hold NaN")};
}

Result<std::vector<int32_t>> Generator::Continue(
    std::span<const int32_t> text, const GenerationOptions& options) {
  if (text.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "[generate] there is no token to go on from; expected one at "
                 "least"};
  }
  STOWAGE_RETURN_IF_ERROR(CheckSampler(options.sampler));
  std::vector<int32_t> all(text.begin(), text.end());
  std::mt19937_64 random(options.seed);
  for (int64_t drawn = 1; drawn <= options.length; ++drawn) {
    STOWAGE_RETURN_IF_ERROR(Read(all));
    for (const int32_t token : options.never) {
      const auto at = static_cast<size_t>(token);
      if (token < 0 || at >= logits_.size()) continue;
      logits_[at] = -std::numeric_limits<float>::infinity();
    }
    std::span<const float> logits = logits_;
    if (options.tokens > 0) {
      logits = logits.first(
          std::min(logits.size(), static_cast<size_t>(options.tokens)));
    }
    all.push_back(DrawToken(logits, options.sampler, random));
    if (options.on_token) options.on_token(drawn);
    if (std::ranges::find(options.ends, all.back()) != options.ends.end()) {
      break;
    }
  }
  return std::vector<int32_t>(
      all.begin() + static_cast<std::ptrdiff_t>(text.size()), all.end());
}

}  // namespace stowage
