#ifndef STOWAGE_TEXT_PRE_TOKENIZER_H_
#define STOWAGE_TEXT_PRE_TOKENIZER_H_

// Splits text into the words within which tokens are merged: a list of steps, each of which
// splits the pieces of the one before it.
//
//   STOWAGE_ASSIGN_OR_RETURN(std::vector<PreTokenizerStep> steps,
//                            PreTokenizerSteps("smollm"));
//   STOWAGE_ASSIGN_OR_RETURN(PreTokenizer words, PreTokenizer::Create(steps));
//   PreTokenizer::Searches searches = words.NewSearches();
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

/// The treatment of the matches of a step, by tokenizer.json's names.
enum class SplitBehavior {
  kIsolated,            // each is a piece
  kRemoved,             // dropped
  kMergedWithPrevious,  // each ends the piece before it
  kMergedWithNext,      // each begins the piece after it
  kContiguous,          // adjacent matches are one piece
};

/// The kind of a step, by tokenizer.json's names.
enum class PreTokenizerKind {
  kPattern,      // Split at matches of a regular expression
  kLiteral,      // Split at a text
  kWhiteSpace,   // WhitespaceSplit: at each white space character
  kPunctuation,  // Punctuation: at each punctuation character
  kWords,  // Whitespace: at runs of word characters, and of other characters
  kMetaspace,  // replaces spaces by `pattern`, and prepends it to pieces
};

/// The pieces to which a Metaspace prepends its text, unless they begin with it.
enum class MetaspacePrefix {
  kNever,
  kFirst,  // the piece at the beginning of the text
  kAlways,
};

struct PreTokenizerStep {
  // If it is empty with kPattern, a space is prepended to each piece that has none.
  std::string pattern = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the text between matches counts as matched
  PreTokenizerKind kind = PreTokenizerKind::kPattern;
  MetaspacePrefix prefix = MetaspacePrefix::kAlways;
};

/// The pattern of GPT-2, tokenizer.json's ByteLevel.
extern const char* const kGpt2Pattern;

/// The steps of a name in GGUF files: "gpt-2", "llama-bpe", "qwen2", "smollm", ... Error
/// kUnsupported, with the known names, for another one.
Result<std::vector<PreTokenizerStep>> PreTokenizerSteps(std::string_view name);

/// Whether GGUF's tokenizers of that name take a word that is a token without merging, and by
/// default prepend bos to each text.
constexpr bool IgnoresMerges(std::string_view name) {
  return name == "llama-bpe" || name == "tekken";
}

namespace text {

class PreTokenizer {
 public:
  /// Errors: those of WordPattern; kUnsupported for more than 64 steps.
  static Result<PreTokenizer> Create(
      const std::vector<PreTokenizerStep>& steps);

  /// The scratch memory of one thread.
  using Searches = std::vector<WordPattern::Search>;
  Searches NewSearches() const;

  // The position of a text in the whole one.
  struct Place {
    bool is_begin = true;
    bool goes_on = false;  // continues another text: no space is prepended
  };

  /// Calls `take` with each word of `text` in order; the word is valid until `take` returns.
  /// Error kInvalidArgument if a pattern takes too many steps. Precondition: `text` is
  /// well-formed.
  Status ForEachWord(std::string_view text, const Place& place,
                     Searches* searches,
                     const std::function<void(std::string_view)>& take) const;

 private:
  struct Step {
    PreTokenizerStep step;
    size_t search = 0;  // index in Searches
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
