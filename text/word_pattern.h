#ifndef STOWAGE_TEXT_WORD_PATTERN_H_
#define STOWAGE_TEXT_WORD_PATTERN_H_

// A regular expression that finds words in UTF-8, by PCRE2 and its JIT. In a build without
// PCRE2, Compile returns an error that names the package.
//
// Patterns are those of tokenizer.json, written for Oniguruma with Ruby's syntax, and keep
// that meaning: \s is Unicode's White_Space, \p{L} and \p{N} are those of Unicode 16 even if
// PCRE2 is of 14, ^ and $ match at lines. Syntax on which the two differ is an error.
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
    kTooHard,  // matching exceeds the limit of steps or memory
  };

  /// Errors: kInvalidArgument for a pattern that is invalid, longer than 65,535 bytes, or
  /// matches the empty string; kUnsupported for syntax on which Oniguruma and PCRE2 differ,
  /// and without PCRE2.
  static Result<WordPattern> Compile(std::string_view pattern);

  struct Compiled;

  /// The scratch memory of one thread.
  class Search {
   public:
    explicit Search(const WordPattern& pattern);
    Search(Search&&) noexcept;
    ~Search();

    /// The leftmost match in `text` at or after `from`. The time of all calls of one Search is
    /// linear in the bytes scanned: at most a few microseconds each, plus 50 ms.
    /// Precondition: `text` is well-formed.
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
