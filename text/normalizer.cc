#include "text/normalizer.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/result.h"
#include "text/unicode.h"

namespace stowage::text {
namespace {

constexpr size_t kMaxNormalizers = 64;
// The maximum growth of a text: steps that each double it would exhaust memory.
constexpr size_t kMaxGrowth = 256;

// The result of a step; its beginning has moved if characters before it were removed.
class Rewrite {
 public:
  Rewrite(std::string* out, bool* is_moved) : out_(out), is_moved_(is_moved) {
    out_->clear();
  }
  void Add(char32_t code) { AppendUtf8(code, out_); }
  void Add(std::string_view text) { *out_ += text; }
  void LeaveOut() {
    if (out_->empty()) *is_moved_ = true;
  }

 private:
  std::string* out_;
  bool* is_moved_;
};

// Nmt treats U+200B to U+200F and the like as white space.
std::optional<char32_t> Nmt(char32_t c) {
  if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) ||
      c == 0x7F || c == 0x8F || c == 0x9F) {
    return std::nullopt;
  }
  const bool is_space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD ||
                        c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                        c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                        c == 0xFEFF || c == 0xFFFD;
  return is_space ? U' ' : c;
}

// The steps of BERT.
std::optional<char32_t> Clean(char32_t c) {
  const bool is_line = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xFFFD || (!is_line && IsControl(c))) return std::nullopt;
  return is_line || IsWhiteSpace(c) ? U' ' : c;
}

void RewriteCharacter(NormalizerKind kind, char32_t c, Rewrite* out) {
  std::optional<char32_t> kept = c;
  switch (kind) {
    case NormalizerKind::kLowercase:
      if (c == 0x130) return out->Add("i\u0307");
      kept = LowerCase(c);
      break;
    case NormalizerKind::kStripAccents:
      if (IsMark(c)) kept.reset();
      break;
    case NormalizerKind::kStripNonspacing:
      if (IsNonspacingMark(c)) kept.reset();
      break;
    case NormalizerKind::kNmt:
      kept = Nmt(c);
      break;
    case NormalizerKind::kClean:
      kept = Clean(c);
      break;
    case NormalizerKind::kSpaceIdeographs:
      if (IsIdeograph(c)) {
        out->Add(" ");
        out->Add(c);
        return out->Add(" ");
      }
      break;
    default:
      break;
  }
  if (kept) {
    out->Add(*kept);
  } else {
    out->LeaveOut();
  }
}

void RewriteEach(NormalizerKind kind, std::string_view text, Rewrite* out) {
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    RewriteCharacter(kind, character.code, out);
    text.remove_prefix(character.bytes);
  }
}

std::string_view WithoutSpace(const NormalizerStep& step, std::string_view text,
                              bool* is_moved) {
  if (step.left) {
    const size_t space = LeadingSpace(text);
    if (space > 0) *is_moved = true;
    text.remove_prefix(space);
  }
  if (step.right) text = text.substr(0, TrailingSpace(text));
  return text;
}

// A short grapheme cluster is replaced as a whole by the rule for its beginning, if there is
// one; else each character by its own. This is `tokenizers`' approximation of SentencePiece.
void ReplaceClusters(const Charsmap& charsmap, std::string_view text,
                     std::string* out) {
  constexpr size_t kLongest = 5;
  out->clear();
  while (!text.empty()) {
    std::string_view cluster = text.substr(0, ClusterSize(text));
    text.remove_prefix(cluster.size());
    const auto whole =
        cluster.size() <= kLongest ? charsmap.Shortest(cluster) : std::nullopt;
    if (whole) {
      *out += whole->replacement;
      continue;
    }
    while (!cluster.empty()) {
      const std::string_view character =
          cluster.substr(0, FirstCharacter(cluster).bytes);
      const auto rule = charsmap.Shortest(character);
      *out += rule ? rule->replacement : character;
      cluster.remove_prefix(character.size());
    }
  }
}

// Finds the next match at or after `from`.
using Finder =
    std::function<WordPattern::Found(size_t from, size_t* begin, size_t* end)>;

Status ReplaceAll(const NormalizerStep& step, std::string_view text,
                  const Finder& find, Normalizer::Work* work,
                  std::string* out) {
  out->clear();
  for (size_t from = 0; from < text.size();) {
    size_t begin = text.size(), end = text.size();
    const WordPattern::Found found = find(from, &begin, &end);
    if (found == WordPattern::Found::kTooHard) {
      return InvalidArgumentError(
          "[text] the pattern ", Quoted(step.pattern),
          " takes too many steps in a text of ", text.size(),
          " bytes, at byte ", from,
          "; expected a pattern that goes through text once");
    }
    if (found == WordPattern::Found::kNo) begin = end = text.size();
    *out += text.substr(from, begin - from);
    if (found == WordPattern::Found::kYes) {
      // As in `tokenizers`, a replacement of several characters has the position of the
      // last.
      if (begin == 0 &&
          (step.content.empty() || FirstCharacter(text).bytes < end)) {
        work->is_moved = true;
      }
      *out += step.content;
    }
    from = end;
    if (out->size() > work->limit) {
      return InvalidArgumentError(
          "[text] a text becomes one of more than ", work->limit,
          " bytes when it is normalized; expected at most ", kMaxGrowth,
          " times its own");
    }
  }
  return {};
}

