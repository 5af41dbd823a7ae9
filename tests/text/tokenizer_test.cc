#include <doctest/doctest.h>

#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "base/strings.h"
#include "text/text.h"
#include "text/word_pattern.h"

namespace stowage {
namespace {

using Words = std::vector<std::string>;

Words Cut(const std::vector<PreTokenizerStep>& steps, std::string_view text) {
  const auto cutter = text::PreTokenizer::Create(steps).value();
  auto searches = cutter.NewSearches();
  Words words;
  const Status done = cutter.ForEachWord(
      text, {}, &searches,
      [&](std::string_view word) { words.emplace_back(word); });
  CHECK(done.ok());
  return words;
}

// As the documentation of tokenizers' SplitDelimiterBehavior has it.
TEST_CASE("a split isolates, removes or joins what its pattern matches") {
  const auto cut = [](SplitBehavior behavior, bool invert = false) {
    return Cut({{"-", behavior, invert}}, "the-final--countdown");
  };
  CHECK(cut(SplitBehavior::kRemoved) == Words{"the", "final", "countdown"});
  CHECK(cut(SplitBehavior::kIsolated) ==
        Words{"the", "-", "final", "-", "-", "countdown"});
  CHECK(cut(SplitBehavior::kMergedWithPrevious) ==
        Words{"the-", "final-", "-", "countdown"});
  CHECK(cut(SplitBehavior::kMergedWithNext) ==
        Words{"the", "-final", "-", "-countdown"});
  CHECK(cut(SplitBehavior::kContiguous) ==
        Words{"the", "-", "final", "--", "countdown"});
  CHECK(cut(SplitBehavior::kRemoved, true) == Words{"-", "-", "-"});
}

TEST_CASE("each step cuts the pieces of the one before") {
  const std::vector<PreTokenizerStep> smollm =
      PreTokenizerSteps("smollm").value();
  CHECK(Cut(smollm, "in 1984, we're") ==
        Words{"in", " ", "1", "9", "8", "4", ",", " we", "'re"});
  CHECK(Cut(PreTokenizerSteps("gpt-2").value(), "in 1984  x") ==
        Words{"in", " 1984", " ", " x"});
  CHECK(Cut(PreTokenizerSteps("llama-bpe").value(), "WE'RE 12345\n\n x") ==
        Words{"WE", "'RE", " ", "123", "45", "\n\n", " x"});
  CHECK(Cut(PreTokenizerSteps("qwen2").value(), "123\t!x") ==
        Words{"1", "2", "3", "\t", "!x"});
  // PyPI's tokenizers cuts so.
  CHECK(Cut(PreTokenizerSteps("dbrx").value(), "WE'RE 12345\n\n x") ==
        Words{"WE", "'RE", " ", "123", "45", "\n\n", " x"});
  const char* const text = "WE'RE CamelCase 12345/\n\n x";
  CHECK(Cut(PreTokenizerSteps("tekken").value(), text) ==
        Words{"WE", "'RE", " Camel", "Case", " ", "1", "2", "3", "4", "5",
              "/\n\n", " x"});
  CHECK(Cut(PreTokenizerSteps("gpt-4o").value(), text) ==
        Words{"WE'RE", " Camel", "Case", " ", "123", "45", "/\n\n", " x"});
  CHECK(Cut({{}, {"b"}}, "abc") == Words{" a", "b", "c"});
  CHECK(Cut({{}, {"b"}}, " abc") == Words{" a", "b", "c"});
}

TEST_CASE("there are not more steps than a stack holds") {
  CHECK(Cut(std::vector<PreTokenizerStep>(64, {"b"}), "abc") ==
        Words{"a", "b", "c"});
  const auto cutter = text::PreTokenizer::Create(
      std::vector<PreTokenizerStep>(100'000, PreTokenizerStep{}));
  REQUIRE(!cutter.ok());
  CHECK(cutter.error().code == ErrorCode::kUnsupported);
  CHECK(cutter.error().message ==
        "[text] the pre-tokenizer has 100000 steps; at most 64 are read");
}

TEST_CASE("a pre-tokenizer that is not known is named, with those that are") {
  const auto steps = PreTokenizerSteps("falcon");
  REQUIRE(!steps.ok());
  CHECK(steps.error().code == ErrorCode::kUnsupported);
  CHECK(
      steps.error().message ==
      "[text] the pre-tokenizer \"falcon\" is not known; expected dbrx, gpt-2, "
      "gpt-4o, llama-bpe, olmo, qwen2, refact, smaug-bpe, smollm or tekken");
}

std::string PatternError(std::string_view pattern) {
  const auto compiled = text::WordPattern::Compile(pattern);
  REQUIRE(!compiled.ok());
  return compiled.error().message;
}

TEST_CASE("patterns that are none, or read in two ways, are refused") {
  CHECK(PatternError("a(b") ==
        "[text] \"a(b\" is no pattern: missing closing parenthesis");
  CHECK(PatternError("a*") ==
        "[text] the pattern \"a*\" matches the empty string; expected one that "
        "takes at least a character");
  for (const auto& [pattern, what] :
       {std::pair(R"(\h+)", R"(\h at byte 0)"),
        {"[a-z&&[^b]]", "an intersection of classes (&&) at byte 4"},
        {"[a[bc]]", "a class within a class at byte 2"}}) {
    CHECK(PatternError(pattern).find(what) != std::string::npos);
  }
  CHECK(PatternError(std::string(70'000, 'a')) ==
        "[text] a pattern has 70000 bytes; at most 65535 are read");
}

TEST_CASE("a pattern that goes back too often ends in an error") {
  const auto cutter = text::PreTokenizer::Create({{"(?:a+)+$b|x"}}).value();
  auto searches = cutter.NewSearches();
  const Status done = cutter.ForEachWord(std::string(60, 'a'), {}, &searches,
                                         [](std::string_view) {});
  REQUIRE(!done.ok());
  CHECK(done.error().code == ErrorCode::kInvalidArgument);
  CHECK(done.error().message.find(
            "takes too many steps in a text of 60 bytes") != std::string::npos);
}

TEST_CASE("a pattern that goes back for each character ends in an error") {
  // Some 2^16 steps at each of the first places, fewer than a single match may take.
  const auto cutter =
      text::PreTokenizer::Create({{"(?:a|a){1,16}b|a"}}).value();
  auto searches = cutter.NewSearches();
  size_t words = 0;
  const auto count = [&](std::string_view) { ++words; };
  REQUIRE(cutter.ForEachWord(std::string(20, 'a'), {}, &searches, count).ok());
  CHECK(words == 20);
  auto more = cutter.NewSearches();
  CHECK(!cutter.ForEachWord(std::string(20'000, 'a'), {}, &more, count).ok());
}

TEST_CASE("long runs that a good pattern goes back in are no fault") {
  // "\s*[\r\n]+" looks at all the spaces in vain.
  const auto cutter =
      text::PreTokenizer::Create(PreTokenizerSteps("llama-bpe").value())
          .value();
  for (const int runs : {1, 300}) {
    std::string text;
    for (int i = 0; i < runs; ++i) {
      text += std::string(runs == 1 ? 300'000 : 2'000, ' ') + "x";
    }
    auto searches = cutter.NewSearches();
    size_t words = 0;
    CHECK(cutter
              .ForEachWord(text, {}, &searches,
                           [&](std::string_view) { ++words; })
              .ok());
    CHECK(words == static_cast<size_t>(2 * runs));
  }
}

TEST_CASE("a place that is hard is passed, and what follows is found") {
  const std::string hard = std::string(16, 'a');
  const auto words = Cut({{"(?:a|a){1,16}b|c"}}, hard + "cd" + hard + "bc");
  CHECK(words == Words{hard, "c", "d", hard + "b", "c"});
}

TokenizerParts Parts() {
  TokenizerParts parts;
  parts.tokens = {"a", "b", "Ġ", "ab", "Ġa"};
  parts.merges = {"a b", "Ġ a"};
  parts.pre_tokenizer = PreTokenizerSteps("gpt-2").value();
  parts.added = {{.text = "<s>", .id = 6, .special = true},
                 {.text = "<s>a", .id = 7, .special = true},
                 {.text = "bb", .id = 8}};
  return parts;
}

using Ids = std::vector<int32_t>;

TEST_CASE(
    "added tokens are found leftmost and longest, special ones if asked for") {
  const Tokenizer tokenizer = Tokenizer::Create(Parts()).value();
  CHECK(tokenizer.size() == 9);
  CHECK(tokenizer.FindAdded("<s>") == 6);
  CHECK(!tokenizer.FindAdded("ab"));
  CHECK(*tokenizer.Encode("ab<s>ab<s>bbb") == Ids{3, 7, 1, 6, 8, 1});
  CHECK(*tokenizer.Encode("ab<s>abbb", {.special = false}) == Ids{3, 0, 8, 1});
  CHECK(*tokenizer.Count("ab<s>ab") == 3);
  CHECK(*tokenizer.Decode(Ids{3, 7, 4, 8}) == "ab<s>a abb");
  CHECK(*tokenizer.Decode(Ids{3, 7, 4, 8}, {.skip_special = true}) == "ab abb");
}

TEST_CASE("a token may take the white space beside it along") {
  TokenizerParts parts = Parts();
  parts.added[0].strip_left = true;
  parts.added[2].strip_right = true;
  const Tokenizer tokenizer = Tokenizer::Create(parts).value();
  CHECK(*tokenizer.Encode("a \u3000 <s> abb  a") == Ids{0, 6, 4, 8, 0});
  CHECK(*tokenizer.Encode("bb \u2003 a") == Ids{8, 0});
}

TEST_CASE("white space that two tokens take is one's alone") {
  TokenizerParts parts = Parts();
  parts.added[2].strip_right = true;
  parts.added.push_back({.text = " ", .id = 9, .strip_left = true});
  const Tokenizer tokenizer = Tokenizer::Create(parts).value();
  CHECK(*tokenizer.Encode("bb a") == Ids{8, 0});
  CHECK(*tokenizer.Encode("bb   a") == Ids{8, 0});
  CHECK(*tokenizer.Encode("a bb  ") == Ids{0, 9, 8});
}

TEST_CASE("a token may have to stand alone") {
  TokenizerParts parts = Parts();
  parts.added[2].single_word = true;
  const Tokenizer tokenizer = Tokenizer::Create(parts).value();
  CHECK(*tokenizer.Encode("bb,bb") == Ids{8, 8});
  CHECK(*tokenizer.Encode("abb") == Ids{3, 1});
  CHECK(*tokenizer.Encode("bb\u00e9 bb") == Ids{1, 1, 2, 8});
  CHECK(*tokenizer.Encode("bb_") == Ids{1, 1});
}

TEST_CASE("what goes around a text can be left out") {
  TokenizerParts parts = Parts();
  parts.prefix = {6};
  parts.suffix = {7, 6};
  const Tokenizer tokenizer = Tokenizer::Create(parts).value();
  CHECK(*tokenizer.Encode("ab") == Ids{6, 3, 7, 6});
  CHECK(*tokenizer.Encode("") == Ids{6, 7, 6});
  CHECK(*tokenizer.Encode("ab", {.add_prefix = false}) == Ids{3});
}

TEST_CASE("nothing is put before a text that goes on from another") {
  // Each a way to put a space, or what stands for one, before a text.
  std::vector<TokenizerParts> all(4, Parts());
  for (TokenizerParts& parts : all) parts.pre_tokenizer = {};
  all[0].pre_tokenizer = {{}};
  all[1].normalizer = {{.kind = NormalizerKind::kPrepend, .content = " "}};
  all[2].normalizer = {{.kind = NormalizerKind::kSentencePiece,
                        .rules = {.add_space = true, .escape_spaces = false}}};
  all[3].pre_tokenizer = {{.pattern = "b",
                           .kind = PreTokenizerKind::kMetaspace,
                           .prefix = MetaspacePrefix::kAlways}};
  for (size_t i = 0; i < all.size(); ++i) {
    INFO(i);
    const Tokenizer tokenizer = Tokenizer::Create(all[i]).value();
    const Ids begin = i == 3 ? Ids{1, 0} : Ids{4};
    CHECK(*tokenizer.Encode("a") == begin);
    CHECK(*tokenizer.Encode("a", {.after = 1}) == Ids{0});
    CHECK(*tokenizer.Encode("a", {.after = 6}) == begin);  // "<s>"
    // Behind an added token a text begins anew.
    Ids anew = {0, 8};
    anew.insert(anew.end(), begin.begin(), begin.end());
    CHECK(*tokenizer.Encode("abba", {.after = 1}) == anew);
  }
}

TEST_CASE("the bytes that no token stands for are counted") {
  const auto lost = [](const TokenizerParts& parts, std::string_view text) {
    int64_t bytes = 0;
    const auto ids = Tokenizer::Create(parts).value().Encode(
        text, {.without_token = &bytes});
    REQUIRE(ids.ok());
    return bytes;
  };
  // Of bytes: left out, or read as an unknown token, one for each or for all in a row.
  TokenizerParts bytes{.tokens = {"a", "b", "ab", "?"}, .merges = {"a b"}};
  CHECK(lost(bytes, "abba") == 0);
  CHECK(lost(bytes, "xabyyb") == 3);
  bytes.unknown = 3;
  CHECK(lost(bytes, "xabyyb") == 3);
  bytes.fuse_unknown = true;
  CHECK(lost(bytes, "xabyyb") == 3);
  // Of characters, with the bytes of some: "\u00e9" is C3 A9, "\u00ea" is C3 AA.
  const TokenizerParts characters{
      .tokens = {"a", "b", "ab", "<0xC3>", "<0xA9>"},
      .merges = {"a b"},
      .model = TokenizerModel::kBpe,
      .byte_fallback = true};
  CHECK(lost(characters, "ab\u00e9") == 0);
  CHECK(lost(characters, "ab\u00ea") == 2);
  // Unigram: scores make "ab" better than its parts.
  const TokenizerParts unigram{.tokens = {"a", "ab", "<unk>"},
                               .unknown = 2,
                               .model = TokenizerModel::kUnigram,
                               .scores = {-2, -1, 0}};
  CHECK(lost(unigram, "aba") == 0);
  CHECK(lost(unigram, "abzza") == 2);
  // Of words: all of one, or nothing.
  const TokenizerParts words{.tokens = {"un", "##do", "[UNK]"},
                             .pre_tokenizer = {{" ", SplitBehavior::kRemoved}},
                             .unknown = 2,
                             .model = TokenizerModel::kWordPiece};
  CHECK(lost(words, "undo un undone") == 6);
}

TEST_CASE("the digest is of all that a tokenizer consists of") {
  const auto digest = [](const TokenizerParts& parts) {
    return Tokenizer::Create(parts).value().digest();
  };
  const uint64_t same = digest(Parts());
  CHECK(digest(Parts()) == same);
  std::set<uint64_t> seen = {same};
  const std::function<void(TokenizerParts&)> changes[] = {
      [](TokenizerParts& p) { std::swap(p.tokens[0], p.tokens[1]); },
      [](TokenizerParts& p) { std::swap(p.merges[0], p.merges[1]); },
      [](TokenizerParts& p) { p.added[0].special = !p.added[0].special; },
      [](TokenizerParts& p) { p.prefix = {6}; },
      [](TokenizerParts& p) { p.suffix = {6}; },
      [](TokenizerParts& p) { p.normalizer = {{}}; },
      [](TokenizerParts& p) { p.ignore_merges = !p.ignore_merges; },
      [](TokenizerParts& p) { p.byte_fallback = !p.byte_fallback; },
      [](TokenizerParts& p) { p.added[0].single_word = true; },
      [](TokenizerParts& p) { p.pre_tokenizer[0].prefix = {}; },
      [](TokenizerParts& p) { p.decoder = {{}}; },
      [](TokenizerParts& p) { p.decoder = {{.kind = DecoderKind::kSpaces}}; },
      [](TokenizerParts& p) { p.decoder = {{.cleanup = true}}; },
      [](TokenizerParts& p) {
        p.normalizer = {{.kind = NormalizerKind::kLowercase}};
      },
      [](TokenizerParts& p) {
        p.normalizer = {{.kind = NormalizerKind::kSentencePiece}};
      },
      [](TokenizerParts& p) {
        p.normalizer = {{.kind = NormalizerKind::kSentencePiece,
                         .rules = {.add_space = true}}};
      },
      [](TokenizerParts& p) {
        p.scores = {0, 0, 0, 0, -1};
      },
      [](TokenizerParts& p) {
        p.scores = {0, 0, 0, -1, 0};
      },
      [](TokenizerParts& p) { p.apart = {1}; },
      [](TokenizerParts& p) { p.word_prefix = "@"; },
      [](TokenizerParts& p) { p.max_word_characters = 5; },
      [](TokenizerParts& p) { p.is_single = true; },
      [](TokenizerParts& p) { p.least_score = -7; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(i);
    TokenizerParts parts = Parts();
    changes[i](parts);
    CHECK(seen.insert(digest(parts)).second);
  }
}

TEST_CASE("ids that are no tokens are not decoded") {
  const Tokenizer tokenizer = Tokenizer::Create(Parts()).value();
  CHECK(tokenizer.unused() == Ids{5});
  for (const int32_t id : {5, 9, -1}) {
    const Result<std::string> text = tokenizer.Decode(Ids{0, id});
    REQUIRE(!text.ok());
    CHECK(text.error().message ==
          StrCat("[text] number 1 is ", id,
                 ", which is no token; expected ids from 0 to 8"));
  }
}

TEST_CASE("parts that do not fit are refused") {
  const auto error = [](auto&& change) {
    TokenizerParts parts = Parts();
    change(parts);
    const Result<Tokenizer> tokenizer = Tokenizer::Create(std::move(parts));
    REQUIRE(!tokenizer.ok());
    CHECK(tokenizer.error().code == ErrorCode::kInvalidArgument);
    return tokenizer.error().message;
  };
  CHECK(
      error([](TokenizerParts& p) { p.merges.clear(); }) ==
      "[text] the tokenizer has no merges; expected one of byte pair encoding, "
      "with a list of them");
  CHECK(error([](TokenizerParts& p) { p.added[0].id = 1 << 30; }) ==
        "[text] the added token \"<s>\" has id 1073741824; expected one from 0 "
        "to 1039 among 8 tokens");
  // A table of ids is no larger than its tokens have it.
  CHECK(error([](TokenizerParts& p) { p.added[0].id = 1040; }) ==
        "[text] the added token \"<s>\" has id 1040; expected one from 0 to "
        "1039 among 8 tokens");
  CHECK(error([](TokenizerParts& p) { p.added[0].id = 1; }) ==
        "[text] the added token \"<s>\" has id 1, which is that of \"b\"");
  CHECK(error([](TokenizerParts& p) { p.added[0].text.clear(); }) ==
        "[text] the added token 6 is empty");
  // The second half of "é", which would leave the first one to the patterns.
  CHECK(error([](TokenizerParts& p) { p.added[2].text = "\xa9"; }) ==
        "[text] the added token 8 is no UTF-8; expected the text that it "
        "stands for");
  CHECK(error([](TokenizerParts& p) { p.prefix = {99}; }) ==
        "[text] what goes before a text is token 99 of 9 tokens");
  CHECK(error([](TokenizerParts& p) { p.suffix = {5}; }) ==
        "[text] what goes after a text is 5, which has no text; expected a "
        "token");
  CHECK(error([](TokenizerParts& p) { p.unknown = -1; }) ==
        "[text] the unknown token is token -1 of 9 tokens");
  CHECK(error([](TokenizerParts& p) { p.unknown = 5; }) ==
        "[text] the unknown token is 5, which has no text; expected a token");
  CHECK(error([](TokenizerParts& p) {
          p = {};
          p.model = TokenizerModel::kWordPiece;
        }) ==
        "[text] the vocabulary has no tokens; expected those that words begin "
        "with and go on with");
  CHECK(error([](TokenizerParts& p) {
          p.scores = {1, 2};
        }) == "[text] there are 2 scores for 5 tokens; expected one for each");
}

TEST_CASE("a GGUF file's tokenizer needs a type for each token, and a bos") {
  GgufTokenizer gguf;
  gguf.tokens = {"a", "b", "ab"};
  gguf.token_types = {1, 1};
  gguf.pre = "llama-bpe";
  CHECK(PartsOf(gguf).error().message ==
        "[text] there are 2 types for 3 tokens; expected one for each");
  gguf.token_types = {1, 1, 4};
  CHECK(PartsOf(gguf).error().message ==
        "[text] a text begins with the token bos, and there is no id of it; "
        "expected bos_token_id");
  gguf.add_bos = false;
  gguf.add_eos = true;
  CHECK(PartsOf(gguf).error().message ==
        "[text] a text ends with the token eos, and there is no id of it; "
        "expected eos_token_id");
  gguf.eos = 2;
  CHECK(PartsOf(gguf).value().suffix == std::vector<int32_t>{2});
  gguf.add_eos = false;
  const TokenizerParts parts = PartsOf(gguf).value();
  CHECK(parts.prefix.empty());
  CHECK(parts.suffix.empty());
  CHECK(parts.ignore_merges);
  CHECK(parts.normalizer.empty());
  REQUIRE(parts.added.size() == 1);
  CHECK(!parts.added[0].special);
}

}  // namespace
}  // namespace stowage
