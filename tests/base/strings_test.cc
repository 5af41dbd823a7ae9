#include "base/strings.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {
namespace {

TEST_CASE("StrCat joins strings of every kind, characters and nothing") {
  CHECK(StrCat() == "");
  CHECK(StrCat("a", std::string("b"), std::string_view("c"), 'd') == "abcd");
}

TEST_CASE("StrCat writes integers in decimal, to the ends of their range") {
  CHECK(StrCat(0, " ", -7, " ", 7u) == "0 -7 7");
  CHECK(StrCat(int8_t{-128}) == "-128");
  CHECK(StrCat(std::numeric_limits<int64_t>::min()) == "-9223372036854775808");
  CHECK(StrCat(std::numeric_limits<uint64_t>::max()) == "18446744073709551615");
}

TEST_CASE("StrCat writes doubles in the shortest form that parses back equal") {
  CHECK(StrCat(0.1) == "0.1");
  CHECK(StrCat(2.0) == "2");
  CHECK(StrCat(-1.5) == "-1.5");
  const double third = 1.0 / 3.0;
  CHECK(std::stod(StrCat(third)) == third);
}

TEST_CASE("StrCat writes bools as words") {
  CHECK(StrCat(true, '/', false) == "true/false");
}

TEST_CASE("Fixed rounds to the decimals asked for") {
  CHECK(Fixed(71.26, 1) == "71.3");
  CHECK(Fixed(-0.5, 2) == "-0.50");
  CHECK(Fixed(12.0, 0) == "12");
  // 1.797...e308 has 309 digits before the point.
  CHECK(Fixed(std::numeric_limits<double>::max(), 1).size() == 311);
}

TEST_CASE("control characters are written out, but for lines and tabs") {
  CHECK(WithoutControls("w\x1b[31m\x07\x7f\n\tz\xc3\xa9") ==
        "w\\x1b[31m\\x07\\x7f\n\tz\xc3\xa9");
  // Those of Unicode beyond ASCII; U+00A0 and cut bytes are none.
  CHECK(WithoutControls("\xc2\x9b"
                        "31m\xc2\x80\xc2\xa0\xc2") ==
        "\\xc2\\x9b"
        "31m\\xc2\\x80\xc2\xa0\xc2");
  CHECK(WithoutControls(std::string_view("\0a\r", 3)) == "\\x00a\\x0d");
  CHECK(Quoted("a\x1b") == "\"a\\x1b\"");
}

TEST_CASE("Quoted puts double quotes around a name") {
  CHECK(Quoted("h") == "\"h\"");
  CHECK(Quoted("") == "\"\"");
}

TEST_CASE("an ending is found in letters of any case") {
  CHECK(EndsWithAnyCase("data.npz", ".npz"));
  CHECK(EndsWithAnyCase("DATA.Npz", ".npz"));
  CHECK(EndsWithAnyCase(".npz", ".npz"));
  CHECK(EndsWithAnyCase("a", ""));
  CHECK_FALSE(EndsWithAnyCase("npz", ".npz"));
  CHECK_FALSE(EndsWithAnyCase("data.npy", ".npz"));
  // "[" stands as far before "{" as "A" before "a", and is no letter.
  CHECK_FALSE(EndsWithAnyCase("data[", "data{"));
}

TEST_CASE("a pattern without signs stands for itself and for the whole name") {
  CHECK(GlobMatches("wte", "wte"));
  CHECK_FALSE(GlobMatches("wte", "wt"));
  CHECK_FALSE(GlobMatches("wte", "wte2"));
  CHECK_FALSE(GlobMatches("wte", "h.wte"));
  CHECK_FALSE(GlobMatches("h.0", "h_0"));  // a dot is a dot
  CHECK(GlobMatches("", ""));
  CHECK_FALSE(GlobMatches("", "a"));
}

TEST_CASE("a star stands for any run of characters, dots and slashes too") {
  CHECK(GlobMatches("*", ""));
  CHECK(GlobMatches("*", "h.0/attn"));
  CHECK(GlobMatches("*.bias", "h.0.attn.bias"));
  CHECK(GlobMatches("h.*.bias", "h.0.attn.bias"));
  CHECK_FALSE(GlobMatches("*.bias", "h.0.attn.bias2"));
  CHECK_FALSE(GlobMatches("h.*", "g.0"));
  CHECK(GlobMatches("a**b", "ab"));
}

TEST_CASE("a question mark stands for exactly one character") {
  CHECK(GlobMatches("w?", "w1"));
  CHECK_FALSE(GlobMatches("w?", "w"));
  CHECK_FALSE(GlobMatches("w?", "w12"));
  CHECK(GlobMatches("?*", "w12"));
  CHECK_FALSE(GlobMatches("?*", ""));
}

TEST_CASE("a star that stopped too early goes on") {
  CHECK(GlobMatches("*ab", "aab"));
  CHECK(GlobMatches("*aab*b", "aaabab"));
  CHECK_FALSE(GlobMatches("*aab*b", "aaaba"));
}

TEST_CASE("what stars stand for takes the place of the replacement's") {
  CHECK(GlobRewrite("layers.*.q.*", "h.*.attn.*", "layers.3.q.bias") ==
        "h.3.attn.bias");
  CHECK(GlobRewrite("transformer.*", "*", "transformer.h.0.w") == "h.0.w");
  CHECK(GlobRewrite("*", "model.*", "w") == "model.w");
  CHECK(GlobRewrite("*.*", "*/*", "a.b.c") == "a/b.c");  // as little as it can
  CHECK(GlobRewrite("*ab", "<*>", "aab") == "<a>");
  CHECK(GlobRewrite("w*", "v*", "w") == "v");
  CHECK(GlobRewrite("w?", "v", "w1") == "v");
  CHECK(GlobRewrite("a*b*", "gone", "axby") == "gone");
  CHECK(GlobRewrite("exact", "other", "exact") == "other");
  CHECK_FALSE(GlobRewrite("exact", "other", "exactly").has_value());
}

TEST_CASE("a pattern of many stars is answered at once") {
  // Trying all ways to share 1,000 characters among 30 stars would never end.
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "*a";
  CHECK_FALSE(GlobMatches(pattern + "b", std::string(1000, 'a')));
}

// The definition, by recursion.
bool Defined(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return Defined(pattern.substr(1), text) ||
           (!text.empty() && Defined(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         Defined(pattern.substr(1), text.substr(1));
}

// All words of at most `length` of these letters.
std::vector<std::string> Words(std::string_view letters, size_t length) {
  std::vector<std::string> words = {""};
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() == length) continue;
    for (const char letter : letters) words.push_back(words[i] + letter);
  }
  return words;
}

TEST_CASE("all short patterns match the short names that they stand for") {
  for (const std::string& pattern : Words("ab*?", 4)) {
    for (const std::string& text : Words("ab", 5)) {
      CAPTURE(pattern);
      CAPTURE(text);
      REQUIRE(GlobMatches(pattern, text) == Defined(pattern, text));
    }
  }
}

constexpr Bytes kMax = std::numeric_limits<Bytes>::max();

TEST_CASE("sizes that users type parse to exact bytes") {
  struct Row {
    const char* text;
    Bytes bytes;
  };
  for (const Row& row : {
           Row{"0", 0},
           Row{"4000000", 4000000},
           Row{"512B", 512},
           Row{"64KiB", 65536},
           Row{"64MiB", 67108864},
           Row{"64 MiB", 67108864},
           Row{"1.5GiB", 1610612736},
           Row{"2TiB", 2199023255552},
           Row{"3KB", 3000},
           Row{"3kB", 3000},
           Row{"7MB", 7000000},
           Row{"4.2GB", 4200000000},
           Row{"4.1GB", 4100000000},  // as a double, 4.1 is a little less
           Row{"1TB", 1000000000000},
           Row{"9007199254740993", 9007199254740993},  // 2^53 + 1: no double
           Row{"9223372036854775807", kMax},
       }) {
    INFO(std::string(row.text));
    const Result<Bytes> parsed = ParseBytes(row.text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == row.bytes);
  }
}

TEST_CASE("text that is no size is refused") {
  for (const char* text :
       {"", "abc", "-1", "-0.5KiB", " 64MiB", "64MiB ", "MiB", "64mib", "64M",
        "1e3", "+5", "1,5GiB", "0x10", "nan", "inf", "1.5.2GiB"}) {
    INFO(std::string(text));
    const Result<Bytes> parsed = ParseBytes(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("sizes beyond 63 bits are refused") {
  for (const char* text : {"9223372036854775808", "8388608TiB", "9223373TB",
                           "99999999999999999999999999"}) {
    INFO(std::string(text));
    CHECK_FALSE(ParseBytes(text).ok());
  }
  // One TiB below 2^63.
  CHECK(ParseBytes("8388607TiB").value() == kMax - 1099511627776 + 1);
}

TEST_CASE("the error of a bad size quotes it and shows what would do") {
  CHECK(ParseBytes("abc").error().message ==
        "[bytes] \"abc\" is not a size: expected a number that is not "
        "negative, with B, KiB, MiB, GiB, TiB, kB, MB, GB, TB or no unit, as "
        "in 64MiB");
}

TEST_CASE("byte counts print with one decimal from KiB up") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1024) == "1.0 KiB");
  CHECK(FormatBytes(1536) == "1.5 KiB");
  CHECK(FormatBytes(67108864) == "64.0 MiB");
  CHECK(FormatBytes(3435973837) == "3.2 GiB");
  CHECK(FormatBytes(-2048) == "-2.0 KiB");
  CHECK(FormatBytes(kMax) == "8192.0 PiB");
}

TEST_CASE("byte counts print in powers of ten once these were asked for") {
  SetByteUnits(ByteUnits::kPowersOf1000);
  CHECK(FormatBytes(999) == "999 B");
  CHECK(FormatBytes(1000) == "1.0 KB");
  CHECK(FormatBytes(4200000000) == "4.2 GB");
  CHECK(FormatBytes(-2500) == "-2.5 KB");
  CHECK(FormatBytes(kMax) == "9223.4 PB");
  SetByteUnits(ByteUnits::kPowersOf1024);
  CHECK(FormatBytes(4200000000) == "3.9 GiB");
}

TEST_CASE("aligning rounds up to the next multiple, powers of two or not") {
  CHECK(AlignUp(0, 64) == 0);
  CHECK(AlignUp(1, 64) == 64);
  CHECK(AlignUp(64, 64) == 64);
  CHECK(AlignUp(65, 64) == 128);
  CHECK(AlignUp(13, 6) == 18);
  CHECK(AlignUp(13, 1) == 13);
}

TEST_CASE("checked sums and products report overflow") {
  CHECK(CheckedAdd(kMax - 1, 1) == kMax);
  CHECK_FALSE(CheckedAdd(kMax, 1).has_value());
  CHECK(CheckedMul(1 << 20, 1 << 20) == 1099511627776);
  CHECK_FALSE(CheckedMul(kMax / 2 + 1, 2).has_value());
}

}  // namespace
}  // namespace stowage
