#ifndef STOWAGE_TEXT_PRE_TOKENIZER_H_
#define STOWAGE_TEXT_PRE_TOKENIZER_H_

// Splits text into words with a list of steps. Each step splits the segments that the previous step
// returned. A tokenizer encodes each word separately, so no token crosses a word boundary.
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

/// The treatment of the text that matches a step, named as in tokenizer.json.
enum class SplitBehavior {
  kIsolated,            // each match is a segment
  kRemoved,             // matches are dropped
  kMergedWithPrevious,  // each match ends the segment before it
  kMergedWithNext,      // each match begins the segment after it
  kContiguous,          // adjacent matches form one segment
};

/// The kind of a step, named as in tokenizer.json.
enum class PreTokenizerKind {
  kPattern,      // Split at matches of a regular expression
  kLiteral,      // Split at a fixed string
  kWhiteSpace,   // WhitespaceSplit: at each white space character
  kPunctuation,  // Punctuation: at each punctuation character
  kWords,  // Whitespace: at runs of word characters, and of other characters
  kMetaspace,  // replaces spaces with `pattern`; see MetaspacePrefix
};

/// The segments to which a kMetaspace step prepends its pattern. A segment that begins with the
/// pattern is unchanged.
enum class MetaspacePrefix {
  kNever,
  kFirst,  // the segment at the beginning of the text
  kAlways,
};

struct PreTokenizerStep {
  // The regular expression of kPattern, or the string of kLiteral and kMetaspace. If the pattern of
  // kPattern is empty, the step does not split, but prepends a space to each segment that does not
  // begin with a space.
  std::string pattern = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the text between matches takes the role of matches
  PreTokenizerKind kind = PreTokenizerKind::kPattern;
  MetaspacePrefix prefix = MetaspacePrefix::kAlways;
};

/// The regular expression of GPT-2, which tokenizer.json calls ByteLevel.
extern const char* const kGpt2Pattern;

/// Returns the steps of the pre-tokenizer that GGUF files call `name`, such as "gpt-2",
/// "llama-bpe", "qwen2" or "smollm". Returns kUnsupported, listing the known names, for another
/// name.
Result<std::vector<PreTokenizerStep>> PreTokenizerSteps(std::string_view name);

/// Returns whether tokenizers whose pre-tokenizer GGUF files call `name` encode a word that is a
/// token as this token, without merging. These tokenizers also prepend bos to each text by default.
constexpr bool IgnoresMerges(std::string_view name) {
  return name == "llama-bpe" || name == "tekken";
}

namespace text {

class PreTokenizer {
 public:
  /// Creates a pre-tokenizer. Propagates errors of WordPattern. Returns kInvalidArgument if a
  /// kLiteral or kMetaspace step has an empty pattern, and kUnsupported if there are more than 64
  /// steps.
  static Result<PreTokenizer> Create(
      const std::vector<PreTokenizerStep>& steps);

  /// The scratch memory of a pre-tokenizer. Threads must use separate objects.
  using Searches = std::vector<WordPattern::Search>;
  Searches NewSearches() const;

  // The position of a segment in the whole text.
  struct Place {
    bool is_begin = true;
    bool goes_on = false;  // continues another text; nothing is prepended
  };

  /// Calls `take` with each word of `text`, in order. A word is valid until `take` returns.
  /// `searches` must be from NewSearches of this object. `text` must be well-formed UTF-8. Returns
  /// kInvalidArgument if the search for a regular expression exceeds its limits
  /// (WordPattern::Found::kTooHard).
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
