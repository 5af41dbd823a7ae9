#ifndef STOWAGE_TEXT_LABELED_TEXTS_H_
#define STOWAGE_TEXT_LABELED_TEXTS_H_

// The data that a classifier of texts is trained on: a text, or two that are read together,
// and one label, a name or a number. JSON lines have objects, CSV and TSV files a header:
//
//   {"text": "A fine film.", "label": "good"}
//   {"text": "It rains.", "text_pair": "The street is wet.", "label": 1}
//
//   text,label
//   "Long, and dull.",bad
//
//   Result<LabeledTexts> texts = ReadLabeledTexts(bytes, "films.csv", TableFormat::kCsv);
//   Result<std::vector<std::string>> names = LabelNames(*texts, "films.csv");
//   Result<std::vector<int32_t>> labels = FindLabels(*texts, *names, "films.csv");

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

enum class TableFormat { kJsonLines, kCsv, kTsv };

/// By the end of a file's name: .jsonl, .csv or .tsv, in letters of any case.
std::optional<TableFormat> TableFormatOf(std::string_view path);

struct LabeledText {
  std::string text = {};
  std::optional<std::string> pair = {};
  std::string label = {};  // a name, or a number in decimal
  /// Whether the label can be a number: of JSON, whether it is one.
  bool is_number = false;
  int64_t line = 0;
};

struct LabeledTexts {
  std::vector<LabeledText> rows = {};
  /// Keys or columns that are not read; with how many rows have each.
  std::map<std::string, int64_t> unread_keys = {};
};

/// Reads the rows of `text`, which is in UTF-8; `origin` names it in errors, which name the
/// line. Errors, kInvalidArgument: a line that is no JSON object, DelimitedText's, a row
/// with more or fewer fields than the header, one without "text" or "label", a key twice,
/// an empty label, no rows; "weight" and such, by which other programs train;
/// kUnsupported: a label that is a list, of several labels at once, or a number with a
/// fraction, of a regression.
Result<LabeledTexts> ReadLabeledTexts(std::string_view text,
                                      std::string_view origin,
                                      TableFormat format);

/// The names of the labels that the rows have: sorted, or where all are numbers LABEL_0 up
/// to the largest of them, as transformers calls labels without names. Errors,
/// kInvalidArgument: fewer than 2; numbers of which one below the largest never comes;
/// numbers and names mixed.
Result<std::vector<std::string>> LabelNames(const LabeledTexts& texts,
                                            std::string_view origin);

/// The label of each row by its position in `names`: that of its name, else its number.
/// Error kInvalidArgument, with the line: neither, or a name that comes twice.
Result<std::vector<int32_t>> FindLabels(const LabeledTexts& texts,
                                        const std::vector<std::string>& names,
                                        std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_TEXT_LABELED_TEXTS_H_
