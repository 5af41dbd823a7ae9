#include "data/digits_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/strings.h"

namespace stowage {
namespace {

bool Mentions(const Error& error, std::string_view text) {
  return error.message.find(text) != std::string::npos;
}

/// A well-formed row: 64 times `level`, then `digit`.
std::string Row(int level, int digit) {
  std::string row;
  for (int i = 0; i < 64; ++i) row += StrCat(level, ",");
  return row + StrCat(digit);
}

/// `count` rows; row i has the level i % 17 and the digit i % 10.
std::string Rows(int count) {
  std::string csv;
  for (int i = 0; i < count; ++i) csv += Row(i % 17, i % 10) + "\n";
  return csv;
}

Error Refuse(const std::string& csv) {
  const auto data = DigitsData::FromCsv(csv, "d.csv", 1);
  REQUIRE_FALSE(data.ok());
  CHECK(data.error().code == ErrorCode::kInvalidArgument);
  return data.error();
}

TEST_CASE("levels become fractions and a fifth of the rows is held out") {
  const auto data = DigitsData::FromCsv(Rows(17), "d.csv", 1);
  REQUIRE(data.ok());
  CHECK(data->held_out.size() == 3);
  CHECK(data->train.size() == 14);
  // Each level occurs once, so the first pixels of all rows are 0/16 .. 16/16.
  std::vector<float> levels;
  for (const DigitSet* set : {&data->train, &data->held_out}) {
    for (int64_t i = 0; i < set->size(); ++i) {
      const float* row = &set->x[static_cast<size_t>(i * 64)];
      CHECK(std::all_of(row, row + 64, [&](float v) { return v == *row; }));
      const int level = static_cast<int>(*row * 16);
      CHECK(set->y[static_cast<size_t>(i)] == level % 10);
      levels.push_back(*row);
    }
  }
  std::sort(levels.begin(), levels.end());
  for (size_t i = 0; i < 17; ++i) {
    CHECK(levels[i] == static_cast<float>(i) / 16);
  }
}

TEST_CASE("the seed alone decides the split") {
  const auto split = [](uint64_t seed) {
    const auto data = DigitsData::FromCsv(Rows(17), "d.csv", seed);
    REQUIRE(data.ok());
    return data->held_out.x;
  };
  CHECK(split(1) == split(1));
  CHECK((split(1) != split(2) || split(1) != split(3)));
}

TEST_CASE("the digits that come with the project load whole") {
  const auto data = DigitsData::Load("examples/data/digits.csv", 1);
  REQUIRE(data.ok());
  CHECK(data->held_out.size() == 359);
  CHECK(data->train.size() == 1438);
  // Counts of each digit as published with the data set's test part.
  const std::array<int, 10> published = {178, 182, 177, 183, 181,
                                         182, 181, 179, 174, 180};
  std::array<int, 10> counts = {};
  for (const DigitSet* set : {&data->train, &data->held_out}) {
    for (const int32_t digit : set->y) ++counts[static_cast<size_t>(digit)];
    CHECK(*std::max_element(set->x.begin(), set->x.end()) == 1.0f);
    CHECK(*std::min_element(set->x.begin(), set->x.end()) == 0.0f);
  }
  CHECK(counts == published);
}

TEST_CASE(
    "rows may begin with a byte order mark, end in CR LF, and the last without "
    "a line end") {
  const std::string row = Row(3, 4);
  const auto data =
      DigitsData::FromCsv("\xEF\xBB\xBF" + row + "\r\n" + row + "\r\n" + row +
                              "\n" + row + "\n" + row,
                          "d.csv", 1);
  REQUIRE(data.ok());
  CHECK(data->train.size() + data->held_out.size() == 5);
}

TEST_CASE("a malformed row is refused with line and column") {
  const std::string good = Rows(6);
  const auto with = [&](const std::string& row) { return good + row + "\n"; };

  const Error word = Refuse(with("1,two," + Row(0, 0)));
  CHECK(Mentions(word, "[data] \"d.csv\", line 7, column 3"));
  CHECK(Mentions(word, "\"two\" is not an integer from 0 to 16"));

  const Error level = Refuse(with("0,17," + Row(0, 0)));
  CHECK(Mentions(level, "line 7, column 3: \"17\""));
  CHECK(Mentions(Refuse(with("-1," + Row(0, 0))), "column 1: \"-1\""));
  CHECK(Mentions(Refuse(with("1.5," + Row(0, 0))), "\"1.5\" is not"));
  CHECK(Mentions(Refuse(with("0,,0" + Row(0, 0))), "column 3: \"\" is not"));
  CHECK(Mentions(Refuse(with("0, 1," + Row(0, 0))), "\" 1\" is not"));

  // The digit of Row stands in column 129, after 64 fields of two characters.
  const Error digit = Refuse(with(Row(0, 10)));
  CHECK(Mentions(digit, "line 7, column 129: \"10\""));
  CHECK(Mentions(digit, "0 to 9"));

  CHECK(Mentions(Refuse(with("1,2,3")), "the row ends after 3 fields"));
  const Error longer = Refuse(with(Row(0, 1) + ",5"));
  CHECK(Mentions(longer, "column 130: the row goes on after 65 fields"));
  CHECK(Mentions(Refuse(good + "\n" + good), "line 7, column 1: \"\""));
}

TEST_CASE("too few rows, or none, are refused") {
  CHECK(Mentions(Refuse(""), "has 0 rows"));
  CHECK(Mentions(Refuse(Rows(4)), "has 4 rows"));
  CHECK(DigitsData::FromCsv(Rows(5), "d.csv", 1).ok());
  const auto missing = DigitsData::Load("no/such.csv", 1);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kNotFound);
}

TEST_CASE("batches are drawn by seed and step, rows and digits together") {
  const auto data = DigitsData::FromCsv(Rows(100), "d.csv", 1);
  REQUIRE(data.ok());
  const DigitSet& train = data->train;
  std::vector<float> x(16 * 64);
  std::vector<int32_t> y(16);
  const auto sample = [&](uint64_t seed, uint64_t step) {
    SampleDigits(train, 16, seed, step, x, y);
    for (size_t i = 0; i < 16; ++i) {
      bool found = false;
      for (size_t row = 0; row < train.y.size() && !found; ++row) {
        found =
            train.y[row] == y[i] &&
            std::equal(&train.x[row * 64], &train.x[row * 64] + 64, &x[i * 64]);
      }
      CHECK(found);
    }
    return x;
  };
  const auto first = sample(3, 1);
  CHECK(sample(3, 1) == first);
  CHECK(sample(3, 2) != first);
  CHECK(sample(4, 1) != first);
}

TEST_CASE("reading in order starts again past the end") {
  const auto data = DigitsData::FromCsv(Rows(25), "d.csv", 1);
  REQUIRE(data.ok());
  const DigitSet& set = data->held_out;  // five rows
  std::vector<float> x(3 * 64);
  std::vector<int32_t> y(3);
  ReadDigits(set, 3, 3, x, y);
  CHECK(y == std::vector<int32_t>{set.y[3], set.y[4], set.y[0]});
  CHECK(x[0] == set.x[3 * 64]);
  CHECK(x[2 * 64] == set.x[0]);
}

}  // namespace
}  // namespace stowage
