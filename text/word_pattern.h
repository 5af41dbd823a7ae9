#ifndef STOWAGE_TEXT_WORD_PATTERN_H_
#define STOWAGE_TEXT_WORD_PATTERN_H_

// A regular expression that finds words in UTF-8, by PCRE2 and its JIT. In a build
// without PCRE2 Compile returns an error that names the package.
//
// Patterns are those of tokenizer.json, which are written for Oniguruma in the way of
// Ruby. They mean here what they mean there: \s is Unicode's White_Space, \p{L} and
// \p{N} are those of Unicode 16 even where PCRE2 is of 14, ^ and $ are about lines; and
// what the two would take in different ways is an error.
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
    kTooHard,  // matching takes more steps or memory than a text is allowed
  };

  /// Errors: kInvalidArgument for what is no pattern, is longer than 65,535 bytes or
  /// matches the empty string; kUnsupported for what Oniguruma and PCRE2 take in
  /// different ways, and without PCRE2.
  static Result<WordPattern> Compile(std::string_view pattern);

  struct Compiled;

  /// What one thread needs to search.
  class Search {
   public:
    explicit Search(const WordPattern& pattern);
    Search(Search&&) noexcept;
    ~Search();

    /// The leftmost match in `text`, which is well-formed, at or after `from`. All that
    /// one Search finds takes time linear in the bytes that it goes through: at most a
    /// few microseconds at each, and a twentieth of a second beside.
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
