// Every code point, and vocabularies whose units are characters, against PyPI's
// `tokenizers` and `sentencepiece` (tests/goldens/make_piece_goldens.py).

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/strings.h"
#include "text/text.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"

namespace stowage::text {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

// Characters of all planes that have some, each before a digit, 256 a text.
std::vector<std::string> Blocks() {
  std::vector<std::string> blocks;
  for (char32_t start = 0; start < 0x110000; start += 0x100) {
    const bool is_surrogate = start >= 0xD800 && start < 0xE000;
    const bool is_empty =
        start >= 0x40000 && (start < 0xE0000 || start >= 0xE1000);
    if (is_surrogate || is_empty) continue;
    std::string block;
    for (char32_t c = start; c < start + 0x100; ++c) {
      AppendUtf8(c, &block);
      block += '1';
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::string DigestOfNormal(const Json& normalizer) {
  TokenizerParts parts;
  REQUIRE(ReadNormalizer(normalizer, &parts).ok());
  const Normalizer steps = Normalizer::Create(parts.normalizer).value();
  Normalizer::Work work = steps.NewWork();
  Fnv1a hash;
  for (const std::string& block : Blocks())
    hash.Update(*steps.Run(block, false, &work));
  return HexDigest(hash.digest());
}

std::string DigestOfWords(const Json& pre_tokenizer) {
  TokenizerParts parts;
  bool by_bytes = false;
  REQUIRE(ReadPreTokenizer(pre_tokenizer, &parts, &by_bytes).ok());
  const PreTokenizer steps = PreTokenizer::Create(parts.pre_tokenizer).value();
  PreTokenizer::Searches searches = steps.NewSearches();
  Fnv1a hash;
  for (const std::string& block : Blocks()) {
    REQUIRE(steps
                .ForEachWord(block, {}, &searches,
                             [&](std::string_view word) {
                               hash.Update(word);
                               hash.Update("\n");
                             })
                .ok());
  }
  return HexDigest(hash.digest());
}

TEST_CASE("all of Unicode is normalized and cut as by PyPI's tokenizers") {
  const Json golden =
      Json::parse(ReadFile("tests/goldens/pieces/unicode.json").value());
  REQUIRE(golden.size() >= 12);
  for (const Json& row : golden) {
    INFO(row.dump());
    if (row.contains("normalizer")) {
      CHECK(DigestOfNormal(row["normalizer"]) == row["digest"]);
    } else {
      CHECK(DigestOfWords(row["pre_tokenizer"]) == row["digest"]);
    }
  }
}

Json Load(const std::string& name) {
  return Json::parse(
      ReadFile(StrCat("tests/goldens/pieces/", name, ".json")).value());
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

// The file that a case is of: its parts in place of the vocabulary's own.
Tokenizer TokenizerOf(const Json& golden) {
  Json file = Load(golden["base"]);
  for (const auto& [part, value] : golden["parts"].items()) {
    if (part == "model") {
      file[part].update(value);
    } else {
      file[part] = value;
    }
  }
  Result<TokenizerParts> parts = ParseTokenizerParts(file.dump());
  REQUIRE_MESSAGE(parts.ok(), parts.error().message);
  Result<Tokenizer> tokenizer = Tokenizer::Create(*std::move(parts));
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
  return *std::move(tokenizer);
}

void CompareCase(const Json& golden) {
  static const std::vector<std::string> texts = Texts();
  const Tokenizer tokenizer = TokenizerOf(golden);
  REQUIRE(golden["special"].size() == texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    INFO("text ", i, ": ", texts[i]);
    const Ids special = golden["special"][i].get<Ids>();
    CHECK(*tokenizer.Encode(texts[i]) == special);
    const std::string number = StrCat(i);
    const Json& plain = golden["plain"].contains(number)
                            ? golden["plain"][number]
                            : golden["special"][i];
    CHECK(
        *tokenizer.Encode(texts[i], {.special = false, .add_prefix = false}) ==
        plain.get<Ids>());
    // Where tokens are bytes that are no text, `tokenizers` has U+FFFD.
    const std::string decoded = *tokenizer.Decode(special);
    std::string storage;
    if (text::WellFormed(decoded, &storage) != decoded) continue;
    CHECK(decoded == golden["decoded"][i].get<std::string>());
  }
}

void CompareAll(const std::string& base, size_t count) {
  const Json cases = Load(StrCat(base, ".cases"));
  REQUIRE(cases.size() == count);
  for (const Json& golden : cases) {
    INFO(golden["name"].get<std::string>());
    CompareCase(golden);
  }
}

TEST_CASE("byte pair encoding of characters is that of PyPI's tokenizers") {
  CompareAll("bpe", 7);
}

TEST_CASE("unigram models are those of PyPI's tokenizers") {
  CompareAll("unigram", 4);
}

TEST_CASE("WordPiece is that of PyPI's tokenizers") {
  CompareAll("wordpiece", 4);
}

TEST_CASE("SentencePiece's models are those of PyPI's sentencepiece") {
  const std::vector<std::string> texts = Texts();
  for (const char* name : {"llama", "bpe_spaces", "t5", "unigram_bytes"}) {
    INFO(name);
    const Result<Tokenizer> tokenizer =
        ReadTokenizer(StrCat("tests/goldens/pieces/", name, ".model"));
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
    const Json golden = Load(StrCat(name, ".model"));
    REQUIRE(golden["ids"].size() == texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO("text ", i, ": ", texts[i]);
      const Ids ids = golden["ids"][i].get<Ids>();
      CHECK(*tokenizer->Encode(texts[i], {.special = false}) == ids);
      CHECK(*tokenizer->Decode(ids) == golden["decoded"][i].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace stowage::text
