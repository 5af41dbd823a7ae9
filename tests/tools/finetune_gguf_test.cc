// stowage finetune --save-merged and --save-adapter to GGUF files.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "formats/weights_file.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kModels = "tests/goldens/pretrained/";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Of letters, a space and a full stop, with a special token.
Json Tokenizer() {
  Json vocabulary = Json::object();
  for (char c = 'a'; c <= 'z'; ++c) {
    vocabulary[std::string(1, c)] = vocabulary.size();
  }
  for (const char* token : {"\u0120", ".", "\u010a", "th", "he"}) {
    vocabulary[token] = vocabulary.size();
  }
  return {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 31}, {"content", "<|end|>"}, {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"t h", "h e"}}}}};
}

// A folder with a model, its tokenizer and a chat template.
std::string Folder(const std::string& model) {
  const std::string folder = TempPath("folder");
  fs::remove_all(folder);
  fs::copy(kModels + model, folder, fs::copy_options::recursive);
  const auto move_in = [&](const char* name, const std::string& text) {
    fs::rename(WriteTemp(name, text), StrCat(folder, "/", name));
  };
  move_in("tokenizer.json", Tokenizer().dump());
  move_in("tokenizer_config.json",
          Json{{"eos_token", "<|end|>"},
               {"chat_template", "{{ messages[0].content }}"}}
              .dump());
  return folder;
}

std::string Story() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "the ship sails at noon. the cook reads.\n";
  }
  return WriteTemp("story.txt", text);
}

Outcome Finetune(const std::string& weights,
                 const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "finetune", "--weights", weights, "--data",    Story(), "--seq",
      "16",       "--steps",   "20",    "--lr",      "0.01",  "--batch",
      "2",        "--sample",  "0",     "--threads", "1",     "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunStowage(arguments);
}

WeightsFile Open(const std::string& path) {
  auto file = WeightsFile::Open(path);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  return *std::move(file);
}

TEST_CASE("a tuned folder becomes a GGUF file that is tuned in its turn") {
  const std::string merged = TempPath("tuned.gguf");
  const std::string adapter = TempPath("adapter.GGUF");
  const Outcome first =
      Finetune(Folder("qwen3"), {"--save-merged", merged, "--merged-type",
                                 "f32", "--save-adapter", adapter});
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  const double after = JsonLines(first.out).back()["validation_loss"];
  CHECK(after < JsonLines(first.out).back()["base_validation_loss"]);
  const WeightsFile file = Open(merged);
  const GgufHeader& header = *file.gguf();
  CHECK(*header.Text("general.architecture") == "qwen3");
  CHECK(*header.Text("general.name") == "folder");
  CHECK(*header.Text("tokenizer.ggml.pre") == "gpt-2");
  CHECK(*header.Text("tokenizer.chat_template") == "{{ messages[0].content }}");
  CHECK(*header.Int("tokenizer.ggml.eos_token_id") == 31);
  CHECK(header.Texts("tokenizer.ggml.tokens")->size() == 64);
  CHECK(*Open(adapter).gguf()->Text("general.type") == "adapter");

  // Its own tokenizer, and its own weights.
  const Outcome second = Finetune(merged, {"--steps", "1"});
  REQUIRE_MESSAGE(second.exit_code == 0, second.err);
  CHECK(JsonLines(second.out).back()["base_validation_loss"] ==
        doctest::Approx(after).epsilon(1e-6));

  // A GGUF base keeps its types, and what says of which they are.
  const std::string again = TempPath("again.gguf");
  const Outcome third = Finetune(merged, {"--save-merged", again});
  REQUIRE_MESSAGE(third.exit_code == 0, third.err);
  CHECK(*Open(again).gguf()->Int("general.file_type") == 0);
  CHECK(Open(again).gguf()->values().size() == header.values().size());

  const Outcome usual = Finetune(Folder("qwen3"), {"--save-merged", again});
  REQUIRE_MESSAGE(usual.exit_code == 0, usual.err);
  CHECK(*Open(again).gguf()->Int("general.file_type") == 1);
}

TEST_CASE("what a GGUF file cannot hold is refused before the first step") {
  const std::string merged = TempPath("never.gguf");
  const auto refusal = [&](const std::string& weights,
                           const std::vector<std::string>& more) {
    const Outcome outcome = Finetune(weights, more);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_FALSE(fs::exists(merged));
    return outcome.err;
  };
  const std::string folder = Folder("qwen2");
  CHECK(Contains(
      refusal(folder, {"--save-merged", merged, "--merged-type", "q3_k"}),
      "there is no type \"q3_k\"; expected one of f32, "));
  CHECK(Contains(refusal(folder, {"--merged-type", "q8_0"}),
                 "[merged-type] q8_0 is for a GGUF file, and --save-merged is "
                 "not given"));
  CHECK(Contains(refusal(folder, {"--merged-type", "q8_0", "--save-merged",
                                  TempPath("a.safetensors")}),
                 "a.safetensors\"; give a name that ends in .gguf"));
  CHECK(Contains(refusal(folder, {"--save-weights", merged, "--full"}),
                 "ends in .gguf, and safetensors are written"));
  CHECK(Contains(
      refusal(folder, {"--save-merged", merged, "--save-adapter", merged}),
      "save-"));

  Json tokenizer = Tokenizer();
  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  CHECK(Contains(
      refusal(folder, {"--save-merged", merged, "--tokenizer",
                       WriteTemp("tokenizer.json", tokenizer.dump())}),
      "the normalizer has 1 steps, and the pre-tokenizer is that of gpt-2, "
      "which has no form in GGUF files"));
}

TEST_CASE("a dry run leaves no GGUF file behind") {
  const std::string merged = TempPath("dry.gguf");
  const std::string adapter = TempPath("dry-adapter.gguf");
  const Outcome dry = Finetune(
      Folder("qwen2"),
      {"--dry-run", "--save-merged", merged, "--save-adapter", adapter});
  REQUIRE_MESSAGE(dry.exit_code == 0, dry.err);
  CHECK_FALSE(fs::exists(merged));
  CHECK_FALSE(fs::exists(adapter));
}

}  // namespace
}  // namespace stowage::testing