std::optional<NormalForm> FormOf(NormalizerKind kind) {
  switch (kind) {
    case NormalizerKind::kNfc:
      return NormalForm::kC;
    case NormalizerKind::kNfd:
      return NormalForm::kD;
    case NormalizerKind::kNfkc:
      return NormalForm::kKc;
    case NormalizerKind::kNfkd:
      return NormalForm::kKd;
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<Normalizer> Normalizer::Create(std::vector<NormalizerStep> steps) {
  if (steps.size() > kMaxNormalizers) {
    return UnsupportedError("[text] the normalizer has ", steps.size(),
                            " steps; at most ", kMaxNormalizers, " are read");
  }
  Normalizer result;
  for (NormalizerStep& step : steps) {
    const bool is_pattern = step.kind == NormalizerKind::kReplacePattern;
    if ((is_pattern || step.kind == NormalizerKind::kReplace) &&
        step.pattern.empty()) {
      return InvalidArgumentError(
          "[text] a normalizer replaces the empty text; expected a text or a "
          "pattern of at least a character");
    }
    size_t search = 0;
    if (is_pattern) {
      STOWAGE_ASSIGN_OR_RETURN(WordPattern pattern,
                               WordPattern::Compile(step.pattern));
      search = result.patterns_.size();
      result.patterns_.push_back(std::move(pattern));
    }
    SentencePieceNormalizer pieces;
    if (step.kind == NormalizerKind::kSentencePiece) {
      STOWAGE_ASSIGN_OR_RETURN(pieces,
                               SentencePieceNormalizer::Create(step.rules));
    }
    Charsmap charsmap;
    if (step.kind == NormalizerKind::kPrecompiled) {
      STOWAGE_ASSIGN_OR_RETURN(charsmap, Charsmap::Parse(step.rules.charsmap));
    }
    result.steps_.push_back(
        {std::move(step), search, std::move(pieces), std::move(charsmap)});
  }
  return result;
}

Normalizer::Work Normalizer::NewWork() const {
  Work work;
  for (const WordPattern& pattern : patterns_) {
    work.searches.emplace_back(pattern);
  }
  return work;
}

Result<std::string_view> Normalizer::Apply(const Step& of,
                                           std::string_view text, Work* work,
                                           std::string* out) const {
  const NormalizerStep& step = of.step;
  const auto find_text = [&](size_t from, size_t* begin, size_t* end) {
    *begin = text.find(step.pattern, from);
    *end = *begin + step.pattern.size();
    return *begin == std::string_view::npos ? WordPattern::Found::kNo
                                            : WordPattern::Found::kYes;
  };
  const auto find_pattern = [&](size_t from, size_t* begin, size_t* end) {
    return work->searches[of.search].Find(text, from, begin, end);
  };
  switch (step.kind) {
    case NormalizerKind::kReplace:
      STOWAGE_RETURN_IF_ERROR(ReplaceAll(step, text, find_text, work, out));
      return std::string_view(*out);
    case NormalizerKind::kReplacePattern:
      STOWAGE_RETURN_IF_ERROR(ReplaceAll(step, text, find_pattern, work, out));
      return std::string_view(*out);
    case NormalizerKind::kPrepend:
      if (text.empty() || work->goes_on) return text;
      *out = StrCat(step.content, text);
      return std::string_view(*out);
    case NormalizerKind::kSentencePiece:
      of.pieces.Run(text, work->goes_on, out);
      return std::string_view(*out);
    case NormalizerKind::kPrecompiled:
      ReplaceClusters(of.charsmap, text, out);
      return std::string_view(*out);
    case NormalizerKind::kStrip:
      return WithoutSpace(step, text, &work->is_moved);
    default:
      break;
  }
  if (const auto form = FormOf(step.kind))
    return ToNormalForm(text, *form, out);
  Rewrite rewrite(out, &work->is_moved);
  RewriteEach(step.kind, text, &rewrite);
  return std::string_view(*out);
}

Result<std::string_view> Normalizer::Run(std::string_view text, bool goes_on,
                                         Work* work) const {
  work->goes_on = goes_on;
  work->is_moved = false;
  work->limit = kMaxGrowth * (text.size() + 1024);
  std::string *out = &work->buffers[0], *other = &work->buffers[1];
  for (const Step& step : steps_) {
    STOWAGE_ASSIGN_OR_RETURN(text, Apply(step, text, work, out));
    // The next step reads what this one has written.
    const bool is_written =
        text.data() >= out->data() && text.data() <= out->data() + out->size();
    if (is_written) std::swap(out, other);
  }
  return text;
}

}  // namespace stowage::text
