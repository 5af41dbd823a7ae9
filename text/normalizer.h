#ifndef STOWAGE_TEXT_NORMALIZER_H_
#define STOWAGE_TEXT_NORMALIZER_H_

// Rewrites a text before it is cut into words: steps, each of which takes what the one
// before it gives. Llama 2's put "▁" before a text and in place of its spaces, BERT's
// leave out accents and write all in lower case.
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
  kStripAccents,    // leaves out all marks
  kNmt,             // leaves out control characters; others become spaces
  kReplace,         // the text `pattern` by `content`
  kReplacePattern,  // what the expression `pattern` matches by `content`
  kPrepend,         // `content` to what is not empty
  kStrip,           // white space at the `left` and the `right`
  kClean,  // BERT: leaves out control characters; white space is a space
  kSpaceIdeographs,  // BERT: a space before and after each
  kStripNonspacing,  // BERT: leaves out nonspacing marks, after kNfd
  kSentencePiece,    // by `rules`
  kPrecompiled,      // by the charsmap of `rules`, as `tokenizers` reads it
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
  /// Errors as WordPattern's and SentencePieceNormalizer's; kInvalidArgument for an
  /// empty pattern; kUnsupported for
  /// more than 64 steps.
  static Result<Normalizer> Create(std::vector<NormalizerStep> steps);

  /// What one thread needs to normalize.
  struct Work {
    std::vector<WordPattern::Search> searches;
    std::string buffers[2];
    bool is_moved = false;
    bool goes_on = false;
    size_t limit = 0;  // to the bytes of the result
  };
  Work NewWork() const;

  /// The normal form of `text`, which is well-formed: itself, or in `work` until the next
  /// call. Nothing is put before a text that `goes_on` from another. Sets `work->is_moved`
  /// where its first character does not come from the first one of `text`. Error kInvalidArgument where a pattern takes too many steps, or the
  /// result is more than 256 times as long.
  Result<std::string_view> Run(std::string_view text, bool goes_on,
                               Work* work) const;

 private:
  struct Step {
    NormalizerStep step;
    size_t search = 0;  // which of the searches
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
