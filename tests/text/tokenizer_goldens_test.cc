// Against PyPI's `tokenizers` (tests/goldens/make_tokenizer_goldens.py).

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/files.h"
#include "base/strings.h"
#include "tests/text/gguf_tokenizer_bytes.h"
#include "text/text.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

const char* const kNames[] = {"gpt2", "llama3", "smollm", "qwen"};

std::string Path(const std::string& name) {
  return StrCat("tests/goldens/tokens/", name, ".json");
}

Json Load(const std::string& name) {
  return Json::parse(ReadFile(Path(name)).value());
}

std::vector<std::string> Texts() {
  std::vector<std::string> texts;
  for (const Json& row : Load("texts")) {
    const auto hex = row.get<std::string>();
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    texts.push_back(std::move(bytes));
  }
  return texts;
}

TEST_CASE(
    "ids are those of PyPI's tokenizers, also of bytes that are no text") {
  const std::vector<std::string> texts = Texts();
  REQUIRE(texts.size() > 250);
  for (const char* name : kNames) {
    INFO(name);
    const Result<Tokenizer> tokenizer = ReadTokenizer(Path(name));
    if (!tokenizer.ok()) FAIL(tokenizer.error().message);
    const Json golden = Load(StrCat(name, ".ids"));
    REQUIRE(golden["special"].size() == texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO("text ", i, ": ", texts[i]);
      CHECK(*tokenizer->Encode(texts[i]) ==
            golden["special"][i].get<std::vector<int32_t>>());
      const std::string number = StrCat(i);
      const Json& plain = golden["plain"].contains(number)
                              ? golden["plain"][number]
                              : golden["special"][i];
      CHECK(*tokenizer->Encode(texts[i],
                               {.special = false, .add_prefix = false}) ==
            plain.get<std::vector<int32_t>>());
      CHECK(*tokenizer->Count(texts[i]) ==
            static_cast<int64_t>(golden["special"][i].size()));
    }
  }
}

// Characters of all lengths, with much white space and many marks of punctuation.
std::string RandomText(std::mt19937* random) {
  const std::string_view some[] = {
      " ", "  ", "\n", "\t",   "'s",   "the", "<|", "1",  "23", "a",
      "é", "日", "😀",  "\r\n", "\x7f", "ß",   "ل",  "한", "x",  "!"};
  std::string text;
  for (uint32_t n = (*random)() % 60; n > 0; --n) {
    text += some[(*random)() % std::size(some)];
  }
  return text;
}

TEST_CASE("decoding gives the text back") {
  // Not gpt2, which puts a space before a text, and not smollm, which lacks bytes.
  for (const char* name : {"llama3", "qwen"}) {
    const Tokenizer tokenizer = ReadTokenizer(Path(name)).value();
    std::mt19937 random(7);
    for (int i = 0; i < 2000; ++i) {
      const std::string text = RandomText(&random);
      INFO(name, " ", text);
      CHECK(*tokenizer.Decode(*tokenizer.Encode(text, {.add_prefix = false})) ==
            text);
    }
  }
}

TEST_CASE("the tokenizer of a GGUF file gives the same ids") {
  const std::vector<std::string> texts = Texts();
  for (const auto& row :
       {std::pair("llama3", "llama-bpe"), {"smollm", "smollm"}}) {
    const char* const name = row.first;
    INFO(name);
    const Json file = Load(name);
    GgufTokenizer gguf;
    gguf.pre = row.second;
    const auto place = [&](const std::string& token, size_t id, int32_t type) {
      gguf.tokens.resize(std::max(gguf.tokens.size(), id + 1));
      gguf.token_types.resize(gguf.tokens.size(), 1);
      gguf.tokens[id] = token;
      gguf.token_types[id] = type;
    };
    for (const auto& [token, id] : file["model"]["vocab"].items()) {
      place(token, id.get<size_t>(), 1);
    }
    for (const Json& token : file["added_tokens"]) {
      place(token["content"], token["id"], token["special"] == true ? 3 : 4);
    }
    for (const Json& merge : file["model"]["merges"]) {
      gguf.merges.push_back(merge.is_string()
                                ? merge.get<std::string>()
                                : StrCat(merge[0].get<std::string>(), " ",
                                         merge[1].get<std::string>()));
    }
    if (gguf.pre == "llama-bpe") {
      gguf.bos = file["added_tokens"][0]["id"].get<int32_t>();
    }
    const char* const folder = std::getenv("TEST_TMPDIR");
    const std::string path =
        StrCat(folder ? folder : "/tmp", "/", name, ".gguf");
    std::ofstream(path, std::ios::binary) << testing::GgufTokenizerBytes(gguf);
    const auto tokenizer = ReadTokenizer(path);
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
    const Json golden = Load(StrCat(name, ".ids"));
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO("text ", i);
      CHECK(*tokenizer->Encode(texts[i]) ==
            golden["special"][i].get<std::vector<int32_t>>());
    }
  }
}

TEST_CASE("several threads may use one tokenizer") {
  const std::vector<std::string> texts = Texts();
  const Tokenizer tokenizer = ReadTokenizer(Path("qwen")).value();
  const Json golden = Load("qwen.ids");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < texts.size(); ++i) {
        if (*tokenizer.Encode(texts[i]) !=
            golden["special"][i].get<std::vector<int32_t>>()) {
          ++wrong[t];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

}  // namespace
}  // namespace stowage
