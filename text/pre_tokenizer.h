#ifndef STOWAGE_TEXT_PRE_TOKENIZER_H_
#define STOWAGE_TEXT_PRE_TOKENIZER_H_

// Cuts text into the words within which tokens are merged: steps, each of which cuts
// the pieces of the one before it.
//
//   STOWAGE_ASSIGN_OR_RETURN(std::vector<PreTokenizerStep> steps,
//                            PreTokenizerSteps("smollm"));
//   STOWAGE_ASSIGN_OR_RETURN(PreTokenizer words, PreTokenizer::Create(steps));
//   STOWAGE_RETURN_IF_ERROR(words.ForEachWord(text, [](std::string_view word) {}));

#include <array>
#include <cstdint>
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

// Tokens that are looked for in the text itself, before it is cut into words.
//
//   AddedTokens tokens({{.text = "<|im_end|>", .id = 2, .special = true}});
//   tokens.Split(text, /*special=*/true,
//                [](std::string_view piece) {}, [](int32_t id) {});

struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;     // a mark, not a part of the text
  bool strip_left = false;  // takes the white space before it along
  bool strip_right = false;
  bool normalized =
      false;  // looked for in normalized text, else in the raw one
};

namespace text {

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Precondition: no text is empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Calls `piece` and `token` with what `text` consists of, in order: the leftmost
  /// token first, of several the longest. Without `special`, special tokens are left
  /// in the pieces. Stops at the first error.
  Status Split(std::string_view text, bool special,
               const std::function<Status(std::string_view)>& piece,
               const std::function<void(int32_t)>& token) const;

 private:
  // The longest token at the start of `text`, if any.
  const AddedToken* At(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // in the order of their bytes
  std::array<bool, 256> first_{};   // bytes that one begins with
};

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_PRE_TOKENIZER_H_
