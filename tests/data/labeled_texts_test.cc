#include "data/labeled_texts.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace stowage {
namespace {

using Fields = std::vector<std::string>;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

LabeledTexts Read(std::string_view text, TableFormat format) {
  auto texts = ReadLabeledTexts(text, "rows", format);
  REQUIRE_MESSAGE(texts.ok(), texts.error().message);
  return *std::move(texts);
}

Error ErrorOf(std::string_view text,
              TableFormat format = TableFormat::kJsonLines) {
  const auto texts = ReadLabeledTexts(text, "rows", format);
  REQUIRE(!texts.ok());
  return texts.error();
}

TEST_CASE("rows of one content are the same as JSON lines, CSV and TSV") {
  const LabeledTexts rows[] = {
      Read("{\"text\": \"Good, \\\"very\\\"\\nso\", \"text_pair\": \"b\", "
           "\"label\": \"x\"}\n\n{\"label\": 3, \"text\": \"c\", "
           "\"text_pair\": \"\"}\n",
           TableFormat::kJsonLines),
      Read("\xEF\xBB\xBFlabel,text_pair,text\r\nx,b,\"Good, "
           "\"\"very\"\"\nso\"\r\n\r\n3,,c",
           TableFormat::kCsv),
      Read("text\ttext_pair\tlabel\n\"Good, \"\"very\"\"\nso\"\tb\tx\n"
           "c\t\t3\n",
           TableFormat::kTsv)};
  for (const LabeledTexts& texts : rows) {
    REQUIRE(texts.rows.size() == 2);
    CHECK(texts.rows[0].text == "Good, \"very\"\nso");
    CHECK(texts.rows[0].pair == "b");
    CHECK(texts.rows[0].label == "x");
    CHECK_FALSE(texts.rows[0].is_number);
    CHECK(texts.rows[1].text == "c");
    CHECK(texts.rows[1].pair == "");
    CHECK(texts.rows[1].label == "3");
    CHECK(texts.rows[1].is_number);
  }
  CHECK(rows[0].rows[1].line == 3);
  CHECK(rows[1].rows[1].line == 5);
  CHECK(rows[2].rows[1].line == 4);
}

TEST_CASE("a row without a second text has none") {
  const LabeledTexts texts = Read(
      "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"b\", \"label\": 1, "
      "\"text_pair\": null, \"id\": 7}\n",
      TableFormat::kJsonLines);
  CHECK_FALSE(texts.rows[0].pair);
  CHECK_FALSE(texts.rows[1].pair);
  // What is not read is counted.
  CHECK(texts.unread_keys == std::map<std::string, int64_t>{{"id", 1}});
  CHECK(Read("text,id,label\na,1,0\nb,2,1\n", TableFormat::kCsv).unread_keys ==
        std::map<std::string, int64_t>{{"id", 2}});
}

TEST_CASE("a quote within a field that begins otherwise is a character") {
  DelimitedText rows("5\" of rain,b\n", ',');
  Fields fields;
  REQUIRE(*rows.Next(&fields));
  CHECK(fields == Fields{"5\" of rain", "b"});
  CHECK_FALSE(*rows.Next(&fields));
}

TEST_CASE("labels are named by the data, or numbered") {
  const auto names_of = [](std::string_view labels) {
    std::string rows = "text,label\n";
    for (const char label : labels) rows += StrCat("t,", label, "\n");
    return LabelNames(Read(rows, TableFormat::kCsv), "rows");
  };
  CHECK(*names_of("bcab") == Fields{"a", "b", "c"});
  CHECK(*names_of("2011") == Fields{"LABEL_0", "LABEL_1", "LABEL_2"});
  CHECK(Contains(names_of("aa").error().message,
                 "has one label alone, \"a\"; expected at least 2"));
  CHECK(Contains(names_of("023").error().message,
                 "has labels up to 3, and never 1"));
  CHECK(Contains(names_of("a0").error().message,
                 "has the label \"a\" on line 2 and the number 0 on line 3"));
}

TEST_CASE("a label is found by its name first, then by its number") {
  const LabeledTexts texts =
      Read("text,label\nt,bad\nt,0\nt,1\n", TableFormat::kCsv);
  CHECK(*FindLabels(texts, {"good", "bad"}, "rows") ==
        std::vector<int32_t>{1, 0, 1});
  CHECK(*FindLabels(texts, {"1", "bad", "0"}, "rows") ==
        std::vector<int32_t>{1, 2, 0});
  const auto error_of = [&](const Fields& names) {
    const auto labels = FindLabels(texts, names, "rows");
    REQUIRE(!labels.ok());
    return labels.error().message;
  };
  CHECK(Contains(error_of({"bad"}),
                 "line 4 has the label \"1\"; expected one of 1"));
  CHECK(Contains(error_of({"good", "fair"}), "line 2 has the label \"bad\""));
  CHECK(Contains(error_of({"bad", "bad"}), "two labels of the model are"));
  // A text that spells a number is a name.
  const LabeledTexts text =
      Read("{\"text\": \"t\", \"label\": \"1\"}", TableFormat::kJsonLines);
  CHECK(!FindLabels(text, {"good", "bad"}, "rows").ok());
}

TEST_CASE("what is no single label, and what is no row, is refused by name") {
  const auto of_label = [](std::string_view label) {
    return ErrorOf(StrCat("{\"text\": \"t\", \"label\": ", label, "}"));
  };
  CHECK(of_label("[0, 1]").code == ErrorCode::kUnsupported);
  CHECK(Contains(of_label("[0, 1]").message, "several labels at once"));
  CHECK(of_label("0.5").code == ErrorCode::kUnsupported);
  CHECK(Contains(of_label("0.5").message,
                 "\"rows\", line 1 has a \"label\" of 0.5, which a regression "
                 "has"));
  CHECK(Contains(of_label("-1").message, "has a \"label\" of -1"));
  CHECK(Contains(of_label("true").message, "has a \"label\" of true"));
  CHECK(Contains(of_label("\"\"").message, "has an empty label"));
  CHECK(Contains(of_label("null").message, "has no \"label\""));
  CHECK(Contains(ErrorOf("\n[1]\n").message, "line 2 is no JSON object"));
  CHECK(Contains(ErrorOf("{\"text\": 5, \"label\": 0}").message,
                 "a \"text\" that is no text"));
  CHECK(Contains(ErrorOf("{\"text\": \"\", \"text\": \"\"}").message,
                 "has the key \"text\" twice"));
  CHECK(Contains(
      ErrorOf("{\"text\": \"a\", \"label\": 0, \"weight\": 2}").message,
      "has \"weight\", which would change what is learnt"));
  CHECK(Contains(ErrorOf(" \n").message, "\"rows\" has no examples"));

  const auto of_csv = [](std::string_view text) {
    return ErrorOf(text, TableFormat::kCsv).message;
  };
  CHECK(Contains(of_csv("sentence,label\na,1\n"),
                 "line 1 has no column \"text\""));
  CHECK(Contains(of_csv("text,label,text\n"), "the column \"text\" twice"));
  CHECK(Contains(of_csv("text,label\na,1,2\n"),
                 "line 2 has 3 fields; the header has 2"));
  CHECK(Contains(of_csv("text,label\n\"a\nb,1\n"),
                 "has a quoted field that begins on line 2 and has no end"));
  CHECK(Contains(of_csv("text,label\n\"a\"b,1\n"),
                 "characters behind the quote that ends field 1 on line 2"));
  CHECK(Contains(of_csv("text,label\n"), "has no examples"));
}

TEST_CASE("a file's name says what it holds") {
  CHECK(TableFormatOf("a/b.JSONL") == TableFormat::kJsonLines);
  CHECK(TableFormatOf("b.csv") == TableFormat::kCsv);
  CHECK(TableFormatOf("b.tsv") == TableFormat::kTsv);
  CHECK_FALSE(TableFormatOf("csv.txt"));
}

}  // namespace
}  // namespace stowage
