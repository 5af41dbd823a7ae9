#include "base/glob.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage
