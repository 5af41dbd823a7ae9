#ifndef STOWAGE_TEXT_PRE_TOKENIZER_H_
#define STOWAGE_TEXT_PRE_TOKENIZER_H_

// Cuts text into the words within which tokens are merged: steps, each of which cuts
// the pieces of the one before it.
//
//   STOWAGE_ASSIGN_OR_RETURN(std::vector<PreTokenizerStep> steps,
//                            PreTokenizerSteps("smollm"));
//   STOWAGE_ASSIGN_OR_RETURN(PreTokenizer words, PreTokenizer::Create(steps));
//   STOWAGE_RETURN_IF_ERROR(words.ForEachWord(text, {}, &searches,
//                                             [](std::string_view word) {}));

#include <cstddef>
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

/// How a step cuts, by tokenizer.json's names.
enum class PreTokenizerKind {
  kPattern,      // Split, at what an expression matches
  kLiteral,      // Split, at a text
  kWhiteSpace,   // WhitespaceSplit, at each white space
  kPunctuation,  // Punctuation, at each character of it
  kWords,        // Whitespace, at runs of letters and the like and of all else
  kMetaspace,    // puts a text in place of spaces, and before pieces
};

/// Which pieces a Metaspace puts its text before, unless they begin with it.
enum class MetaspacePrefix {
  kNever,
  kFirst,  // that of the begin of the text
  kAlways,
};

struct PreTokenizerStep {
  // Of kPattern, empty: a space goes before each piece that has none there.
  std::string pattern = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what the pattern does not match counts as matched
  PreTokenizerKind kind = PreTokenizerKind::kPattern;
  MetaspacePrefix prefix = MetaspacePrefix::kAlways;
};

/// The pattern of GPT-2, which tokenizer.json calls ByteLevel.
extern const char* const kGpt2Pattern;

/// The steps that GGUF files name: "gpt-2", "llama-bpe", "qwen2", "smollm", ... Error
/// kUnsupported, with the names that are known, for any other.
Result<std::vector<PreTokenizerStep>> PreTokenizerSteps(std::string_view name);

/// Whether GGUF's tokenizers of that name take a word that is a token without merging, and
/// put a token before each text, if their files do not say it.
constexpr bool IgnoresMerges(std::string_view name) {
  return name == "llama-bpe" || name == "tekken";
}

namespace text {

class PreTokenizer {
 public:
  /// Errors as WordPattern's; kUnsupported for more than 64 steps.
  static Result<PreTokenizer> Create(
      const std::vector<PreTokenizerStep>& steps);

  /// What one thread needs to cut.
  using Searches = std::vector<WordPattern::Search>;
  Searches NewSearches() const;

  // Where a text stands in a whole one.
  struct Place {
    bool is_begin = true;
    bool goes_on =
        false;  // from another text, so that no space is put before it
  };

  /// Calls `take` with each word of `text`, which is well-formed, in order; a word
  /// lies in `text` or lives until `take` returns. Error kInvalidArgument where a
  /// pattern takes too many steps.
  Status ForEachWord(std::string_view text, const Place& place,
                     Searches* searches,
                     const std::function<void(std::string_view)>& take) const;

 private:
  struct Step {
    PreTokenizerStep step;
    size_t search = 0;  // which of the searches
  };
  using Take = std::function<void(std::string_view)>;
  Status Cut(size_t step, std::string_view piece, const Place& place,
             Searches* searches, const Take& take) const;
  Status CutAtMatches(size_t step, std::string_view piece, const Place& place,
                      Searches* searches, const Take& take) const;

  std::vector<Step> steps_;
  std::vector<WordPattern> patterns_;
};

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_PRE_TOKENIZER_H_
