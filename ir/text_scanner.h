#ifndef STOWAGE_IR_TEXT_SCANNER_H_
#define STOWAGE_IR_TEXT_SCANNER_H_

// Writes and reads the tokens of a graph's text form (ir/text.h): names, numbers and bytes. The
// functions QuotedText to BytesText write tokens, and TextScanner reads them without loss.
//
// A scanner makes one pass over a string. It skips blanks before each token, but not line ends.
// Error messages state the line and the column.
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

/// Returns `text` in quotes, with the escapes \" \\ \n and \x with two hexadecimal digits. The
/// result is valid UTF-8, even if `text` is not.
std::string QuotedText(std::string_view text);

/// Returns `name`, in quotes if it is not a plain name (ir/text.h) or if it is "output", which
/// begins an output line.
std::string NameText(std::string_view name);

/// Returns the shortest decimal form that parses to the same value, or inf, -inf, nan or -nan. It
/// never has the form of an integer.
std::string FloatText(double value);

/// Returns "0x" and two hexadecimal digits for each byte.
std::string BytesText(std::string_view bytes);

class TextScanner {
 public:
  /// Creates a scanner at the start of `text`, whose characters must outlive this object.
  explicit TextScanner(std::string_view text) : text_(text) {}

  struct Name {
    std::string text;
    bool quoted = false;
    size_t pos = 0;  // the offset of the first character or of the quote
  };

  /// Skips blanks and returns the next character without consuming it. At the end of the text,
  /// returns '\0'.
  char Peek();
  /// Skips blanks and returns the offset of the next character.
  size_t pos();
  bool AtEnd() { return pos() == text_.size(); }
  /// Returns whether the next character is a letter or an underscore, which begins a plain name.
  bool AtLetter();

  /// If the next character is `c`, consumes it and returns true. Otherwise returns false.
  bool Accept(char c);
  /// Consumes the next character, or returns an error if it is not `c`.
  Status Expect(char c);
  /// If the remaining text begins with `word`, consumes `word` and returns true. Otherwise returns
  /// false. Does not skip blanks first.
  bool AcceptHere(std::string_view word);
  /// Consumes the end of the line, the blank lines after it, and the blanks at the start of the
  /// next line. The end of the text counts as the end of a line. Returns an error if another
  /// character comes first.
  Status ExpectLineEnd();
  /// Consumes blanks and line ends.
  void SkipBlankLines();

  // The following functions read a token, and return an error if the next characters are not such a
  // token.

  /// Reads a plain or quoted name. The error message states that `what` was expected.
  Result<Name> ReadName(std::string_view what);
  Result<std::string> ReadQuoted();
  Result<int64_t> ReadInt();
  Result<double> ReadFloat();
  /// Reads the output of BytesText. The "0x" must already be consumed.
  Result<std::string> ReadBytes();

  /// Returns the next characters that can belong to a number or word, without consuming them. May
  /// return "".
  std::string_view PeekNumber();
  /// Consumes and returns the characters that PeekNumber would return.
  std::string_view TakeNumber();

  /// Returns an error whose message is `message` after the position of offset `pos`, such as
  /// `[ir] line 7, column 12: `. Lines and columns count from 1, and columns count bytes.
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
