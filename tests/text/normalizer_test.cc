#include "text/normalizer.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/sentence_piece_normalizer.h"
#include "text/unicode.h"

namespace stowage::text {
namespace {

using Kind = NormalizerKind;

std::string Run(const std::vector<NormalizerStep>& steps, std::string_view text,
                bool* is_moved = nullptr) {
  const Normalizer normalizer = Normalizer::Create(steps).value();
  Normalizer::Work work = normalizer.NewWork();
  const Result<std::string_view> normal = normalizer.Run(text, false, &work);
  REQUIRE_MESSAGE(normal.ok(), normal.error().message);
  if (is_moved != nullptr) *is_moved = work.is_moved;
  return std::string(*normal);
}

TEST_CASE("each step rewrites what the one before it gives") {
  const NormalizerStep prepend = {.kind = Kind::kPrepend, .content = "▁"};
  const NormalizerStep spaces = {
      .kind = Kind::kReplace, .pattern = " ", .content = "▁"};
  const NormalizerStep strip = {
      .kind = Kind::kStrip, .left = true, .right = true};
  const NormalizerStep lower = {.kind = Kind::kLowercase};
  CHECK(Run({}, "A b") == "A b");
  CHECK(Run({prepend, spaces}, "A b") == "▁A▁b");
  CHECK(Run({prepend, spaces}, "") == "");
  // Steps that write nothing lie between those that do.
  CHECK(Run({lower, strip, spaces, strip, lower, strip, prepend}, " ÀB c ") ==
        "▁àb▁c");
  CHECK(Run({{.kind = Kind::kNfd}, {.kind = Kind::kStripNonspacing}}, "é") ==
        "e");
  CHECK(Run({{.kind = Kind::kNfkc}}, "ﬁ²") == "fi2");
  CHECK(Run({{.kind = Kind::kNmt}}, "a\x01\tb") == "a b");
  CHECK(Run({{.kind = Kind::kClean}}, std::string_view("a\0\r\x7f!", 5)) ==
        "a !");
  CHECK(Run({{.kind = Kind::kSpaceIdeographs}}, "a日b") == "a 日 b");
  CHECK(Run({lower}, "İ") == "i\u0307");
}

TEST_CASE("a text whose begin is left out is known to have moved") {
  const auto moves = [](const NormalizerStep& step, std::string_view text) {
    bool is_moved = false;
    Run({step}, text, &is_moved);
    return is_moved;
  };
  const NormalizerStep strip = {.kind = Kind::kStrip, .left = true};
  CHECK(moves(strip, " a"));
  CHECK_FALSE(moves(strip, "a "));
  const NormalizerStep replace = {
      .kind = Kind::kReplace, .pattern = "ab", .content = "c"};
  CHECK(moves(replace, "ab"));
  CHECK_FALSE(moves(replace, "xab"));
  CHECK(moves({.kind = Kind::kNmt}, "\x01x"));
  CHECK_FALSE(moves({.kind = Kind::kNmt}, "x\x01"));
}

TEST_CASE("steps that double a text again and again end in an error") {
  const std::vector<NormalizerStep> steps(
      40, {.kind = Kind::kReplace, .pattern = "a", .content = "aa"});
  const Normalizer normalizer = Normalizer::Create(steps).value();
  Normalizer::Work work = normalizer.NewWork();
  const auto normal = normalizer.Run("aaaa", false, &work);
  REQUIRE(!normal.ok());
  CHECK(normal.error().code == ErrorCode::kInvalidArgument);
  CHECK(normal.error().message ==
        "[text] a text becomes one of more than 263168 bytes when it is "
        "normalized; expected at most 256 times its own");
}

TEST_CASE("normalizers that cannot be are refused") {
  CHECK(Normalizer::Create({{.kind = Kind::kReplace}}).error().message ==
        "[text] a normalizer replaces the empty text; expected a text or a "
        "pattern of at least a character");
  const auto many = Normalizer::Create(std::vector<NormalizerStep>(65));
  REQUIRE(!many.ok());
  CHECK(many.error().code == ErrorCode::kUnsupported);
  CHECK(many.error().message ==
        "[text] the normalizer has 65 steps; at most 64 are read");
}

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

std::string Mended(std::string_view text) {
  std::string storage;
  return std::string(WellFormed(text, &storage));
}

TEST_CASE("what is no UTF-8 becomes U+FFFD, as the Unicode Standard advises") {
  // The rows are those of the standard's tables 3-8 to 3-11.
  CHECK(Mended("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  CHECK(Mended("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  CHECK(Mended("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  CHECK(Mended("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") ==
        "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

TEST_CASE("what is well-formed stays where it is") {
  const std::string_view text = "plain, é, 日, 😀 and more than eight bytes";
  std::string storage = "untouched";
  const std::string_view same = WellFormed(text, &storage);
  CHECK(same.data() == text.data());
  CHECK(same.size() == text.size());
  CHECK(storage == "untouched");
}

TEST_CASE("characters are read and written at the ends of each length") {
  for (const char32_t code : {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000,
                              0xFFFF, 0x10000, 0x10FFFF}) {
    std::string bytes;
    AppendUtf8(code, &bytes);
    const Character read = FirstCharacter(bytes);
    CHECK(read.well_formed);
    CHECK(read.code == code);
    CHECK(read.bytes == bytes.size());
  }
}

std::string Normal(std::string_view text) {
  std::string storage;
  return std::string(ToNormalForm(text, NormalForm::kC, &storage));
}

// Examples of Unicode Standard Annex 15 and its NormalizationTest.txt.
TEST_CASE(
    "marks are ordered and composed, and stay apart where the form says so") {
  CHECK(Normal("plain") == "plain");
  CHECK(Normal("e\u0301") == "\u00E9");
  CHECK(Normal("\u212B \u2126") == "\u00C5 \u03A9");              // singletons
  CHECK(Normal("q\u0307\u0323") == "q\u0323\u0307");              // by class
  CHECK(Normal("\u1E0B\u0323") == "\u1E0D\u0307");                // across one
  CHECK(Normal("s\u0323\u0307") == "\u1E69");                     // both
  CHECK(Normal("\u0958 \uFB1D") == "\u0915\u093C \u05D9\u05B4");  // excluded
  CHECK(Normal("\u1100\u1161\u11A8") == "\uAC01");                // Hangul
  CHECK(Normal("\uAC00\u11A8") == "\uAC01");
  CHECK(Normal("\uAC01\u11A8") == "\uAC01\u11A8");
  CHECK(Normal("a\u0301\u0301") == "\u00E1\u0301");  // blocked by its like
  CHECK(Normal("\u0301e") == "\u0301e");             // no starter before it
  CHECK(Normal("\u0344") == "\u0308\u0301");
}

}  // namespace
}  // namespace stowage::text
