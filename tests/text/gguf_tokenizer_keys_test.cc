#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "formats/weights_file.h"
#include "tests/support/files.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_file.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kTokens = "tests/goldens/tokens/";
const std::string kPieces = "tests/goldens/pieces/";

Tokenizer Read(const std::string& path) {
  auto tokenizer = ReadTokenizer(path);
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
  return *std::move(tokenizer);
}

// A file of nothing but a tokenizer's keys.
std::string Written(const std::string& path,
                    const GgufTokenizerContext& context = {}) {
  const auto keys = GgufTokenizerKeys(path, context);
  REQUIRE_MESSAGE(keys.ok(), keys.error().message);
  const std::string gguf = testing::NewFolder("keys") + ".gguf";
  const auto file = OutputFile::Claim(gguf);
  REQUIRE(file.ok());
  REQUIRE(WriteGguf(*file, *keys, {}, {}).ok());
  return gguf;
}

std::string Refusal(const std::string& path) {
  const auto keys = GgufTokenizerKeys(path, {});
  REQUIRE_FALSE(keys.ok());
  CHECK(keys.error().code == ErrorCode::kUnsupported);
  CHECK(keys.error().message.starts_with("[gguf] the tokenizer in "));
  return keys.error().message;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

const std::vector<std::string>& Texts() {
  static const std::vector<std::string> texts = {
      "",
      "Once upon a time, 12345 times!",
      "  two spaces\n\n\nand\tlines \r\n",
      "don't WE'LL Größe naïve 日本語 한국어 \U0001F999",
      "<|begin_of_text|>user<|eot_id|><|im_start|>x<|im_end|><s>",
      "for (int i = 0; i < 10; ++i) { sum += values[i]; }"};
  return texts;
}

TEST_CASE("a tokenizer that is written to a GGUF file gives the same tokens") {
  const std::string paths[] = {kTokens + "llama3.json", kTokens + "qwen.json",
                               kTokens + "smollm.json",
                               kPieces + "llama.model"};
  for (const std::string& path : paths) {
    INFO(path);
    const Tokenizer before = Read(path);
    const Tokenizer after = Read(Written(path));
    CHECK(after.size() == before.size());
    for (const std::string& text : Texts()) {
      INFO(text);
      // A piece of the user's here, after which llama.cpp begins a text anew and
      // SentencePiece does not.
      const bool has_piece = text.find("  ") != text.npos;
      if (path.ends_with(".model") && has_piece) continue;
      for (const bool special : {true, false}) {
        const auto expected = before.Encode(text, {.special = special});
        REQUIRE(expected.ok());
        CHECK(*after.Encode(text, {.special = special}) == *expected);
      }
    }
  }
}

// A folder with a copy of a tokenizer, and files beside it.
std::string Folder(const std::string& tokenizer, const std::string& name,
                   const std::vector<std::pair<std::string, Json>>& files) {
  const std::string folder = testing::EmptyFolder("tokenizer");
  fs::copy_file(tokenizer, StrCat(folder, "/", name));
  for (const auto& [file, json] : files) {
    std::ofstream(StrCat(folder, "/", file)) << json.dump();
  }
  return folder;
}

TEST_CASE("special tokens, unused ones and the chat template are kept") {
  const std::string folder = Folder(
      kTokens + "smollm.json", "tokenizer.json",
      {{"tokenizer_config.json",
        {{"eos_token", {{"content", "<|im_end|>"}}}, {"pad_token", "none"}}},
       {"special_tokens_map.json", {{"unk_token", "<|endoftext|>"}}},
       {"config.json", {{"bos_token_id", 1}, {"eos_token_id", 0}}}});
  const Tokenizer tokenizer = Read(folder);
  const auto file =
      WeightsFile::Open(Written(folder, {.vocabulary = tokenizer.size() + 3,
                                         .chat_template = "{{ x }}"}));
  REQUIRE(file.ok());
  const GgufHeader& header = *file->gguf();
  const auto id = [&](const char* name) {
    return header.Int(StrCat("tokenizer.ggml.", name, "_token_id"));
  };
  CHECK(*header.Text("tokenizer.ggml.model") == "gpt2");
  CHECK(*header.Text("tokenizer.ggml.pre") == "smollm");
  CHECK(*header.Text("tokenizer.chat_template") == "{{ x }}");
  CHECK(*id("eos") == *tokenizer.FindAdded("<|im_end|>"));
  CHECK(*id("unknown") == *tokenizer.FindAdded("<|endoftext|>"));
  CHECK(*id("bos") == 1);
  CHECK(id("padding").error().code == ErrorCode::kNotFound);
  CHECK_FALSE(*header.Bool("tokenizer.ggml.add_bos_token"));
  CHECK_FALSE(*header.Bool("tokenizer.ggml.add_eos_token"));
  const auto tokens = *header.Texts("tokenizer.ggml.tokens");
  const auto types = *header.Ints("tokenizer.ggml.token_type");
  REQUIRE(std::ssize(tokens) == tokenizer.size() + 3);
  CHECK(tokens.back() == StrCat("[PAD", tokens.size() - 1, "]"));
  CHECK(types.back() == 5);
  CHECK(types[static_cast<size_t>(*id("eos"))] == 3);
  CHECK(types[static_cast<size_t>(tokenizer.size()) - 1] != 5);
}

TEST_CASE("what begins texts is bos, whatever config.json says") {
  const Json config = {{"bos_token_id", 1}, {"eos_token_id", 2}};
  const std::string folder = Folder(kTokens + "llama3.json", "tokenizer.json",
                                    {{"config.json", config}});
  const auto file = WeightsFile::Open(Written(folder));
  REQUIRE(file.ok());
  CHECK(*file->gguf()->Int("tokenizer.ggml.bos_token_id") ==
        *Read(folder).FindAdded("<|begin_of_text|>"));
  CHECK(*file->gguf()->Int("tokenizer.ggml.eos_token_id") == 2);
  CHECK(*file->gguf()->Bool("tokenizer.ggml.add_bos_token"));
  const std::string other =
      Folder(kTokens + "llama3.json", "tokenizer.json",
             {{"tokenizer_config.json", {{"bos_token", "<|eot_id|>"}}}});
  CHECK(Contains(Refusal(other),
                 "every text begins with 1 tokens, the first of which has the "
                 "number 558, and bos is 560"));
}

TEST_CASE("pieces keep their scores and types") {
  const std::string folder =
      Folder(kPieces + "llama.model", "tokenizer.model",
             {{"tokenizer_config.json",
               {{"add_bos_token", true}, {"bos_token", "<s>"}}}});
  const auto file = WeightsFile::Open(Written(folder));
  REQUIRE(file.ok());
  const GgufHeader& header = *file->gguf();
  CHECK(*header.Text("tokenizer.ggml.model") == "llama");
  CHECK(*header.Bool("tokenizer.ggml.add_bos_token"));
  CHECK(*header.Bool("tokenizer.ggml.add_space_prefix"));
  CHECK(*header.Int("tokenizer.ggml.bos_token_id") == 1);
  const auto types = *header.Ints("tokenizer.ggml.token_type");
  const auto tokens = *header.Texts("tokenizer.ggml.tokens");
  // As SentencePiece begins its vocabularies.
  CHECK(tokens[0] == "<unk>");
  CHECK(types[0] == 2);
  CHECK(tokens[1] == "<s>");
  CHECK(types[1] == 3);
  CHECK(tokens[5] == "the");
  CHECK(types[5] == 4);
  CHECK(tokens[8] == "<0x00>");
  CHECK(types[8] == 6);
  CHECK(header.Reals("tokenizer.ggml.scores")->size() == tokens.size());
  CHECK(*Read(folder).Encode("x y") == *Read(Written(folder)).Encode("x y"));
}

TEST_CASE("a tokenizer without a form in GGUF files is refused by its part") {
  CHECK(Contains(Refusal(kTokens + "gpt2.json"),
                 "the pre-tokenizer cuts at \"\", then "));
  CHECK(Contains(Refusal(kPieces + "wordpiece.json"),
                 "the tokenizer is WordPiece"));
  CHECK(Contains(Refusal(kPieces + "t5.model"),
                 "the tokenizer is a unigram model"));
  const std::string alone = Folder(kPieces + "bpe.json", "tokenizer.json", {});
  CHECK(Contains(Refusal(alone),
                 StrCat("which are in ", Quoted(alone + "/tokenizer.model"),
                        ", and that is not there; put it there")));

  std::ifstream in(kTokens + "smollm.json");
  Json file = Json::parse(in);
  file["normalizer"] = {{"type", "NFKC"}};
  const auto changed = [&] {
    const std::string path = testing::NewFolder("changed") + ".json";
    std::ofstream(path) << file.dump();
    return path;
  };
  CHECK(Contains(Refusal(changed()),
                 "the normalizer has 1 steps, and the pre-tokenizer is that of "
                 "smollm"));
  file["normalizer"] = nullptr;
  file["model"]["ignore_merges"] = true;
  CHECK(Contains(Refusal(changed()), "\"ignore_merges\" is true"));
}

}  // namespace
}  // namespace stowage
