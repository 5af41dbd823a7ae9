#include "train/generation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "train/training.h"

namespace stowage {
namespace {

constexpr int64_t kVocabulary = 96;
constexpr int64_t kWhole = 48;  // tokens that the program "whole" reads

using Tokens = std::vector<int32_t>;

struct Writer {
  std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});
  Training training;

  // A model whose caches hold `positions` tokens; with a program that has none. If it is
  // not `fused`, every op of the programs is a node.
  Writer(std::string_view name, int64_t positions, bool fused = true)
      : training(Open(name, positions, fused)) {
    training.Initialize(/*seed=*/11);
    // Larger than a training begins with: else what comes last decides alone.
    Runner& step = training.step();
    for (const ValueId id : step.graph().Leaves(Role::kParam)) {
      const ValueInfo& param = step.graph().value(id);
      if (param.type.shape.rank() < 2) continue;
      auto numbers = ReadFloats(step, param.name);
      REQUIRE(numbers.ok());
      for (float& x : *numbers) x *= 6;
      REQUIRE(step.Write(param.name, *numbers).ok());
    }
  }

  Training Open(std::string_view name, int64_t positions, bool fused) {
    const auto model = [name = std::string(name)](ModelPurpose purpose,
                                                  ModelOptions options) {
      return ModelFn([=](int64_t batch) mutable {
        options.batch = batch;
        return BuildModel(name, purpose, options);
      });
    };
    TrainingSpec spec{.model = model(ModelPurpose::kTrain, {.seq = 16}),
                      .batch = 2};
    spec.programs = GenerationPrograms(
        [&](int64_t seq) {
          return model(ModelPurpose::kGenerate,
                       {.seq = seq, .cache = positions});
        },
        positions);
    spec.programs.push_back(
        {.name = "whole",
         .model = model(ModelPurpose::kGenerate, {.seq = kWhole}),
         .batch = 1});
    auto planner = TrainingPlanner::Make(spec, cpu->Needs());
    REQUIRE_MESSAGE(planner.ok(), planner.error().message);
    auto plan = planner->Plan();
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    for (size_t i = 0; !fused && i < plan->programs.size(); ++i) {
      PlannedProgram& program = plan->programs[i];
      program.graph = *spec.programs[i].model(program.batch);
      const auto apart =
          PlanMemory(program.graph, {.weights = WeightLayout::FromForward(
                                         plan->step.graph, plan->step.plan),
                                     .device = cpu->Needs()});
      REQUIRE_MESSAGE(apart.ok(), apart.error().message);
      program.plan = *apart;
    }
    auto opened = Training::Open(*std::move(plan), *cpu);
    REQUIRE_MESSAGE(opened.ok(), opened.error().message);
    return std::move(*opened);
  }

  Generator MakeGenerator() {
    return Generator(*training.Find("generate"), training.Find("prefill"));
  }

  // The logits behind `seen`, which is read whole.
  std::vector<float> LogitsBehind(const Tokens& seen) {
    REQUIRE(seen.size() <= static_cast<size_t>(kWhole));
    Tokens padded = seen;
    padded.resize(static_cast<size_t>(kWhole), 0);
    Runner& whole = *training.Find("whole");
    REQUIRE(whole.Write("tokens", padded).ok());
    REQUIRE(whole.Step() == StepCode::kOk);
    std::vector<float> logits(static_cast<size_t>(kWhole * kVocabulary));
    REQUIRE(whole.Read("logits", &logits).ok());
    const auto row =
        logits.begin() +
        (static_cast<std::ptrdiff_t>(seen.size()) - 1) * kVocabulary;
    return std::vector<float>(row, row + kVocabulary);
  }
  int32_t Likeliest(const Tokens& seen) {
    const std::vector<float> logits = LogitsBehind(seen);
    return static_cast<int32_t>(std::ranges::max_element(logits) -
                                logits.begin());
  }

  // That the generator sees what is in `seen` when it goes on from `text`: its logits
  // are those of a run over the whole.
  void CheckSees(Generator& generator, const Tokens& text, const Tokens& seen) {
    const std::vector<float> expected = LogitsBehind(seen);
    const auto next =
        generator.Continue(text, {.length = 1, .sampler = {.temperature = 0}});
    REQUIRE_MESSAGE(next.ok(), next.error().message);
    std::vector<float> logits(static_cast<size_t>(kVocabulary));
    // One of the two has run last.
    if (!training.Find("generate")->Read("logits", &logits).ok()) {
      REQUIRE(training.Find("prefill")->Read("logits", &logits).ok());
    }
    double difference = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      REQUIRE(std::isfinite(logits[i]));
      difference =
          std::max(difference, std::fabs(double{logits[i]} - expected[i]));
    }
    CHECK(difference <= 1e-4);
  }
};

Tokens Continue(Generator& generator, const Tokens& text,
                GenerationOptions options) {
  const auto tokens = generator.Continue(text, options);
  REQUIRE_MESSAGE(tokens.ok(), tokens.error().message);
  return *tokens;
}

GenerationOptions Greedy(int64_t length) {
  return {.length = length, .sampler = {.temperature = 0}};
}

Tokens Prompt(int32_t length) {
  Tokens prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back((i * 31 + 5) % 90);
  return prompt;
}

TEST_CASE("the likeliest tokens are those of texts that are read whole") {
  for (const std::string_view name : {"gpt-nano", "llama-nano", "lstm-char"}) {
    for (const int32_t given : {1, 35}) {
      CAPTURE(name);
      CAPTURE(given);
      Writer writer(name, kWhole);
      Tokens text = Prompt(given), expected;
      for (int i = 0; i < 12; ++i) {
        expected.push_back(writer.Likeliest(text));
        text.push_back(expected.back());
      }
      Generator generator = writer.MakeGenerator();
      CHECK(Continue(generator, Prompt(given), Greedy(12)) == expected);
      writer.CheckSees(generator, text, text);
      writer.CheckSees(generator, Prompt(given), Prompt(given));
    }
  }
}

TEST_CASE("caches that are full begin again with their last half") {
  constexpr size_t kPositions = 8;
  Writer writer("gpt-nano", kPositions);
  Tokens text = Prompt(3), expected;
  for (int i = 0; i < 20; ++i) {
    // 9 to 12 tokens are seen from the fifth on, 13 to 16 from the ninth on, ...
    size_t first = 0;
    while (text.size() - first > kPositions) first += kPositions / 2;
    expected.push_back(writer.Likeliest(
        Tokens(text.begin() + static_cast<std::ptrdiff_t>(first), text.end())));
    text.push_back(expected.back());
  }
  Generator generator = writer.MakeGenerator();
  CHECK(Continue(generator, Prompt(3), Greedy(20)) == expected);
  const Tokens whole = Prompt(30);
  for (size_t size = 1; size <= whole.size(); ++size) {
    CAPTURE(size);
    size_t first = 0;
    while (size - first > kPositions) first += kPositions / 2;
    const auto part = [&](size_t from) {
      return Tokens(whole.begin() + static_cast<std::ptrdiff_t>(from),
                    whole.begin() + static_cast<std::ptrdiff_t>(size));
    };
    writer.CheckSees(generator, part(0), part(first));
  }
  // So does a prompt that is longer than they are.
  text = Prompt(3);
  text.insert(text.end(), expected.begin(), expected.begin() + 15);
  CHECK(Continue(generator, text, Greedy(5)) ==
        Tokens(expected.begin() + 15, expected.end()));
}

TEST_CASE("a conversation goes on from what was read, and from what was lost") {
  for (const std::string_view name : {"llama-nano", "lstm-char"}) {
    CAPTURE(name);
    Writer writer(name, kWhole);
    Generator first = writer.MakeGenerator();
    Tokens text = Prompt(6);
    for (const bool other_program : {false, true, false}) {
      const Tokens answer = Continue(first, text, Greedy(4));
      if (other_program) writer.Likeliest(text);
      Generator fresh = writer.MakeGenerator();
      REQUIRE(writer.training.Find("generate")->ClearCaches().ok());
      CHECK(Continue(fresh, text, Greedy(4)) == answer);
      text.insert(text.end(), answer.begin(), answer.end());
      text.push_back(7);
    }
    // Another text altogether, and one that the caches hold more than.
    Generator fresh = writer.MakeGenerator();
    const Tokens expected = Continue(fresh, {3, 2, 1}, Greedy(4));
    CHECK(Continue(first, {3, 2, 1}, Greedy(4)) == expected);
    CHECK(Continue(first, {3, 2, 1}, Greedy(4)) == expected);
  }
}

TEST_CASE("generators of the same programs do not take each other's caches") {
  for (const std::string_view name : {"llama-nano", "lstm-char"}) {
    CAPTURE(name);
    Writer writer(name, kWhole);
    const Tokens text = Prompt(6), other_text = {1, 2, 3, 4, 5, 6};
    const std::vector<float> expected = writer.LogitsBehind(text);
    // Without the program "whole" in between, by which all caches would be lost.
    const auto check = [&](Generator& generator) {
      Continue(generator, text, Greedy(1));
      std::vector<float> logits(static_cast<size_t>(kVocabulary));
      REQUIRE(writer.training.Find("generate")->Read("logits", &logits).ok());
      for (size_t i = 0; i < logits.size(); ++i) {
        REQUIRE(std::isfinite(logits[i]));
        REQUIRE(std::fabs(logits[i] - expected[i]) <= 1e-4f);
      }
    };
    Generator one = writer.MakeGenerator();
    Generator other = writer.MakeGenerator();
    check(one);
    Continue(other, other_text, Greedy(1));
    check(one);
    Continue(other, other_text, Greedy(1));
    Generator fresh = writer.MakeGenerator();
    check(fresh);
    // Nor those that a run which failed has left.
    CHECK_FALSE(fresh.Continue(Tokens{3, 4, 96}, Greedy(1)).ok());
    check(fresh);
  }
}

