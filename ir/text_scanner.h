#ifndef STOWAGE_IR_TEXT_SCANNER_H_
#define STOWAGE_IR_TEXT_SCANNER_H_

// The words of a graph's text form (ir/text.h), written and read: names, numbers,
// bytes. What a function here writes the scanner reads back as the same.
//
// A scanner stands somewhere in a text and goes over it once. Whatever it reads,
// it first skips blanks, but no ends of lines. Its errors carry line and column.
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

/// `name` as it is where its end can be told, else quoted.
std::string NameText(std::string_view name);

/// Shortest form that reads back equal, never looking like an integer.
std::string FloatText(double value);

/// 0x and two hexadecimal digits for each byte.
std::string BytesText(std::string_view bytes);

class TextScanner {
 public:
  /// What `text` points at must outlive this.
  explicit TextScanner(std::string_view text) : text_(text) {}

  struct Name {
    std::string text;
    bool quoted = false;
    size_t pos = 0;  // of its first character
  };

  /// The next character, '\0' at the end of the text; where it stands.
  char Peek();
  size_t pos();
  bool AtEnd() { return pos() == text_.size(); }
  /// Whether a plain name can follow.
  bool AtLetter();

  /// Takes the next character if it is `c`.
  bool Accept(char c);
  Status Expect(char c);
  /// Takes `word` if it stands right here, blanks not skipped.
  bool AcceptHere(std::string_view word);
  /// Takes the end of the line and the blank lines behind it.
  Status ExpectLineEnd();
  void SkipBlankLines();

  /// A name, plain or quoted; `what` is what the error says was expected.
  Result<Name> ReadName(std::string_view what);
  Result<std::string> ReadQuoted();
  Result<int64_t> ReadInt();
  Result<double> ReadFloat();
  /// Bytes as BytesText writes them, of which "0x" has been taken.
  Result<std::string> ReadBytes();
  /// All that could be part of a number or a word; nothing is taken by Peek.
  std::string_view PeekNumber();
  std::string_view TakeNumber();

  /// `[ir] line 7, column 12: ` and `message`; columns in bytes, both from 1.
  Error Fail(size_t pos, std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;
  /// That `what` was expected here, and what was found.
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
