#include "text/unigram.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "base/errors.h"

namespace stowage::text {
namespace {

using Ids = std::vector<int32_t>;

constexpr double kUnknownScore = -30;  // the least of all and 10 less

// The largest sum of all ways to cut the word, all of them tried.
double BestSum(std::string_view word, const std::vector<std::string>& tokens,
               const std::vector<double>& scores) {
  if (word.empty()) return 0;
  double best = -1e9;
  bool has_single = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!word.starts_with(tokens[i])) continue;
    if (tokens[i].size() == 1) has_single = true;
    best = std::max(best, scores[i] + BestSum(word.substr(tokens[i].size()),
                                              tokens, scores));
  }
  if (has_single) return best;
  return std::max(best,
                  kUnknownScore + BestSum(word.substr(1), tokens, scores));
}

TEST_CASE("the pieces of a word have the largest sum of all") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    INFO("round ", round);
    std::vector<std::string> tokens = {"a", "b"};  // and no "c"
    std::vector<double> scores = {-3, -20};
    for (int i = 0; i < 12; ++i) {
      std::string token;
      for (uint32_t n = 2 + random() % 3; n > 0; --n) {
        token += static_cast<char>('a' + random() % 3);
      }
      if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) {
        continue;
      }
      tokens.push_back(token);
      scores.push_back(-static_cast<double>(random() % 20));
    }
    const Unigram unigram = Unigram::Create(tokens, scores, {}).value();
    std::string word;
    for (uint32_t n = random() % 12; n > 0; --n) {
      word += static_cast<char>('a' + random() % 3);
    }
    INFO(word);
    Ids ids;
    unigram.Encode(word, &ids);
    double sum = 0;
    size_t bytes = 0;
    for (const int32_t id : ids) {
      sum += scores[static_cast<size_t>(id)];
      bytes += unigram.Bytes(id).size();
    }
    // What is unknown is left out.
    sum += kUnknownScore * static_cast<double>(word.size() - bytes);
    CHECK(sum == BestSum(word, tokens, scores));
  }
}

TEST_CASE("unknown characters are one token, a piece of theirs, or bytes") {
  const std::vector<std::string> tokens = {"<unk>", "a", "<0x78>", "<0x79>"};
  const std::vector<double> scores = {0, -1, 0, 0};
  const auto ids_of = [&](std::string_view word,
                          const UnigramOptions& options) {
    Ids ids;
    Unigram::Create(tokens, scores, options).value().Encode(word, &ids);
    return ids;
  };
  CHECK(ids_of("xyaz", {.unknown = 0}) == Ids{0, 1, 0});
  CHECK(ids_of("xyaz", {}) == Ids{1});
  CHECK(ids_of("xyaz", {.unknown = 0, .byte_fallback = true}) ==
        Ids{2, 3, 1, 0});
  CHECK(ids_of("a<unk>x", {.unknown = 0}) == Ids{1, 0});
  CHECK(ids_of("a", {.unknown = 0, .apart = {1}}) == Ids{0});
}

TEST_CASE("sums of 32 bits may choose otherwise than those of 64") {
  // Near 2^16 numbers of 32 bits are 2^-7 apart; of sums that are equal the first stays.
  const std::vector<std::string> tokens = {"a", "b", "c", "abc"};
  const std::vector<double> scores = {-65536, -0.001, -0.001, -65536.0025};
  const auto ids_of = [&](bool is_single, std::string_view word) {
    Ids ids;
    Unigram::Create(tokens, scores, {.is_single = is_single})
        .value()
        .Encode(word, &ids);
    return ids;
  };
  CHECK(ids_of(false, "abc") == Ids{0, 1, 2});
  CHECK(ids_of(true, "abc") == Ids{3});
  // Beyond 100,000 they count from zero again, and are as near as at the begin.
  const std::vector<std::string> more = {"a", "b", "c", "bc"};
  Ids ids;
  Unigram::Create(more, {-65536, -0.001, -0.001, -0.0025}, {.is_single = true})
      .value()
      .Encode("aabc", &ids);
  CHECK(ids == Ids{0, 0, 1, 2});
}

TEST_CASE("a long piece is refused, and a long word takes linear time") {
  const auto error = Unigram::Create({std::string(513, 'a')}, {0}, {});
  REQUIRE(!error.ok());
  CHECK(error.error().code == ErrorCode::kUnsupported);
  CHECK(error.error().message ==
        "[text] the token 0 has 513 bytes; at most 512 are read of a unigram "
        "model");
  const Unigram unigram =
      Unigram::Create({"a", std::string(100, 'a')}, {-1, -1}, {}).value();
  Ids ids;
  unigram.Encode(std::string(200'050, 'a'), &ids);
  CHECK(ids.size() == 2000 + 50);
}

TEST_CASE("a trie finds texts, the last of equal ones") {
  const Trie trie({{"b", 0}, {"abc", 1}, {"a", 2}, {"b", 3}, {"\xff", 4}});
  CHECK(trie.Find("a") == 2);
  CHECK(trie.Find("ab") == -1);
  CHECK(trie.Find("abc") == 1);
  CHECK(trie.Find("abcd") == -1);
  CHECK(trie.Find("b") == 3);
  CHECK(trie.Find("\xff") == 4);
  CHECK(trie.Find("") == -1);
  CHECK(Trie().Find("a") == -1);
}

}  // namespace
}  // namespace stowage::text
