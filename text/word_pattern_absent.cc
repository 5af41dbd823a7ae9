// WordPattern in a build without PCRE2.

#include "text/word_pattern.h"

namespace stowage::text {

struct WordPattern::Compiled {};
struct WordPattern::Search::State {};

Result<WordPattern> WordPattern::Compile(std::string_view) {
  return Error{
      ErrorCode::kUnsupported,
      "[text] this build has no PCRE2, by which text is cut into words "
      "for tokens; install libpcre2-dev and build again"};
}

WordPattern::Search::Search(const WordPattern&) {}
WordPattern::Search::Search(Search&&) noexcept = default;
WordPattern::Search::~Search() = default;

WordPattern::Found WordPattern::Search::Find(std::string_view, size_t, size_t*,
                                             size_t*) {
  return Found::kNo;
}

}  // namespace stowage::text
