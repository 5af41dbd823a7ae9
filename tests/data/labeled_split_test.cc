#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "data/labeled_texts.h"
#include "text/text.h"

namespace stowage {
namespace {

using Numbers = std::vector<size_t>;

const std::string kTokenizer = "tests/goldens/encoders/bert/tokenizer.json";

Result<LabeledSplit> Split(const std::vector<std::string>& rows,
                           const LabeledSplitOptions& options) {
  LabeledTexts texts;
  for (const std::string& row : rows) {
    texts.rows.push_back({.text = row, .label = "0", .line = 1});
    if (row == "a pair") texts.rows.back().pair = "it is";
  }
  return SplitLabeledTexts(
      texts, std::vector<int32_t>(rows.size()), *ReadTokenizer(kTokenizer),
      *TextTemplate::Parse(*ReadFile(kTokenizer)), options, "rows");
}

TEST_CASE("every tenth text is held out, and of few the last") {
  const auto many = Split(std::vector<std::string>(25, "good"), {.seq = 8});
  REQUIRE_MESSAGE(many.ok(), many.error().message);
  CHECK(many->held_out == Numbers{9, 19});
  CHECK(many->train.size() == 23);
  const auto few = Split({"good", "bad", "so"}, {.seq = 8});
  REQUIRE(few.ok());
  CHECK(few->held_out == Numbers{2});
  CHECK(few->train == Numbers{0, 1});
  CHECK(TextLengths(*few, few->train) == std::vector<int64_t>{3, 3});
}

TEST_CASE("texts that are too long are cut, or are in neither part") {
  const std::vector<std::string> rows = {"so", "a film and a film", "good"};
  const auto cut = Split(rows, {.seq = 5});
  REQUIRE(cut.ok());
  CHECK(cut->cut == 1);
  CHECK(cut->dropped == 0);
  CHECK(cut->texts[1].tokens.size() == 5);
  const auto dropped = Split(rows, {.seq = 5, .drops = true});
  REQUIRE(dropped.ok());
  CHECK(dropped->cut == 0);
  CHECK(dropped->dropped == 1);
  CHECK(dropped->train == Numbers{0});
  CHECK(dropped->held_out == Numbers{2});
}

TEST_CASE("what a model cannot read is refused with its line") {
  const auto error_of = [](const std::vector<std::string>& rows,
                           const LabeledSplitOptions& options) {
    const auto split = Split(rows, options);
    REQUIRE(!split.ok());
    return split.error().message;
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(
      contains(error_of({"so", "so"}, {.seq = 1}),
               "seq 1 has no place for the 2 tokens that the tokenizer adds"));
  CHECK(contains(error_of({"so", "a pair"}, {.seq = 9, .types = 1}),
                 "tokens of type 1, and the model has 1 token types"));
  CHECK(contains(error_of({"so", "a film and"}, {.seq = 4, .drops = true}),
                 "has 2 texts, of which 1 fit sequences of 4 tokens"));
}

}  // namespace
}  // namespace stowage
