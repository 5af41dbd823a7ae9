#include "base/strings.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

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

}  // namespace
}  // namespace stowage
