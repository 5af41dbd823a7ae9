#include "text/bpe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/strings.h"
#include "text/byte_alphabet.h"

namespace stowage::text {
namespace {

// Merges the leftmost of the pairs that stand first in the list, over and over.
std::vector<std::string> Plainly(std::string_view word,
                                 const std::vector<std::string>& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (bool merged = true; merged;) {
    merged = false;
    for (size_t rank = 0; rank < merges.size() && !merged; ++rank) {
      for (size_t i = 0; i + 1 < parts.size() && !merged; ++i) {
        if (StrCat(parts[i], " ", parts[i + 1]) != merges[rank]) continue;
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<ptrdiff_t>(i) + 1);
        merged = true;
      }
    }
  }
  return parts;
}

std::vector<std::string> Split(const Bpe& bpe, std::string_view word) {
  std::vector<int32_t> ids;
  bpe.Encode(word, &ids);
  std::vector<std::string> parts;
  for (const int32_t id : ids) parts.emplace_back(bpe.Bytes(id));
  return parts;
}

TEST_CASE(
    "merges go as if each looked through the whole word, at every length") {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    INFO("round ", round);
    // Any two tokens may merge, so that some merges undo what others wait for.
    std::vector<std::string> tokens = {"a", "b", "c"}, merges;
    for (int i = 0; i < 25; ++i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      const std::string both = left + right;
      if (both.size() > 9) continue;
      const std::string merge = StrCat(left, " ", right);
      if (std::find(merges.begin(), merges.end(), merge) != merges.end())
        continue;
      merges.push_back(merge);
      if (std::find(tokens.begin(), tokens.end(), both) == tokens.end()) {
        tokens.push_back(both);
      }
    }
    const Bpe bpe = Bpe::Create(tokens, merges, {}).value();
    for (const size_t length : {1, 2, 3, 7, 31, 32, 33, 34, 90}) {
      std::string word;
      for (size_t i = 0; i < length; ++i) {
        word += static_cast<char>('a' + random() % 3);
      }
      INFO(word);
      CHECK(Split(bpe, word) == Plainly(word, merges));
    }
  }
}

// Merges the leftmost pair of the highest score, over and over.
std::vector<std::string> PlainlyByScores(std::string_view word,
                                         const std::vector<std::string>& tokens,
                                         const std::vector<double>& scores) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best = 0;
    double score = -1e9;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto both =
          std::find(tokens.begin(), tokens.end(), parts[i] + parts[i + 1]);
      if (both == tokens.end()) continue;
      const double of = scores[static_cast<size_t>(both - tokens.begin())];
      if (of > score) {
        score = of;
        best = i;
      }
    }
    if (score == -1e9) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST_CASE("merges by scores go as if each looked through the whole word") {
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    INFO("round ", round);
    // Neither "b" nor "bc" may be a token, and yet parts of one.
    std::vector<std::string> tokens = {"a", "c"};
    std::vector<double> scores = {0, 0};
    for (int i = 0; i < 40; ++i) {
      std::string token;
      for (uint32_t n = 2 + random() % 4; n > 0; --n) {
        token += static_cast<char>('a' + random() % 3);
      }
      if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) {
        continue;
      }
      tokens.push_back(token);
      scores.push_back(-static_cast<double>(random() % 12));
    }
    tokens.push_back("<0x62>");
    scores.push_back(0);
    const auto byte = static_cast<int32_t>(tokens.size()) - 1;
    const Bpe bpe =
        Bpe::ByScores(
            tokens, scores,
            {.characters = true, .byte_fallback = true, .apart = {byte}})
            .value();
    for (const size_t length : {1, 2, 5, 31, 33, 90}) {
      std::string word;
      for (size_t i = 0; i < length; ++i) {
        word += static_cast<char>('a' + random() % 3);
      }
      INFO(word);
      auto plain = PlainlyByScores(word, tokens, scores);
      std::replace(plain.begin(), plain.end(), std::string("b"),
                   std::string("<0x62>"));
      CHECK(Split(bpe, word) == plain);
    }
  }
}

