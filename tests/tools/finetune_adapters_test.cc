// stowage finetune with adapters other than plain LoRA: what the command makes of --dora
// and --lora-init.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string Story() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += StrCat("The ship sails at noon. ", "The cook reads. ",
                   i % 2 == 0 ? "Then he sleeps.\n" : "Nobody sings.\n");
  }
  return WriteTemp("story.txt", text);
}

Outcome Tune(const std::string& model, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "finetune",
      "--weights",
      StrCat("tests/goldens/pretrained/", model),
      "--tokenizer",
      LettersTokenizer(),
      "--data",
      Story(),
      "--threads",
      "2",
      "--seq",
      "16",
      "--lr",
      "0.01",
      "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunStowage(arguments);
}

std::vector<Json> Lines(const Outcome& run) {
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  return JsonLines(run.out);
}

// A stopped run goes on as if it had not been; a run without `flags` cannot go on with it.
void CheckGoesOn(const std::string& model,
                 const std::vector<std::string>& flags,
                 std::string_view refusal) {
  const std::string checkpoint = TempPath("run.st");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return more;
  };
  const auto whole = Lines(Tune(model, with({"--steps", "6"})));
  Lines(Tune(model,
             with({"--steps", "6", "--stop-at", "3", "--save", checkpoint})));
  const auto rest =
      Lines(Tune(model, with({"--steps", "6", "--resume", checkpoint})));
  REQUIRE(whole.size() == 7);
  REQUIRE(rest.size() == 4);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(rest[i]["loss"] == whole[i + 3]["loss"]);
  }
  CHECK(rest.back()["validation_loss"] == whole.back()["validation_loss"]);
  const Outcome other = Tune(model, {"--steps", "6", "--resume", checkpoint});
  CHECK(other.exit_code == 2);
  CHECK(Contains(other.err, refusal));
}

// What a saved adapter gives is what the run ended with.
void CheckSavedAdapter(const std::string& model,
                       const std::vector<std::string>& flags) {
  const std::string folder = TempPath("adapter");
  std::vector<std::string> arguments = {"--steps",        "20",  "--batch", "4",
                                        "--save-adapter", folder};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Json done = Lines(Tune(model, arguments)).back();
  const double before = done["base_validation_loss"];
  const double after = done["validation_loss"];
  CHECK(after < before - 0.3);
  // It began as the base.
  const Json base = Lines(Tune(model, {"--steps", "1", "--batch", "4"})).back();
  CHECK(before == doctest::Approx(base["base_validation_loss"].get<double>())
                      .epsilon(1e-6));
  const Json again =
      Lines(Tune(model, {"--steps", "1", "--batch", "4", "--adapter", folder}))
          .back();
  CHECK(again["base_validation_loss"].get<double>() ==
        doctest::Approx(after).epsilon(1e-5));
}

TEST_CASE("DoRA learns, is saved, and goes on to the same bits") {
  CheckSavedAdapter("llama.gguf", {"--dora"});
  CheckGoesOn("qwen2.gguf", {"--dora", "--lora-dropout", "0.2"},
              "is of a run with --dora yes, this one has no, whose adapters "
              "have other params; give --dora");
}

TEST_CASE("PiSSA learns, is saved as LoRA, and goes on to the same bits") {
  CheckSavedAdapter("llama", {"--lora-init", "pissa"});
  CheckGoesOn("gpt2", {"--lora-init", "pissa"},
              "is of a run with --lora-init pissa, this one has uniform, "
              "beside whose adapters the base is another; give --lora-init "
              "pissa");
  const Outcome blocks = Tune("qwen2.gguf", {"--lora-init", "pissa"});
  CHECK(blocks.exit_code == 2);
  CHECK(Contains(blocks.err, "\"blk.0.attn_q.weight\" in Q"));
  const Outcome other = Tune("gpt2", {"--lora-init", "gaussian"});
  CHECK(other.exit_code == 2);
  CHECK(Contains(other.err,
                 "[lora-init] there is no \"gaussian\"; expected "
                 "uniform or pissa"));
  const Outcome both = Tune("gpt2", {"--lora-init", "pissa", "--dora"});
  CHECK(both.exit_code == 2);
  CHECK(Contains(both.err, "leave DoRA out"));
}

TEST_CASE("a GGUF file of DoRA's adapter is refused before the run") {
  const std::string file = TempPath("adapter.gguf");
  const Outcome run =
      Tune("qwen2.gguf", {"--steps", "2", "--dora", "--save-adapter", file});
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  CHECK(Contains(run.err, "no magnitudes, which DoRA trains"));
  CHECK_FALSE(std::filesystem::exists(file));
  // Merged, it is a model as others are.
  const std::string merged = TempPath("merged.gguf");
  const Json done =
      Lines(Tune("qwen2.gguf", {"--steps", "8", "--dora", "--save-merged",
                                merged, "--merged-type", "f32"}))
          .back();
  const Outcome again = RunStowage(
      {"finetune", "--weights", merged, "--tokenizer", LettersTokenizer(),
       "--data", Story(), "--seq", "16", "--steps", "1", "--json"});
  CHECK(Lines(again).back()["base_validation_loss"].get<double>() ==
        doctest::Approx(done["validation_loss"].get<double>()).epsilon(1e-5));
}

}  // namespace
}  // namespace stowage::testing
