#ifndef STOWAGE_TEXT_DELIMITED_TEXT_H_
#define STOWAGE_TEXT_DELIMITED_TEXT_H_

// Rows of fields between commas or tabs, as RFC 4180 has them: a field in double quotes may
// hold delimiters, ends of lines and doubled quotes.
//
//   DelimitedText rows("text,label\n\"Good, and short\",1\n", ',');
//   std::vector<std::string> fields;
//   while (*rows.Next(&fields)) Use(fields, rows.line());

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

class DelimitedText {
 public:
  /// `text` must outlive this; a byte order mark before it is passed over.
  DelimitedText(std::string_view text, char delimiter);

  /// Reads the next row that is not empty; false where there is none. A quote within a
  /// field that does not begin with one is a character like any other. Errors,
  /// kInvalidArgument, without a tag: a quoted field without an end, or with anything but
  /// a delimiter or the end of the line behind it.
  Result<bool> Next(std::vector<std::string>* fields);

  /// The line on which the last row begins, counted from 1.
  int64_t line() const { return row_line_; }

 private:
  Status ReadQuoted(std::string* field);

  std::string_view rest_;
  const char delimiter_;
  int64_t line_ = 1, row_line_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_DELIMITED_TEXT_H_
