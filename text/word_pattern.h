#ifndef STOWAGE_TEXT_WORD_PATTERN_H_
#define STOWAGE_TEXT_WORD_PATTERN_H_

// Finds words in UTF-8 text with a regular expression, using PCRE2 and its JIT. In a build without
// PCRE2, Compile returns an error that names the package to install.
//
// Patterns have the syntax and meaning of patterns in tokenizer.json, which are for Oniguruma with
// Ruby's syntax. \s matches characters with Unicode's property White_Space. \p{L} and \p{N} are
// those of Unicode 16, even if PCRE2 supports only Unicode 14. ^ and $ match at line boundaries.
// Compile returns an error for syntax that Oniguruma and PCRE2 interpret differently.
//
//   Result<WordPattern> words = WordPattern::Compile(R"( ?\p{L}+|\s+)");
//   WordPattern::Search search(*words);
//   size_t begin, end;
//   while (search.Find(text, from, &begin, &end) == WordPattern::Found::kYes) ...

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace stowage::text {

class WordPattern {
 public:
  enum class Found {
    kYes,
    kNo,
    kTooHard,  // limit of steps or memory, or an empty match by \K
  };

  /// Compiles a pattern. Returns kInvalidArgument if it is invalid, is longer than 65,535 bytes, or
  /// matches the empty string. Returns kUnsupported for syntax that Oniguruma and PCRE2 interpret
  /// differently, and in a build without PCRE2.
  static Result<WordPattern> Compile(std::string_view pattern);

  struct Compiled;

  /// The scratch memory for searches. Threads must use separate objects. Keeps the compiled pattern
  /// alive.
  class Search {
   public:
    explicit Search(const WordPattern& pattern);
    Search(Search&&) noexcept;
    ~Search();

    /// Finds the leftmost match in `text` that begins at or after the offset `from`. If the result
    /// is kYes, sets *begin and *end to the offsets of the match. All calls of one Search together
    /// take at most a few microseconds for each byte scanned, plus 50 ms. `text` must be
    /// well-formed UTF-8.
    Found Find(std::string_view text, size_t from, size_t* begin, size_t* end);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  explicit WordPattern(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_WORD_PATTERN_H_
