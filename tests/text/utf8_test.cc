#include "text/utf8.h"

#include <doctest/doctest.h>

#include "text/normal_forms.h"

namespace stowage::text {
namespace {

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
  return std::string(Nfc(text, &storage));
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
