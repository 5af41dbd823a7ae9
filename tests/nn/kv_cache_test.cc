// Texts that are read in parts give the logits of texts that are read whole.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "nn/gpt.h"
#include "nn/layers.h"
#include "nn/llama.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "nn/recurrent.h"
#include "nn/rope_scaling.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"

namespace stowage {
namespace {

constexpr int64_t kVocabulary = 40;
constexpr int64_t kPositions = 20;  // of the caches

using Model = std::function<Result<Graph>(const ModelOptions&)>;

GptConfig Gpt() {
  return {.name = "gpt",
          .layers = 2,
          .heads = 2,
          .width = 16,
          .vocabulary = kVocabulary,
          .max_seq = 24};
}

LlamaConfig Llama() {
  return {.name = "llama",
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .width = 32,
          .hidden = 24,
          .vocabulary = kVocabulary,
          .max_seq = 24};
}

Model Of(const GptConfig& config) {
  return [config](const ModelOptions& options) {
    return BuildGpt(config, ModelPurpose::kGenerate, options);
  };
}
Model Of(const LlamaConfig& config) {
  return [config](const ModelOptions& options) {
    return BuildLlama(config, ModelPurpose::kGenerate, options);
  };
}

// Batch 2. Programs "whole", of 13 tokens, and "1", "3" and "4" with caches.
class Reader {
 public:
  static constexpr int64_t kBatch = 2;
  static constexpr int64_t kSeq = 13;

  explicit Reader(const Model& model) : session_(Open(model)) {
    session_.Initialize(/*seed=*/7);
  }

  Runner& runner(int64_t count) {
    return *session_.Find(count == 0 ? "whole" : StrCat(count));
  }

  // (2, 13, vocabulary), read at once.
  std::vector<float> Whole(const std::vector<int32_t>& text) {
    Runner& whole = runner(0);
    REQUIRE(whole.Write("tokens", text).ok());
    REQUIRE(whole.Step() == StepCode::kOk);
    std::vector<float> logits(static_cast<size_t>(kBatch * kSeq * kVocabulary));
    REQUIRE(whole.Read("logits", &logits).ok());
    return logits;
  }

  // Reads tokens [position, position + count) of the texts, and compares the logits
  // behind them with those of the whole.
  void CheckPart(const std::vector<int32_t>& text, int64_t position,
                 int64_t count, const std::vector<float>& whole) {
    CAPTURE(position);
    CAPTURE(count);
    std::vector<int32_t> part;
    for (int64_t b = 0; b < kBatch; ++b) {
      const auto begin = text.begin() + b * kSeq + position;
      part.insert(part.end(), begin, begin + count);
    }
    Runner& run = runner(count);
    REQUIRE(run.Write("tokens", part).ok());
    if (run.graph().Find("position")) {
      REQUIRE(run.Write("position", static_cast<int32_t>(position)).ok());
    }
    const StepCode code = run.Step();
    REQUIRE_MESSAGE(code == StepCode::kOk, run.Explain(code).message);
    std::vector<float> logits(static_cast<size_t>(kBatch * kVocabulary));
    REQUIRE(run.Read("logits", &logits).ok());
    double difference = 0;
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t i = 0; i < kVocabulary; ++i) {
        const float got = logits[static_cast<size_t>(b * kVocabulary + i)];
        const float expected = whole[static_cast<size_t>(
            (b * kSeq + position + count - 1) * kVocabulary + i)];
        REQUIRE(std::isfinite(got));
        difference = std::max(difference, std::fabs(double{got} - expected));
      }
    }
    CHECK(difference <= 1e-5);
  }

 private:
  Session Open(const Model& model) {
    std::vector<SessionProgram> programs;
    std::optional<WeightLayout> layout;
    for (const int64_t count : {0, 1, 3, 4}) {
      ModelOptions options{.batch = kBatch, .seq = kSeq};
      if (count > 0) {
        options.seq = count;
        options.cache = kPositions;
      }
      auto graph = model(options);
      REQUIRE_MESSAGE(graph.ok(), graph.error().message);
      auto plan =
          PlanMemory(*graph, {.weights = layout, .device = cpu_->Needs()});
      REQUIRE_MESSAGE(plan.ok(), plan.error().message);
      if (!layout) layout = WeightLayout::FromForward(*graph, *plan);
      programs.push_back({count == 0 ? "whole" : StrCat(count),
                          std::move(*graph), std::move(*plan)});
    }
    auto session =
        Session::Create(std::move(programs), *cpu_, {.poison = true});
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return std::move(*session);
  }

  std::unique_ptr<Backend> cpu_ = MakeCpuBackend({.threads = 2});
  Session session_;
};

// Two texts of 13 tokens.
std::vector<int32_t> TextOf(int32_t multiplier) {
  std::vector<int32_t> text;
  for (int32_t i = 0; i < Reader::kBatch * Reader::kSeq; ++i) {
    text.push_back((i * multiplier + i * i % 11) % kVocabulary);
  }
  return text;
}

