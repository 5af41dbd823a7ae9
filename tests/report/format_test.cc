#include <doctest/doctest.h>

#include "report/text.h"

namespace stowage {
namespace {

TEST_CASE("padding fills or cuts to the width") {
  CHECK(PadRight("ab", 4) == "ab  ");
  CHECK(PadLeft("ab", 4) == "  ab");
  CHECK(PadRight("abcd", 4) == "abcd");
  CHECK(PadRight("abcdef", 5) == "ab...");
  CHECK(PadLeft("abcdef", 5) == "ab...");
  CHECK(PadRight("abcdef", 2) == "ab");
}

TEST_CASE("large numbers have a comma every three digits") {
  CHECK(WithCommas(0) == "0");
  CHECK(WithCommas(999) == "999");
  CHECK(WithCommas(1000) == "1,000");
  CHECK(WithCommas(124439808) == "124,439,808");
  CHECK(WithCommas(-999) == "-999");
  CHECK(WithCommas(-100000) == "-100,000");
}

TEST_CASE("XML text has no bare signs and no control characters") {
  CHECK(XmlEscaped("a<b>&\"c\"'\n") == "a&lt;b&gt;&amp;&quot;c&quot;&#39; ");
  CHECK(XmlEscaped("\xc3\xa9<\xff") == "\xc3\xa9&lt;\xef\xbf\xbd");
}

TEST_CASE("intervals are half-open") { CHECK(Interval(3, 17) == "[3, 17)"); }

}  // namespace
}  // namespace stowage
