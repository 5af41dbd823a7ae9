#ifndef STOWAGE_DATA_LABELED_TEXTS_H_
#define STOWAGE_DATA_LABELED_TEXTS_H_

// The data for training a classifier of texts: a text, or a pair of texts, and one label, a
// name or a number. JSON lines have objects, CSV and TSV files a header:
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
//   Result<LabeledSplit> split = SplitLabeledTexts(*texts, *labels, tokenizer, joins,
//                                                  {.seq = 128}, "films.csv");

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_template.h"
#include "text/tokenizer.h"

namespace stowage {

enum class TableFormat { kJsonLines, kCsv, kTsv };

/// The format by a file's extension: .jsonl, .csv or .tsv, in any case.
std::optional<TableFormat> TableFormatOf(std::string_view path);

struct LabeledText {
  std::string text = {};
  std::optional<std::string> pair = {};
  std::string label = {};  // a name, or a number in decimal
  /// Whether the label may be a number; in JSON, whether it is one.
  bool is_number = false;
  int64_t line = 0;
};

struct LabeledTexts {
  std::vector<LabeledText> rows = {};
  /// Keys or columns that are ignored, with the number of rows that have each.
  std::map<std::string, int64_t> unread_keys = {};
};

/// Reads the rows of `text`, which is UTF-8; `origin` names it in errors, which state the line.
/// Errors: kInvalidArgument for a line that is not a JSON object, DelimitedText's errors, a row
/// with more or fewer fields than the header, a missing "text" or "label", a duplicate key, an
/// empty label, no rows, and keys such as "weight" that change training elsewhere;
/// kUnsupported for a list of labels, and a label with a fraction, of a regression.
Result<LabeledTexts> ReadLabeledTexts(std::string_view text,
                                      std::string_view origin,
                                      TableFormat format);

/// The sorted names of all labels; if all are numbers, LABEL_0 up to the largest, transformers'
/// names of unnamed labels. Errors kInvalidArgument: fewer than 2 labels; a number below the
/// largest that no row has; numbers mixed with names.
Result<std::vector<std::string>> LabelNames(const LabeledTexts& texts,
                                            std::string_view origin);

/// The label of each row as an index into `names`: that of its name, else its number. Error
/// kInvalidArgument, with the line: neither is valid, or a name is ambiguous.
Result<std::vector<int32_t>> FindLabels(const LabeledTexts& texts,
                                        const std::vector<std::string>& names,
                                        std::string_view origin);

/// Reads rows of fields separated by commas or tabs, as in RFC 4180: a quoted field may contain
/// delimiters, line ends and doubled quotes.
///
///   DelimitedText rows("text,label\n\"Good, and short\",1\n", ',');
///   std::vector<std::string> fields;
///   while (*rows.Next(&fields)) Use(fields, rows.line());
class DelimitedText {
 public:
  /// `text` must outlive this; a byte order mark is skipped.
  DelimitedText(std::string_view text, char delimiter);

  /// Reads the next row that is not empty; false if there is none. A quote within a field that
  /// does not begin with one is an ordinary character. Errors kInvalidArgument, without a tag:
  /// a quoted field that does not end, or is followed by other than a delimiter or line end.
  Result<bool> Next(std::vector<std::string>* fields);

  /// The line on which the last row begins, counted from 1.
  int64_t line() const { return row_line_; }

 private:
  Status ReadQuoted(std::string* field);

  std::string_view rest_;
  const char delimiter_;
  int64_t line_ = 1, row_line_ = 0;
};

/// The tokens and labels of texts, split into a training and a validation set.
struct LabeledSplit {
  int64_t seq = 0;  // maximum tokens of a text
  std::vector<JoinedTexts> texts = {};
  std::vector<int32_t> labels = {};               // by text
  std::vector<size_t> train = {}, held_out = {};  // indices of texts
  int64_t cut = 0,
          dropped = 0;        // numbers of longer texts, truncated or dropped
  int64_t without_token = 0;  // sum of EncodeOptions::without_token
};

struct LabeledSplitOptions {
  int64_t seq = 0;
  bool drops = false;  // longer texts are dropped, else truncated
  int64_t types = 0;   // token types of the model; 0: it has no such input
};

/// Encodes the texts, and makes every tenth, at least one, the validation set, so that a file
/// sorted by label has all labels in both sets. `labels` are those of FindLabels. Errors
/// kInvalidArgument, with `origin`: a text without tokens; a token type that the model lacks; a
/// seq too small for the special tokens; fewer than 2 texts.
Result<LabeledSplit> SplitLabeledTexts(const LabeledTexts& texts,
                                       std::vector<int32_t> labels,
                                       const Tokenizer& tokenizer,
                                       const TextTemplate& joins,
                                       const LabeledSplitOptions& options,
                                       std::string_view origin);

/// The number of tokens of each text of a set.
std::vector<int64_t> TextLengths(const LabeledSplit& split,
                                 const std::vector<size_t>& part);

}  // namespace stowage

#endif  // STOWAGE_DATA_LABELED_TEXTS_H_
