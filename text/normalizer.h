#ifndef STOWAGE_TEXT_NORMALIZER_H_
#define STOWAGE_TEXT_NORMALIZER_H_

// Normalizes text before it is split into words, with a list of steps. Each step rewrites the
// result of the previous step. For example, the steps of Llama 2 prepend "▁" to a text and replace
// spaces with "▁". The steps of BERT strip accents and convert to lower case.
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       Normalizer normalizer,
//       Normalizer::Create({{.kind = NormalizerKind::kPrepend, .content = "▁"},
//                           {.kind = NormalizerKind::kReplace,
//                            .pattern = " ", .content = "▁"}}));
//   Normalizer::Work work = normalizer.NewWork();
//   STOWAGE_ASSIGN_OR_RETURN(std::string_view text,
//                            normalizer.Run("a b", /*goes_on=*/false, &work));

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/sentence_piece_normalizer.h"
#include "text/word_pattern.h"

namespace stowage {

/// The kinds of steps, named as in tokenizer.json.
enum class NormalizerKind {
  kNfc,
  kNfd,
  kNfkc,
  kNfkd,
  kLowercase,
  kStripAccents,  // removes all marks
  kNmt,           // removes control characters or replaces them with spaces
  kReplace,       // replaces the string `pattern` with `content`
  kReplacePattern,  // replaces matches of the regular expression `pattern` with `content`
  kPrepend,  // prepends `content` to a text that is not empty
  kStrip,    // strips white space at the `left` and the `right`
  kClean,  // BERT: removes control characters, replaces white space with spaces
  kSpaceIdeographs,  // BERT: adds a space before and after each ideograph
  kStripNonspacing,  // BERT: removes nonspacing marks, after kNfd
  kSentencePiece,    // applies `rules`
  kPrecompiled,  // applies the charsmap of `rules`, as PyPI's `tokenizers` does
};

struct NormalizerStep {
  NormalizerKind kind = NormalizerKind::kNfc;
  std::string pattern = {};
  std::string content = {};
  bool left = false;
  bool right = false;
  SentencePieceRules rules = {};
};

namespace text {

class Normalizer {
 public:
  /// Creates a normalizer. Returns kInvalidArgument if a kReplace or kReplacePattern step has an
  /// empty pattern, and kUnsupported if there are more than 64 steps. Propagates errors of
  /// WordPattern, SentencePieceNormalizer and Charsmap.
  static Result<Normalizer> Create(std::vector<NormalizerStep> steps);

  /// The scratch memory of a normalizer. Threads must use separate objects.
  struct Work {
    std::vector<WordPattern::Search> searches;
    std::string buffers[2];
    bool is_moved = false;
    bool goes_on = false;
    size_t limit = 0;  // maximum bytes of the result
  };
  Work NewWork() const;

  /// Returns the normalized text, which is a view of `text` or of `work`. A view of `work` is valid
  /// until the next call. `work` must be from NewWork of this object. If `goes_on` is true, `text`
  /// continues another text, and nothing is prepended. Sets `work->is_moved` to whether the first
  /// character of the result does not come from the first character of `text`. `text` must be
  /// well-formed UTF-8. Returns kInvalidArgument if the search for a regular expression exceeds its
  /// limits (WordPattern::Found::kTooHard), or if replacements of kReplace and kReplacePattern make
  /// the text longer than 256 times `text` plus 256 KiB.
  Result<std::string_view> Run(std::string_view text, bool goes_on,
                               Work* work) const;

 private:
  struct Step {
    NormalizerStep step;
    size_t search = 0;  // index in Work::searches
    SentencePieceNormalizer pieces = {};
    Charsmap charsmap = {};
  };
  Result<std::string_view> Apply(const Step& step, std::string_view text,
                                 Work* work, std::string* out) const;

  std::vector<Step> steps_;
  std::vector<WordPattern> patterns_;
};

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_NORMALIZER_H_
