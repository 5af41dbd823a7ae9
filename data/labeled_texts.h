#ifndef STOWAGE_DATA_LABELED_TEXTS_H_
#define STOWAGE_DATA_LABELED_TEXTS_H_

// Reads and tokenizes the data for training text classifiers. Each example is a text or a pair of
// texts with one label, which is a name or a number. A file is JSON lines with one object per line,
// or CSV or TSV with a header:
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

/// Returns the format for the extension .jsonl, .csv or .tsv of `path`, in upper or lower case.
/// Returns nullopt for other extensions.
std::optional<TableFormat> TableFormatOf(std::string_view path);

struct LabeledText {
  std::string text = {};
  std::optional<std::string> pair = {};
  std::string label = {};  // a name, or a number in decimal
  /// Whether the label is a JSON number, or a CSV or TSV field that can be read as a number.
  bool is_number = false;
  int64_t line = 0;
};

struct LabeledTexts {
  std::vector<LabeledText> rows = {};
  /// Each ignored key or column and the number of rows that have it.
  std::map<std::string, int64_t> unread_keys = {};
};

/// Reads the rows of `text`. Errors name `origin` and the line. Returns kInvalidArgument if a line
/// is not a JSON object in UTF-8, a key or column is repeated, a row has another number of fields
/// than the header, "text" or "label" is missing, a label is empty, or there are no rows. Also
/// returns kInvalidArgument for keys that change training in other programs, such as "weight".
/// Returns kUnsupported for a list of labels, and for a real number as label, which is for
/// regression. Propagates errors of DelimitedText.
Result<LabeledTexts> ReadLabeledTexts(std::string_view text,
                                      std::string_view origin,
                                      TableFormat format);

/// Returns the names of all labels, sorted. If all labels are numbers and n is the largest, returns
/// LABEL_0 to LABEL_n, which are the names that transformers gives to unnamed labels. Returns
/// kInvalidArgument if there are fewer than 2 labels, if a number below the largest number does not
/// occur, or if numbers are mixed with names.
Result<std::vector<std::string>> LabelNames(const LabeledTexts& texts,
                                            std::string_view origin);

/// Returns the label of each row as an index into `names`. If a label is not in `names` and is a
/// number, it is the index. Returns kInvalidArgument if two names are equal. Returns
/// kInvalidArgument, with the line, for a label that is neither a name nor a valid index.
Result<std::vector<int32_t>> FindLabels(const LabeledTexts& texts,
                                        const std::vector<std::string>& names,
                                        std::string_view origin);

/// Reads rows of fields separated by commas or tabs, as in RFC 4180. A quoted field may contain
/// delimiters, line breaks and doubled quotes.
///
///   DelimitedText rows("text,label\n\"Good, and short\",1\n", ',');
///   std::vector<std::string> fields;
///   while (*rows.Next(&fields)) Use(fields, rows.line());
class DelimitedText {
 public:
  /// Creates a reader of `text`, which must outlive it. A byte order mark is skipped.
  DelimitedText(std::string_view text, char delimiter);

  /// Reads the next non-empty row into `fields`. Returns false if there is no other row. A quote is
  /// an ordinary character in a field that does not begin with a quote. Returns kInvalidArgument if
  /// a quoted field has no end, or if its closing quote is not followed by a delimiter or a line
  /// break. The message has no prefix such as "[examples]".
  Result<bool> Next(std::vector<std::string>* fields);

  /// Returns the line on which the last row that was read begins, counted from 1.
  int64_t line() const { return row_line_; }

 private:
  Status ReadQuoted(std::string* field);

  std::string_view rest_;
  const char delimiter_;
  int64_t line_ = 1, row_line_ = 0;
};

/// Tokenized texts with their labels, split into a training and a validation set.
struct LabeledSplit {
  int64_t seq = 0;  // maximum tokens of a text
  std::vector<JoinedTexts> texts = {};
  std::vector<int32_t> labels = {};               // of each text
  std::vector<size_t> train = {}, held_out = {};  // indices of texts
  int64_t cut = 0,
          dropped = 0;        // numbers of truncated and of dropped texts
  int64_t without_token = 0;  // sum of EncodeOptions::without_token
};

struct LabeledSplitOptions {
  int64_t seq = 0;
  bool drops = false;  // texts that are too long are dropped, not truncated
  int64_t types = 0;   // token types of the model, 0 without such an input
};

/// Encodes the texts with the special tokens of `joins`, and splits the rows that are not dropped.
/// Every tenth text is in the validation set, or the last text if there are fewer than ten. In a
/// file sorted by label, each label with at least ten texts is therefore in both sets. `labels`
/// must be the result of FindLabels for `texts`. Returns kInvalidArgument, naming `origin`, if a
/// text has no tokens, the model does not support a token type, `seq` is too small for the special
/// tokens, or fewer than 2 texts remain. Propagates errors of Tokenizer::Encode.
Result<LabeledSplit> SplitLabeledTexts(const LabeledTexts& texts,
                                       std::vector<int32_t> labels,
                                       const Tokenizer& tokenizer,
                                       const TextTemplate& joins,
                                       const LabeledSplitOptions& options,
                                       std::string_view origin);

/// Returns the number of tokens of each text in `part`, a list of text indices.
std::vector<int64_t> TextLengths(const LabeledSplit& split,
                                 const std::vector<size_t>& part);

}  // namespace stowage

#endif  // STOWAGE_DATA_LABELED_TEXTS_H_
