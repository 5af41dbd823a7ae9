#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/piece_models.h"
#include "text/vocabulary.h"

namespace stowage::text {
namespace {

using Ids = std::vector<int32_t>;
using Kind = DecoderKind;

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
  CHECK(OfAlphabet("aĠ!Ċ") == "a !\n");
  CHECK(OfAlphabet("Ã©") == "é");
  CHECK(OfAlphabet("ĀŃÿ") == std::string("\0\xad\xff", 3));
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

Ids Encoded(std::string_view word, const WordPieceOptions& options) {
  const std::vector<std::string> tokens = {
      "[UNK]", "em", "e", "##bed", "##b", "##ding", "##s", "日", "##本", "##"};
  Ids ids;
  WordPiece::Create(tokens, options).value().Encode(word, &ids);
  return ids;
}

TEST_CASE("a word is the longest tokens that go on, or unknown as a whole") {
  CHECK(Encoded("embeddings", {.unknown = 0}) == Ids{1, 3, 5, 6});
  CHECK(Encoded("ebs", {.unknown = 0}) == Ids{2, 4, 6});
  CHECK(Encoded("日本", {.unknown = 0}) == Ids{7, 8});
  CHECK(Encoded("embeddin", {.unknown = 0}) == Ids{0});
  CHECK(Encoded("embeddin", {}) == Ids{});
  CHECK(Encoded("bed", {.unknown = 0}) == Ids{0});
  // A text that is written as a token with its prefix.
  CHECK(Encoded("##bed", {.unknown = 0}) == Ids{3});
  CHECK(Encoded("em", {.unknown = 0, .apart = {1}}) == Ids{0});
  CHECK(Encoded("", {.unknown = 0}) == Ids{});
}

TEST_CASE("a word of too many characters is unknown") {
  CHECK(Encoded("日本", {.unknown = 0, .max_characters = 2}) == Ids{7, 8});
  CHECK(Encoded("日本", {.unknown = 0, .max_characters = 1}) == Ids{0});
}

TEST_CASE("a long token is refused") {
  const auto pieces = WordPiece::Create({"a", std::string(513, 'a')}, {});
  REQUIRE(!pieces.ok());
  CHECK(pieces.error().code == ErrorCode::kUnsupported);
  CHECK(pieces.error().message ==
        "[text] the token 1 has 513 bytes; at most 512 are read of WordPiece");
}

std::string Join(const std::vector<DecoderStep>& steps,
                 std::vector<std::string> tokens) {
  REQUIRE(CheckDecoder(steps).ok());
  return Decode(steps, std::move(tokens)).value();
}

TEST_CASE("Llama's steps give spaces, bytes, and no first space") {
  const std::vector<DecoderStep> llama = {
      {.kind = Kind::kReplace, .pattern = "▁", .content = " "},
      {.kind = Kind::kByteFallback},
      {.kind = Kind::kFuse},
      {.kind = Kind::kStrip, .pattern = " ", .left = 1}};
  CHECK(Join(llama, {"▁a", "▁▁b"}) == "a  b");
  CHECK(Join(llama, {"▁", "<0xE6>", "<0x97>", "<0xa5>", "!"}) == "日!");
  CHECK(Join(llama, {"<0xG1>", "<0x1>"}) == "<0xG1><0x1>");
  CHECK(Join(llama, {}) == "");
  // Bytes in a row are one token to the steps behind.
  CHECK(Join({{.kind = Kind::kByteFallback},
              {.kind = Kind::kStrip, .pattern = " ", .left = 1}},
             {"<0x20>", "<0x20>", "a"}) == " a");
}

TEST_CASE("a Metaspace has no space of the first token") {
  CHECK(Join({{.kind = Kind::kMetaspace, .pattern = "▁", .first = true}},
             {"▁a▁", "▁b"}) == "a b");
  CHECK(Join({{.kind = Kind::kMetaspace, .pattern = "▁"}}, {"▁a", "▁b"}) ==
        " a b");
}

TEST_CASE("pieces of words are joined, and clean before punctuation") {
  const DecoderStep word = {
      .kind = Kind::kWordPiece, .pattern = "##", .cleanup = true};
  CHECK(Join({word}, {"em", "##bed", ",", "do", "##n", "'", "t", "!"}) ==
        "embed, don ' t!");
  CHECK(Join({{.kind = Kind::kWordPiece, .pattern = "##"}},
             {"##a", "##b", "."}) == "##ab .");
}

TEST_CASE("suffixes of words are spaces, but for the last") {
  CHECK(Join({{.kind = Kind::kSuffix, .pattern = "</w>"}},
             {"a", "b</w>", "c</w>"}) == "ab c");
  CHECK(Join({{.kind = Kind::kSpaces}}, {"a", "b"}) == "a b");
  CHECK(Join({{.kind = Kind::kStrip, .pattern = " ", .left = 1, .right = 9}},
             {"  a  ", " "}) == " a");
}

TEST_CASE("SentencePiece drops the space that it puts before a text") {
  const auto decode = [](bool first, bool cleanup,
                         std::vector<std::string> tokens) {
    return Join(
        {{.kind = Kind::kToken, .pattern = "<unk>", .content = " ? "},
         {.kind = Kind::kSentencePiece, .first = first, .cleanup = cleanup}},
        std::move(tokens));
  };
  CHECK(decode(true, false, {"▁a", "▁▁b", "<unk>"}) == "a  b ? ");
  CHECK(decode(false, false, {"▁a", "▁b"}) == " a b");
  CHECK(decode(true, false, {"▁", "▁a"}) == " a");
  CHECK(decode(true, true, {"▁", "▁a", "▁"}) == "a ");
  CHECK(decode(true, false, {"a", "▁b"}) == "a b");
}

TEST_CASE("decoders that cannot be, or go on and on, are refused") {
  CHECK(CheckDecoder({{.kind = Kind::kReplace}}).error().message ==
        "[text] a decoder replaces the empty text; expected a text of at "
        "least a character");
  CHECK(CheckDecoder(std::vector<DecoderStep>(65)).error().message ==
        "[text] the decoder has 65 steps; at most 64 are read");
  const std::vector<DecoderStep> twice(
      40, {.kind = Kind::kReplace, .pattern = "a", .content = "aa"});
  const auto text = Decode(twice, {"aa"});
  REQUIRE(!text.ok());
  CHECK(text.error().code == ErrorCode::kInvalidArgument);
  CHECK(text.error().message ==
        "[text] 1 tokens become a text of more than 262656 bytes; expected at "
        "most 256 times their own");
}

}  // namespace
}  // namespace stowage::text
