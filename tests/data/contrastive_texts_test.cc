#include "data/contrastive_texts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "text/text.h"

namespace stowage {
namespace {

using Texts = std::vector<std::string>;
using Numbers = std::vector<size_t>;

const std::string kTokenizer = "tests/goldens/encoders/bert/tokenizer.json";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ContrastiveTexts Read(const std::string& text) {
  auto read = ReadContrastiveTexts(text, "rows.jsonl");
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  return *std::move(read);
}

std::string ErrorOf(const std::string& text) {
  const auto read = ReadContrastiveTexts(text, "rows.jsonl");
  REQUIRE(!read.ok());
  CHECK(read.error().code == ErrorCode::kInvalidArgument);
  return read.error().message;
}

TEST_CASE("rows have the columns of sentence-transformers and FlagEmbedding") {
  const ContrastiveTexts read = Read(
      R"({"anchor": "a", "positive": "p"})"
      "\n\n"
      R"({"query": "q", "positive": "p", "negative": "n"})"
      "\n"
      R"({"query": "q", "pos": ["p1", "p2"], "neg": ["n1", "n2"], "id": 7})"
      "\n"
      R"({"sentence1": "s", "sentence2": "t"})"
      "\n"
      R"({"question": "q", "answer": "p", "negative_10": "z", "negative_2": "b",)"
      R"( "negative": "a"})"
      "\n");
  REQUIRE(read.rows.size() == 5);
  CHECK(read.rows[0].query == "a");
  CHECK(read.rows[0].positives == Texts{"p"});
  CHECK(read.rows[0].negatives.empty());
  CHECK(read.rows[1].negatives == Texts{"n"});
  CHECK(read.rows[1].line == 3);
  CHECK(read.rows[2].positives == Texts{"p1", "p2"});
  CHECK(read.rows[2].negatives == Texts{"n1", "n2"});
  CHECK(read.rows[3].query == "s");
  CHECK(read.rows[3].positives == Texts{"t"});
  // In the order of their numbers.
  CHECK(read.rows[4].negatives == Texts{"a", "b", "z"});
  CHECK(read.unread_keys == std::map<std::string, int64_t>{{"id", 1}});
}

TEST_CASE("rows that cannot be read are refused with their line") {
  const std::string good = "{\"query\": \"q\", \"positive\": \"p\"}\n";
  CHECK(ErrorOf("\n") ==
        "[examples] \"rows.jsonl\" has no examples; expected a JSON object a "
        "line");
  CHECK(Contains(ErrorOf(good + "[1]\n"),
                 "\"rows.jsonl\", line 2 is no JSON object"));
  CHECK(Contains(ErrorOf("{"), "line 1 is no JSON"));
  CHECK(Contains(ErrorOf(good + good + R"({"positive": "p"})"),
                 "line 3 has no query; expected query, anchor, question or "
                 "sentence1"));
  CHECK(Contains(ErrorOf(R"({"query": "q", "neg": ["n"]})"),
                 "line 1 has no positive; expected positive, pos, answer or "
                 "sentence2"));
  CHECK(Contains(ErrorOf(R"({"query": "q", "anchor": "a", "pos": "p"})"),
                 "has both \"anchor\" and \"query\"; expected one of them"));
  CHECK(Contains(ErrorOf(R"({"query": "q", "positive": "p", "pos": "p"})"),
                 "has both \"pos\" and \"positive\""));
  CHECK(Contains(ErrorOf(R"({"query": ["q"], "pos": "p"})"),
                 "has a \"query\" that is no text"));
  CHECK(Contains(ErrorOf(R"({"query": "q", "pos": 3})"),
                 "has a \"pos\" that is neither a text nor a list of texts"));
  CHECK(Contains(ErrorOf(R"({"query": "q", "pos": ["p", 3]})"),
                 "has a list \"pos\" with an element that is no text"));
  CHECK(Contains(ErrorOf(R"({"query": "q", "pos": []})"),
                 "has no text in \"pos\""));
  CHECK(Contains(ErrorOf(R"({"query": "", "pos": "p"})"),
                 "has an empty text in \"query\""));
  CHECK(Contains(ErrorOf(R"({"query": "q", "pos": "p", "neg": ["n", ""]})"),
                 "has an empty text in \"neg\""));
  for (const char* const key : {"label", "score", "prompt", "input_ids"}) {
    CHECK(Contains(
        ErrorOf(StrCat(R"({"query": "q", "pos": "p", ")", key, "\": 1}")),
        StrCat("has \"", key, "\", which would change what is learnt")));
  }
}

TEST_CASE("every example has the fewest negatives of a row, or the asked") {
  const ContrastiveTexts texts =
      Read(R"({"query": "q", "pos": "p", "neg": ["a", "b", "c"]})"
           "\n"
           R"({"query": "q", "pos": "p", "neg": ["a", "b"]})");
  CHECK(*NegativesOf(texts, {}, "rows") == 2);
  CHECK(*NegativesOf(texts, 1, "rows") == 1);
  CHECK(*NegativesOf(texts, 0, "rows") == 0);
  CHECK(NegativesOf(texts, 3, "rows").error().message ==
        "[negatives] \"rows\", line 2 has 2 negatives, and 3 are asked for; "
        "give fewer, or leave out rows with fewer");
  CHECK(NegativesOf(texts, -1, "rows").error().message ==
        "[negatives] -1 is below 0");
}

Result<ContrastiveSplit> Split(const std::string& rows,
                               const ContrastiveSplitOptions& options) {
  return SplitContrastiveTexts(Read(rows), *ReadTokenizer(kTokenizer),
                               *TextTemplate::Parse(*ReadFile(kTokenizer)),
                               options, "rows.jsonl");
}

// Tokens of the goldens' vocabulary: [CLS] 2, [SEP] 3, the 5, film 6, good 8, bad 9.
TEST_CASE("texts are encoded once, with their prompts and special tokens") {
  const auto split =
      Split(R"({"query": "good", "pos": "good", "neg": ["film"]})"
            "\n"
            R"({"query": "bad", "pos": "film", "neg": ["good"]})",
            {.seq = 6, .negatives = 1, .query_prompt = "the "});
  REQUIRE_MESSAGE(split.ok(), split.error().message);
  const auto tokens = [&](size_t text) { return split->texts[text]; };
  REQUIRE(split->examples.size() == 2);
  const ContrastiveSplit::Example& first = split->examples[0];
  const ContrastiveSplit::Example& second = split->examples[1];
  CHECK(tokens(first.query) == std::vector<int32_t>{2, 5, 8, 3});
  CHECK(tokens(first.positives[0]) == std::vector<int32_t>{2, 8, 3});
  CHECK(tokens(second.query) == std::vector<int32_t>{2, 5, 9, 3});
  CHECK(first.positives == second.negatives);
  CHECK(first.negatives == second.positives);
  CHECK(split->texts.size() == 4);
  CHECK(split->train == Numbers{0});
  CHECK(split->held_out == Numbers{1});
  CHECK(split->LongestOf(0) == 4);
  CHECK(LongestTexts(*split, {0, 1}) == std::vector<int64_t>{4, 4});
}

TEST_CASE("every tenth row is held out, and repeated documents are counted") {
  std::string rows;
  for (int i = 0; i < 23; ++i) {
    rows += StrCat(R"({"query": "film", "pos": ")",
                   i % 9 == 0 ? "good" : StrCat("film ", i), "\"}\n");
  }
  const auto split = Split(rows, {.seq = 8});
  REQUIRE(split.ok());
  CHECK(split->held_out == Numbers{9, 19});
  CHECK(split->train.size() == 21);
  // Rows 0 and 18 of the training set; 9 is held out.
  CHECK(split->repeated == 1);
}