TEST_CASE("texts are those of programs whose ops are apart") {
  for (const std::string_view name : {"gpt-nano", "llama-nano", "lstm-char"}) {
    CAPTURE(name);
    Writer fused(name, kWhole), apart(name, kWhole, /*fused=*/false);
    for (const char* program : {"generate", "prefill"}) {
      CHECK(fused.training.Find(program)->graph().num_nodes() <
            apart.training.Find(program)->graph().num_nodes());
    }
    Generator one = fused.MakeGenerator(), other = apart.MakeGenerator();
    // A prompt that is read at once and then token by token, beyond what caches hold.
    const GenerationOptions options{.length = 40,
                                    .sampler = {.temperature = 1}};
    CHECK(Continue(one, Prompt(35), options) ==
          Continue(other, Prompt(35), options));
    const Tokens text = Prompt(9);
    CHECK(fused.LogitsBehind(text) == apart.LogitsBehind(text));
  }
}

TEST_CASE("what was read is not read again") {
  Writer writer("llama-nano", kWhole);
  Generator generator = writer.MakeGenerator();
  const Tokens text = Prompt(6);
  const Tokens first = Continue(generator, text, Greedy(1));
  // A cache that holds something else shows in what comes next.
  Runner& generate = *writer.training.Find("generate");
  const ValueId id = generate.graph().Leaves(Role::kCache).front();
  const ValueInfo& keys = generate.graph().value(id);
  std::vector<float> wrong(static_cast<size_t>(keys.type.shape.num_elements()));
  for (size_t i = 0; i < wrong.size(); ++i) {
    wrong[i] = i % 2 == 0 ? 40.0f : -40.0f;
  }
  std::vector<float> logits[2];
  for (const bool is_wrong : {false, true}) {
    if (is_wrong) REQUIRE(generate.Write(keys.name, wrong).ok());
    Continue(generator, text, Greedy(1));
    logits[is_wrong].resize(static_cast<size_t>(kVocabulary));
    REQUIRE(generate.Read("logits", &logits[is_wrong]).ok());
  }
  CHECK(logits[0] != logits[1]);
}

TEST_CASE("the seed alone decides what is drawn, until the end is") {
  Writer writer("gpt-nano", 32);
  Generator generator = writer.MakeGenerator();
  GenerationOptions options{.length = 24, .sampler = {.temperature = 1}};
  options.seed = 3;
  const Tokens once = Continue(generator, {5}, options);
  CHECK(once.size() == 24);
  CHECK(Continue(generator, {5}, options) == once);
  options.seed = 4;
  CHECK(Continue(generator, {5}, options) != once);

  options.seed = 3;
  // Two that end it, of which the first comes first.
  options.ends = {once[9], -1};
  std::vector<int64_t> told;
  options.on_token = [&](int64_t drawn) { told.push_back(drawn); };
  const auto end = std::ranges::find(once, once[9]);
  const Tokens ended = Continue(generator, {5}, options);
  CHECK(ended == Tokens(once.begin(), end + 1));
  CHECK(told.size() == ended.size());
  CHECK(told.back() == static_cast<int64_t>(ended.size()));

  options = {.length = 50, .sampler = {.temperature = 5}, .tokens = 3};
  for (const int32_t token : Continue(generator, {1}, options)) {
    CHECK(token < 3);
  }
  options.never = {0, 2, 100'000};
  for (const double temperature : {0.0, 5.0}) {
    options.sampler.temperature = temperature;
    CHECK(Continue(generator, {1}, options) == Tokens(50, 1));
  }
}

TEST_CASE("texts and weights that are no good are errors") {
  Writer writer("llama-nano", 16);
  Generator generator = writer.MakeGenerator();
  const auto out = generator.Continue(Tokens{3, 96}, Greedy(1));
  REQUIRE_FALSE(out.ok());
  CHECK(out.error().message.find("an index or label is outside its range") !=
        std::string::npos);
  const auto bad = generator.Continue(
      Tokens{3}, {.length = 1, .sampler = {.temperature = -1}});
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().message.find("temperature is -1") != std::string::npos);
  CHECK(Continue(generator, {3, 4}, Greedy(2)).size() == 2);

  Runner& step = writer.training.step();
  std::vector<float> gamma(
      static_cast<size_t>(step.graph()
                              .value(*step.graph().Find("model.norm.weight"))
                              .type.shape.num_elements()),
      std::numeric_limits<float>::quiet_NaN());
  REQUIRE(step.Write("model.norm.weight", gamma).ok());
  const auto nan = generator.Continue(Tokens{3, 4}, Greedy(1));
  REQUIRE_FALSE(nan.ok());
  CHECK(nan.error().code == ErrorCode::kNotFinite);
  CHECK(nan.error().message ==
        "[generate] the logits behind 2 tokens hold NaN");
}

TEST_CASE("there is nothing to read at once in texts of one token") {
  const auto model = [](int64_t) { return ModelFn(); };
  CHECK(GenerationPrograms(model, 1).size() == 1);
  const auto two = GenerationPrograms(model, 2);
  REQUIRE(two.size() == 2);
  CHECK(two[0].name == "generate");
  CHECK(two[1].name == "prefill");
}

}  // namespace
}  // namespace stowage