void CheckReadInParts(const Model& model, bool goes_back) {
  Reader reader(model);
  const std::vector<int32_t> text = TextOf(17);
  const std::vector<float> whole = reader.Whole(text);
  REQUIRE(reader.runner(1).ClearCaches().ok());
  reader.CheckPart(text, 0, 4, whole);
  reader.CheckPart(text, 4, 3, whole);
  reader.CheckPart(text, 7, 1, whole);
  reader.CheckPart(text, 8, 1, whole);
  reader.CheckPart(text, 9, 4, whole);

  // Another text, of which not the caches but the reading begins anew.
  const std::vector<int32_t> other = TextOf(23);
  const std::vector<float> of_other = reader.Whole(other);
  REQUIRE(reader.runner(3).ClearCaches().ok());
  reader.CheckPart(other, 0, 1, of_other);
  reader.CheckPart(other, 1, 3, of_other);
  if (!goes_back) return;
  reader.CheckPart(other, 2, 1, of_other);
  reader.CheckPart(other, 0, 3, of_other);
  reader.CheckPart(other, 3, 3, of_other);
}

TEST_CASE("a GPT reads in parts what it reads whole") {
  CheckReadInParts(Of(Gpt()), /*goes_back=*/true);
}

TEST_CASE("a Llama reads in parts what it reads whole") {
  LlamaConfig config = Llama();
  SUBCASE("that looks at all") {}
  SUBCASE("of a window") { config.window = 5; }
  SUBCASE("of a window as long as the caches") { config.window = kPositions; }
  SUBCASE("of normalized heads") { config.qk_norm = QkNorm::kEachHead; }
  SUBCASE("that turns slower") {
    config.rope_factors =
        Llama3RopeFactors(8, 10000, {.factor = 4, .original_positions = 64});
    REQUIRE(config.rope_factors.size() == 4);
  }
  CheckReadInParts(Of(config), /*goes_back=*/true);
}

TEST_CASE("an LSTM reads in parts what it reads whole") {
  const TextLstmConfig config{.name = "lstm",
                              .layers = 2,
                              .width = 12,
                              .hidden = 16,
                              .vocabulary = kVocabulary,
                              .max_seq = 24};
  CheckReadInParts(
      [config](const ModelOptions& options) {
        return BuildTextLstm(config, ModelPurpose::kGenerate, options);
      },
      /*goes_back=*/false);
}

TEST_CASE("a position behind the caches fails the step") {
  Reader reader(Of(Gpt()));
  Runner& run = reader.runner(3);
  REQUIRE(run.ClearCaches().ok());
  REQUIRE(run.Write("tokens", std::vector<int32_t>(6, 1)).ok());
  for (const int32_t position : {0, 17}) {
    REQUIRE(run.Write("position", position).ok());
    CHECK(run.Step() == StepCode::kOk);
  }
  for (const int32_t position : {18, -1, 1'000'000'000}) {
    CAPTURE(position);
    REQUIRE(run.Write("position", position).ok());
    CHECK(run.Step() == StepCode::kIndexOutOfRange);
  }
}

TEST_CASE("keys that are not those of heads are refused") {
  GraphBuilder g("flat");
  KvCache cache(g, /*batch=*/1, /*count=*/2, /*positions=*/8);
  const Value q = g.Input("q", DType::kF32, {1, 2, 3, 4});
  const Value k = g.Input("k", DType::kF32, {1, 2, 12});
  cache.Attend(q, k, q, "h");
  const auto graph = g.Finish();
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.error().message.find(
            "[kv_cache] the keys and values of \"h\" are f32(1, 2, 12) and "
            "f32(1, 2, 3, 4); expected (batch, tokens, groups, elements)") !=
        std::string::npos);
}

TEST_CASE("caches that a model cannot have are refused") {
  const auto message = [](std::string_view model, ModelPurpose purpose,
                          const ModelOptions& options) {
    const auto graph = BuildModel(model, purpose, options);
    return graph.ok() ? std::string() : graph.error().message;
  };
  CHECK(message("gpt-nano", ModelPurpose::kTrain, {.seq = 4, .cache = 64}) ==
        "[model] a cache of 64 tokens for gpt-nano is given to a program that "
        "does not generate; leave it out");
  CHECK(
      message("llama-nano", ModelPurpose::kGenerate, {.seq = 4, .cache = 3}) ==
      "[model] a cache of 3 tokens for llama-nano is out of range; expected "
      "4, the seq, to 256");
  CHECK(message("gpt2-124m", ModelPurpose::kGenerate,
                {.seq = 4, .cache = 1025}) ==
        "[model] a cache of 1025 tokens for gpt2-124m is out of range; "
        "expected 4, the seq, to 1024");
  CHECK(message("mlp", ModelPurpose::kTrain, {.cache = 3}) ==
        "[model] a cache of 3 tokens is given, but mlp reads no text; leave "
        "it out");
}

}  // namespace
}  // namespace stowage
