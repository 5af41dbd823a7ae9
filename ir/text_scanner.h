#ifndef STOWAGE_IR_TEXT_SCANNER_H_
#define STOWAGE_IR_TEXT_SCANNER_H_

// The tokens of a graph's text form (ir/text.h), written and read: names, numbers, bytes. The
// scanner reads back the output of the functions here unchanged.
//
// A scanner makes one pass over a text. Before each token it skips blanks but not line ends.
// Its errors carry line and column.
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

/// `text` in quotes, with the escapes \" \\ \n \x1f: UTF-8 whatever `text` is.
std::string QuotedText(std::string_view text);

/// `name`, quoted unless its end is unambiguous.
std::string NameText(std::string_view name);

/// The shortest form that reads back equal; never in the form of an integer.
std::string FloatText(double value);

/// 0x and two hexadecimal digits for each byte.
std::string BytesText(std::string_view bytes);

class TextScanner {
 public:
  /// The characters of `text` must outlive this.
  explicit TextScanner(std::string_view text) : text_(text) {}

  struct Name {
    std::string text;
    bool quoted = false;
    size_t pos = 0;  // of its first character
  };

  /// The next character, '\0' at the end of the text; its position.
  char Peek();
  size_t pos();
  bool AtEnd() { return pos() == text_.size(); }
  /// Whether the next character begins a plain name.
  bool AtLetter();

  /// Takes the next character if it is `c`.
  bool Accept(char c);
  Status Expect(char c);
  /// Takes `word` if it comes next, without skipping blanks.
  bool AcceptHere(std::string_view word);
  /// Takes the end of the line and the blank lines behind it.
  Status ExpectLineEnd();
  void SkipBlankLines();

  /// A name, plain or quoted; the error says that `what` was expected.
  Result<Name> ReadName(std::string_view what);
  Result<std::string> ReadQuoted();
  Result<int64_t> ReadInt();
  Result<double> ReadFloat();
  /// Bytes in the form of BytesText, after "0x".
  Result<std::string> ReadBytes();
  /// The characters that could be part of a number or word; PeekNumber does not take them.
  std::string_view PeekNumber();
  std::string_view TakeNumber();

  /// `[ir] line 7, column 12: ` and `message`; columns in bytes, both from 1.
  Error Fail(size_t pos, std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;
  /// An error: `what` was expected here, and the character that was found.
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
