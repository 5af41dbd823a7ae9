#ifndef STOWAGE_TEXT_NORMALIZER_H_
#define STOWAGE_TEXT_NORMALIZER_H_

// Normalizes a text before it is split into words: a list of steps, each of which rewrites the
// result of the one before. Llama 2's steps put "▁" before a text and in place of spaces;
// BERT's strip accents and lower-case.
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

/// The names are those of tokenizer.json.
enum class NormalizerKind {
  kNfc,
  kNfd,
  kNfkc,
  kNfkd,
  kLowercase,
  kStripAccents,  // removes all marks
  kNmt,           // removes control characters or replaces them by spaces
  kReplace,       // replaces the text `pattern` by `content`
  kReplacePattern,  // replaces matches of the regular expression `pattern` by `content`
  kPrepend,  // prepends `content` to a text that is not empty
  kStrip,    // strips white space at the `left` and the `right`
  kClean,    // BERT: removes control characters, makes white space spaces
  kSpaceIdeographs,  // BERT: puts a space before and after each
  kStripNonspacing,  // BERT: removes nonspacing marks, after kNfd
  kSentencePiece,    // applies `rules`
  kPrecompiled,      // applies the charsmap of `rules`, as `tokenizers` does
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
  /// Errors: those of WordPattern and SentencePieceNormalizer; kInvalidArgument for an empty
  /// pattern; kUnsupported for more than 64 steps.
  static Result<Normalizer> Create(std::vector<NormalizerStep> steps);

  /// The scratch memory of one thread.
  struct Work {
    std::vector<WordPattern::Search> searches;
    std::string buffers[2];
    bool is_moved = false;
    bool goes_on = false;
    size_t limit = 0;  // of the result, in bytes
  };
  Work NewWork() const;

  /// The normal form of `text`: `text` itself, or in `work` until the next call. Nothing is
  /// prepended to a text that `goes_on` from another. Sets `work->is_moved` if the first
  /// character does not come from the first one of `text`. Error kInvalidArgument if a
  /// pattern takes too many steps, or the text grows more than 256-fold. Precondition: `text`
  /// is well-formed.
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
