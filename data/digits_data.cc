#include "data/digits_data.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"

namespace stowage {
namespace {

constexpr int kLevels = 16;  // the darkest grey
constexpr int kClasses = 10;

// Appends the row `text` to `set`. Errors begin with "column C: ".
Status AppendRow(std::string_view text, DigitSet* set) {
  size_t column = 0;  // of the field's first character, from 0
  for (int64_t field = 0; field <= kDigitPixels; ++field) {
    const auto fail = [&](std::string_view message) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("column ", column + 1, ": ", message)};
    };
    if (column > text.size()) {
      return fail(StrCat("the row ends after ", field,
                         " fields; expected 64 grey levels and a digit"));
    }
    const size_t end = std::min(text.find(',', column), text.size());
    const std::string_view digits = text.substr(column, end - column);
    const int largest = field < kDigitPixels ? kLevels : kClasses - 1;
    int value = -1;
    const auto parsed =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec != std::errc() ||
        parsed.ptr != digits.data() + digits.size() || value < 0 ||
        value > largest) {
      return fail(StrCat(Quoted(digits.substr(0, 20)),
                         " is not an integer from 0 to ", largest));
    }
    if (field < kDigitPixels) {
      set->x.push_back(static_cast<float>(value) / kLevels);
    } else {
      set->y.push_back(value);
    }
    column = end + 1;
  }
  if (column <= text.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("column ", column,
                        ": the row goes on after 65 fields; expected 64 grey "
                        "levels and a digit")};
  }
  return {};
}

void CopyRow(const DigitSet& from, int64_t row, float* x, int32_t* y) {
  std::copy_n(from.x.begin() + row * kDigitPixels, kDigitPixels, x);
  *y = from.y[static_cast<size_t>(row)];
}

DigitSet Take(const DigitSet& from, std::span<const int64_t> rows) {
  DigitSet set;
  set.x.resize(rows.size() * static_cast<size_t>(kDigitPixels));
  set.y.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    CopyRow(from, rows[i], &set.x[i * static_cast<size_t>(kDigitPixels)],
            &set.y[i]);
  }
  return set;
}

}  // namespace

Result<DigitsData> DigitsData::Load(const std::string& path, uint64_t seed) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return FromCsv(content, path, seed);
}

Result<DigitsData> DigitsData::FromCsv(std::string_view csv,
                                       std::string_view origin, uint64_t seed) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (csv.starts_with(kByteOrderMark)) csv.remove_prefix(kByteOrderMark.size());
  DigitSet all;
  for (int64_t line = 1; !csv.empty(); ++line) {
    const size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view row = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (const Status status = AppendRow(row, &all); !status.ok()) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[data] ", Quoted(origin), ", line ", line, ", ",
                          status.error().message)};
    }
  }
  if (all.size() < 5) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[data] ", Quoted(origin), " has ", all.size(),
                        " rows; at least 5 are needed to hold out a fifth")};
  }
  const std::vector<int64_t> order =
      ShuffledOrder(all.size(), SplitMix64(seed, 0));
  const std::span<const int64_t> shuffled = order;
  const size_t held_out = order.size() / 5;
  return DigitsData{.train = Take(all, shuffled.subspan(held_out)),
                    .held_out = Take(all, shuffled.first(held_out))};
}

void SampleDigits(const DigitSet& set, int64_t batch, uint64_t seed,
                  uint64_t step, std::span<float> x, std::span<int32_t> y) {
  STOWAGE_CHECK(std::ssize(x) == batch * kDigitPixels);
  STOWAGE_CHECK(std::ssize(y) == batch && set.size() > 0);
  SplitMix64 random(seed, step);
  for (int64_t i = 0; i < batch; ++i) {
    CopyRow(set, random.Below(set.size()), x.data() + i * kDigitPixels,
            y.data() + i);
  }
}

void ReadDigits(const DigitSet& set, int64_t batch, int64_t first,
                std::span<float> x, std::span<int32_t> y) {
  STOWAGE_CHECK(std::ssize(x) == batch * kDigitPixels);
  STOWAGE_CHECK(std::ssize(y) == batch && set.size() > 0);
  for (int64_t i = 0; i < batch; ++i) {
    CopyRow(set, (first + i) % set.size(), x.data() + i * kDigitPixels,
            y.data() + i);
  }
}

}  // namespace stowage
