#include "text/charsmap.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "base/errors.h"
#include "text/sentence_piece_normalizer.h"

namespace stowage::text {
namespace {

std::string Bytes(const std::vector<uint32_t>& units) {
  std::string bytes;
  for (const uint32_t unit : units) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(unit >> (8 * i));
  }
  return bytes;
}

// Rules for "a", which becomes the text of two bytes, and "ab", which becomes nothing. The root's children
// are at 1 ^ label, those of "a" at 8 ^ label, and of "ab" at 4 ^ label.
std::string Blob(const std::string& first = "X ") {
  constexpr uint32_t kLeaf = 1 << 8, kValue = 1u << 31;
  std::vector<uint32_t> units(0x80);
  units[0] = 1 << 10;
  units[1 ^ 'a'] = 'a' | kLeaf | ((1 ^ 'a') ^ 8) << 10;
  units[8] = kValue | 0;
  units[8 ^ 'b'] = 'b' | kLeaf | ((8 ^ 'b') ^ 4) << 10;
  units[4] = kValue | 3;
  return Bytes({0x80 * 4}) + Bytes(units) + first + std::string("\0\0", 2);
}

TEST_CASE("the longest or the shortest start of a text is found") {
  const Charsmap charsmap = Charsmap::Parse(Blob()).value();
  CHECK(charsmap.Longest("a")->bytes == 1);
  CHECK(charsmap.Longest("a")->replacement == "X ");
  CHECK(charsmap.Longest("abc")->bytes == 2);
  CHECK(charsmap.Longest("abc")->replacement == "");
  CHECK(charsmap.Shortest("abc")->bytes == 1);
  CHECK(!charsmap.Longest("ba"));
  CHECK(!charsmap.Longest(""));
  // A rule that ends within a character is none.
  CHECK(!charsmap.Longest("a\x80"));
  CHECK(!Charsmap::Parse("").value().Longest("a"));
}

TEST_CASE("a charsmap whose sizes do not fit is refused") {
  for (const std::string& blob :
       {std::string("abc"), Bytes({0}), Bytes({4}), Bytes({3, 0}),
        Bytes({8, 0}), Bytes({0xFFFFFFFC, 0})}) {
    const auto charsmap = Charsmap::Parse(blob);
    REQUIRE(!charsmap.ok());
    CHECK(charsmap.error().code == ErrorCode::kInvalidArgument);
    CHECK(charsmap.error().message.find("; expected whole units of 4 bytes") !=
          std::string::npos);
  }
  CHECK(Charsmap::Parse(Bytes({4, 0}) + "\xff").error().message ==
        "[text] the replacements of a precompiled charsmap are no UTF-8");
}

TEST_CASE("a damaged charsmap finds something or nothing") {
  std::mt19937 random(6);
  for (int i = 0; i < 2000; ++i) {
    std::string blob = Blob();
    for (int n = 0; n < 4; ++n) {
      blob[4 + random() % 0x200] = static_cast<char>(random());
    }
    const Charsmap charsmap = Charsmap::Parse(blob).value();
    for (const std::string_view text : {"a", "ab", "b", "zab"}) {
      const auto rule = charsmap.Longest(text);
      CHECK((!rule || rule->bytes <= text.size()));
    }
  }
}

TEST_CASE("SentencePiece puts spaces in order") {
  const auto run = [](const SentencePieceRules& rules, std::string_view text) {
    std::string out;
    SentencePieceNormalizer::Create(rules).value().Run(text, false, &out);
    return out;
  };
  CHECK(run({}, " b  c ") == "▁b▁▁c▁");
  CHECK(run({.add_space = true}, " b") == "▁▁b");
  CHECK(run({.add_space = true}, "") == "");
  CHECK(run({.add_space = true, .collapse_spaces = true}, "  b   c  ") ==
        "▁b▁c");
  CHECK(run({.add_space = true, .collapse_spaces = true}, "   ") == "");
  CHECK(run({.add_space = true, .escape_spaces = false}, "b c") == " b c");
  CHECK(run({.charsmap = Blob(), .collapse_spaces = true}, "a ab a") == "X▁X");
  CHECK(run({.charsmap = Blob(" X"), .collapse_spaces = true}, "a a") == "X▁X");
  CHECK(run({.charsmap = Blob(), .kept = {"aa"}}, "aaab") == "aa");
  CHECK(run({.charsmap = Blob(), .kept = {"aa"}}, "aaba") == "aabX▁");
  CHECK(SentencePieceNormalizer::Create({.kept = {""}}).error().message ==
        "[text] a user-defined piece is empty; expected a text");
}

}  // namespace
}  // namespace stowage::text
