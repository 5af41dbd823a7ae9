// Code points, one by one, against PyPI's `tokenizers` (tests/goldens/make_piece_goldens.py).

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/hash.h"
#include "base/input_file.h"
#include "base/strings.h"
#include "text/text.h"
#include "text/tokenizer_steps.h"
#include "text/utf8.h"

namespace stowage::text {
namespace {

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

}  // namespace
}  // namespace stowage::text