TEST_CASE("no text becomes a token that stands apart") {
  std::vector<int32_t> ids;
  for (const bool ignore : {false, true}) {
    Bpe::Create({"a", "b", "ab", "?", "c"}, {"a b"},
                {.ignore_merges = ignore,
                 .unknown = 3,
                 .characters = true,
                 .apart = {2, 4}})
        .value()
        .Encode("c", &ids);
  }
  CHECK(ids == std::vector<int32_t>{3, 3});
}

TEST_CASE("a long word of one letter takes no quadratic time") {
  std::vector<std::string> tokens = {"a"}, merges;
  for (int i = 0; i < 10; ++i) {
    merges.push_back(StrCat(tokens.back(), " ", tokens.back()));
    tokens.push_back(tokens.back() + tokens.back());
  }
  const Bpe bpe = Bpe::Create(tokens, merges, {}).value();
  std::vector<int32_t> ids;
  bpe.Encode(std::string(400'003, 'a'), &ids);
  // 400,003 = 390 * 1024 + 512 + 128 + 2 + 1.
  REQUIRE(ids.size() == 390 + 4);
  CHECK(ids.front() == 10);
  CHECK(std::vector<int32_t>(ids.end() - 4, ids.end()) ==
        std::vector<int32_t>{9, 7, 1, 0});
}

TEST_CASE("a word that is a token needs its merges, unless they are ignored") {
  const std::vector<std::string> tokens = {"a", "b", "c", "ab", "abc"};
  const auto ids_of = [&](const BpeOptions& options) {
    std::vector<int32_t> ids;
    Bpe::Create(tokens, {"a b"}, options).value().Encode("abc", &ids);
    return ids;
  };
  CHECK(ids_of({}) == std::vector<int32_t>{3, 2});
  CHECK(ids_of({.ignore_merges = true}) == std::vector<int32_t>{4});
}

TEST_CASE(
    "bytes without a token are unknown, one by one or together, or left out") {
  const auto ids_of = [&](const BpeOptions& options) {
    std::vector<int32_t> ids;
    Bpe::Create({"a", "b", "ab", "?"}, {"a b"}, options)
        .value()
        .Encode("axxab", &ids);
    return ids;
  };
  CHECK(ids_of({}) == std::vector<int32_t>{0, 2});
  CHECK(ids_of({.unknown = 3}) == std::vector<int32_t>{0, 3, 3, 2});
  CHECK(ids_of({.unknown = 3, .fuse_unknown = true}) ==
        std::vector<int32_t>{0, 3, 2});
}

TEST_CASE("the alphabet has a printable character for each byte") {
  // As GPT-2's: printable bytes are themselves, the others follow from U+0100 on.
  CHECK(InAlphabet("a !\n") == "aĠ!Ċ");
  CHECK(InAlphabet("é") == "Ã©");
  CHECK(InAlphabet(std::string_view("\0\xad\xff", 3)) == "ĀŃÿ");
  const Bpe bpe = Bpe::Create({"Ġa", "日", "Ġ", "a"}, {"Ġ a"}, {}).value();
  CHECK(bpe.Bytes(0) == " a");
  CHECK(bpe.Bytes(1) == "日");  // which is not in it
}

TEST_CASE("what is wrong with tokens and merges is named") {
  const auto error = [](const std::vector<std::string>& tokens,
                        const std::vector<std::string>& merges) {
    const Result<Bpe> bpe = Bpe::Create(tokens, merges, {});
    REQUIRE(!bpe.ok());
    CHECK(bpe.error().code == ErrorCode::kInvalidArgument);
    return bpe.error().message;
  };
  CHECK(error({"a", "b", "a"}, {}) ==
        "[text] tokens 0 and 2 are both \"a\"; expected each once");
  CHECK(error({"a", "b"}, {"a c"}) ==
        "[text] merge 0, \"a c\", is of \"c\", which is none of the 2 tokens");
  CHECK(error({"a", "b", "ab"}, {"a b", "b a"}) ==
        "[text] merge 1, \"b a\", gives \"ba\", which is none of the 3 tokens");
  for (const char* merge : {"", " ", "ab", "a ", " b", "a b a", "a  b"}) {
    CHECK(error({"a", "b", "ab"}, {merge}) ==
          StrCat("[text] merge 0 is ", Quoted(merge),
                 "; expected two tokens and a space between them"));
  }
}

}  // namespace
}  // namespace stowage::text
