#ifndef STOWAGE_TEXT_PRE_TOKENIZER_H_
#define STOWAGE_TEXT_PRE_TOKENIZER_H_

// Cuts text into the words within which tokens are merged: steps, each of which cuts
// the pieces of the one before it.
//
//   STOWAGE_ASSIGN_OR_RETURN(std::vector<PreTokenizerStep> steps,
//                            PreTokenizerSteps("smollm"));
//   STOWAGE_ASSIGN_OR_RETURN(PreTokenizer words, PreTokenizer::Create(steps));
//   STOWAGE_RETURN_IF_ERROR(words.ForEachWord(text, [](std::string_view word) {}));

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/word_pattern.h"

namespace stowage {

/// What becomes of the parts of a piece that a pattern matches.
enum class SplitBehavior {
  kIsolated,            // each is a piece of its own
  kRemoved,             // they are left out
  kMergedWithPrevious,  // each ends the piece before it
  kMergedWithNext,      // each begins the piece after it
  kContiguous,          // neighbours are one piece
};

struct PreTokenizerStep {
  std::string
      pattern;  // empty: a space goes before each piece that has none there
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what the pattern does not match counts as matched
};

/// The pattern of GPT-2, which tokenizer.json calls ByteLevel.
extern const char* const kGpt2Pattern;

/// The steps that GGUF files name: "gpt-2", "llama-bpe", "qwen2" or "smollm". Error
/// kUnsupported, with the names that are known, for any other.
Result<std::vector<PreTokenizerStep>> PreTokenizerSteps(std::string_view name);

namespace text {

class PreTokenizer {
 public:
  /// Errors as WordPattern's; kUnsupported for more than 64 steps.
  static Result<PreTokenizer> Create(
      const std::vector<PreTokenizerStep>& steps);

  /// What one thread needs to cut.
  using Searches = std::vector<WordPattern::Search>;
  Searches NewSearches() const;

  /// Calls `take` with each word of `text`, which is well-formed, in order; a word
  /// lies in `text` or lives until `take` returns. Error kInvalidArgument where a
  /// pattern takes too many steps.
  Status ForEachWord(std::string_view text, Searches* searches,
                     const std::function<void(std::string_view)>& take) const;

 private:
  struct Step {
    SplitBehavior behavior;
    bool invert;
    std::string source;
    int search;  // which of the searches; -1: the step adds a space
  };
  Status Cut(size_t step, std::string_view piece, Searches* searches,
             const std::function<void(std::string_view)>& take) const;

  std::vector<Step> steps_;
  std::vector<WordPattern> patterns_;
};

}  // namespace text
}  // namespace stowage

#endif  // STOWAGE_TEXT_PRE_TOKENIZER_H_
