#ifndef STOWAGE_IR_TEXT_SCANNER_H_
#define STOWAGE_IR_TEXT_SCANNER_H_

// Writes and reads the tokens of a graph's text form (ir/text.h): names, numbers and bytes. The
// scanner reads the output of the functions below without loss.
//
// A scanner makes one pass over a string. Before each token it skips blanks, but not line ends. Its
// error messages state the line and the column.
//
//   TextScanner scan("lr = 0.5\n");
//   Result<TextScanner::Name> name = scan.ReadName("a name");  // lr
//   STOWAGE_RETURN_IF_ERROR(scan.Expect('='));
//   Result<double> value = scan.ReadFloat();                   // 0.5

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

/// Returns `text` in quotes, with the escapes \" \\ \n and \x1f. The result is valid UTF-8, even if
/// `text` is not.
std::string QuotedText(std::string_view text);

/// Returns `name`, quoted unless the scanner reads it as a plain name.
std::string NameText(std::string_view name);

/// Returns the shortest decimal form that parses to the same value. It never looks like an integer.
std::string FloatText(double value);

/// Returns "0x" and two hexadecimal digits for each byte.
std::string BytesText(std::string_view bytes);

class TextScanner {
 public:
  /// Scans `text`, whose characters must outlive this object.
  explicit TextScanner(std::string_view text) : text_(text) {}

  struct Name {
    std::string text;
    bool quoted = false;
    size_t pos = 0;  // offset of its first character
  };

  /// Returns the next character, which is '\0' at the end of the text, and its offset.
  char Peek();
  size_t pos();
  bool AtEnd() { return pos() == text_.size(); }
  /// Returns whether the next character begins a plain name.
  bool AtLetter();

  /// Consumes the next character if it is `c`, and returns whether it is. Expect returns an error
  /// if it is not.
  bool Accept(char c);
  Status Expect(char c);
  /// Consumes `word` if the remaining text begins with it, and returns whether it does. Skips no
  /// blanks.
  bool AcceptHere(std::string_view word);
  /// Consumes the end of the line and the blank lines after it.
  Status ExpectLineEnd();
  void SkipBlankLines();

  /// Reads a plain or quoted name. The error message states that `what` was expected.
  Result<Name> ReadName(std::string_view what);
  Result<std::string> ReadQuoted();
  Result<int64_t> ReadInt();
  Result<double> ReadFloat();
  /// Reads the output of BytesText, whose "0x" must already be consumed.
  Result<std::string> ReadBytes();
  /// Returns the next characters that can belong to a number or word. Only TakeNumber consumes
  /// them.
  std::string_view PeekNumber();
  std::string_view TakeNumber();

  /// Returns an error with `[ir] line 7, column 12: ` before `message`. Columns count bytes, and
  /// both numbers count from 1.
  Error Fail(size_t pos, std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;
  /// Returns an error stating that `what` was expected at the current offset, and the character
  /// that was found.
  Error Expected(std::string_view what) const;

 private:
  char Here() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  bool IsOver() const { return pos_ >= text_.size(); }
  void SkipBlanks();

  std::string_view text_;
  size_t pos_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_IR_TEXT_SCANNER_H_