TEST_CASE("longer texts are cut, or their examples dropped") {
  const std::string rows =
      R"({"query": "so", "pos": "good"})"
      "\n"
      R"({"query": "so", "pos": "good", "neg": "a film and a film"})"
      "\n"
      R"({"query": "bad", "pos": "a film and a film"})"
      "\n"
      R"({"query": "good", "pos": "so"})";
  const auto cut = Split(rows, {.seq = 5});
  REQUIRE(cut.ok());
  CHECK(cut->cut == 1);  // a text that two rows have; negatives are not read
  CHECK(cut->dropped == 0);
  CHECK(cut->LongestOf(2) == 5);
  const auto dropped = Split(rows, {.seq = 5, .drops = true});
  REQUIRE(dropped.ok());
  CHECK(dropped->cut == 0);
  CHECK(dropped->dropped == 1);
  CHECK(dropped->examples.size() == 3);
  CHECK(
      Contains(Split(rows, {.seq = 1}).error().message,
               "seq 1 has no place for the 2 tokens that the tokenizer adds"));
  CHECK(Contains(
      Split(R"({"query": "so", "pos": "good"})", {.seq = 5}).error().message,
      "has 1 examples, of which 1 fit sequences of 5 tokens"));
}

TEST_CASE("of more documents than are needed, each is drawn as often") {
  const auto split = Split(
      R"({"query": "so", "pos": ["good", "bad"], "neg": ["a", "b", "c", "and"]})"
      "\n"
      R"({"query": "so", "pos": "good", "neg": ["a", "b"]})",
      {.seq = 5, .negatives = 2});
  REQUIRE(split.ok());
  const ContrastiveSplit::Example& example = split->examples[0];
  Numbers documents(3);
  split->Documents(0, {}, documents);
  CHECK(documents == Numbers{example.positives[0], example.negatives[0],
                             example.negatives[1]});
  std::map<size_t, int> counts;
  constexpr int kDraws = 2000;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    split->Documents(0, SplitMix64(3, draw), documents);
    for (const size_t document : documents) ++counts[document];
    CHECK(documents[1] != documents[2]);
    Numbers again(3);
    split->Documents(0, SplitMix64(3, draw), again);
    REQUIRE(again == documents);
  }
  // Half of all draws, to within five standard deviations.
  for (const auto* const part : {&example.positives, &example.negatives}) {
    for (const size_t document : *part) {
      CHECK(std::abs(counts[document] - kDraws / 2) < 112);
    }
  }
}

}  // namespace
}  // namespace stowage
