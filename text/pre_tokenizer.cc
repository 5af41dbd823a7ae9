#include "text/pre_tokenizer.h"

#include <functional>
#include <utility>

#include "base/result.h"
#include "text/unicode.h"

namespace stowage {

const char* const kGpt2Pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<std::vector<PreTokenizerStep>> PreTokenizerSteps(std::string_view name) {
  using Steps = std::vector<PreTokenizerStep>;
  if (name == "gpt-2" || name == "olmo") return Steps{{kGpt2Pattern}};
  if (name == "smollm" || name == "refact") {
    return Steps{{R"(\p{N})"}, {kGpt2Pattern}};
  }
  // As in the models' tokenizer.json.
  constexpr std::string_view kContraction = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
  constexpr std::string_view kWord = R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  constexpr std::string_view kRest =
      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (name == "llama-bpe" || name == "dbrx" || name == "smaug-bpe") {
    return Steps{{StrCat(kContraction, kWord, R"(\p{N}{1,3})", kRest)}};
  }
  if (name == "qwen2") {
    return Steps{{StrCat(kContraction, kWord, R"(\p{N})", kRest)}};
  }
  // Words end where capital letters begin.
  constexpr std::string_view kSmall =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
      R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+)";
  constexpr std::string_view kCapital =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
      R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*)";
  constexpr std::string_view kPaths =
      R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (name == "tekken") {
    return Steps{{StrCat(kSmall, "|", kCapital, R"(|\p{N})", kPaths)}};
  }
  if (name == "gpt-4o") {
    return Steps{{StrCat(kSmall, kContraction, "?|", kCapital, kContraction,
                         R"(?|\p{N}{1,3})", kPaths)}};
  }
  return Error{ErrorCode::kUnsupported,
               StrCat("[text] the pre-tokenizer ", Quoted(name),
                      " is not known; expected dbrx, gpt-2, gpt-4o, llama-bpe, "
                      "olmo, qwen2, refact, smaug-bpe, smollm or tekken")};
}

namespace text {
namespace {

// The maximum number of steps, which are nested calls.
constexpr size_t kMaxSteps = 64;

using Found = WordPattern::Found;

// A match of a step in the text.
struct Span {
  size_t begin = 0, end = 0;
};

template <typename Holds>
size_t RunLength(std::string_view text, const Holds& holds) {
  size_t end = 0;
  while (end < text.size()) {
    const Character c = FirstCharacter(text.substr(end));
    if (!holds(c.code)) break;
    end += c.bytes;
  }
  return end;
}

// The offset of the first character at or after `from` for which `holds` is true.
template <typename Holds>
Found FindCharacter(std::string_view text, size_t from, const Holds& holds,
                    Span* span) {
  const size_t begin = from + RunLength(text.substr(from),
                                        [&](char32_t c) { return !holds(c); });
  if (begin == text.size()) return Found::kNo;
  *span = {begin, begin + FirstCharacter(text.substr(begin)).bytes};
  return Found::kYes;
}

// A run of word characters, or of characters that are neither word characters nor spaces.
Found FindWord(std::string_view text, size_t from, Span* span) {
  const size_t begin = from + LeadingSpace(text.substr(from));
  if (begin == text.size()) return Found::kNo;
  const std::string_view rest = text.substr(begin);
  const bool is_word = IsWordCharacter(FirstCharacter(rest).code);
  const size_t size = RunLength(rest, [&](char32_t c) {
    return !IsWhiteSpace(c) && IsWordCharacter(c) == is_word;
  });
  *span = {begin, begin + size};
  return Found::kYes;
}

Found FindLiteral(std::string_view text, std::string_view literal, size_t from,
                  Span* span) {
  const size_t begin = text.find(literal, from);
  if (begin == std::string_view::npos) return Found::kNo;
  *span = {begin, begin + literal.size()};
  return Found::kYes;
}

// `text` with `mark` in place of each space, and before it if `prefix` says so.
std::string WithMetaspace(std::string_view piece, const PreTokenizerStep& step,
                          const PreTokenizer::Place& place) {
  std::string marked;
  for (const char c : piece) {
    if (c == ' ') {
      marked += step.pattern;
    } else {
      marked += c;
    }
  }
  const bool has_prefix =
      !place.goes_on &&
      (step.prefix == MetaspacePrefix::kAlways ||
       (step.prefix == MetaspacePrefix::kFirst && place.is_begin));
  if (has_prefix && !marked.starts_with(step.pattern)) {
    marked.insert(0, step.pattern);
  }
  return marked;
}

Status CheckStep(const PreTokenizerStep& step) {
  const bool needs_text = step.kind == PreTokenizerKind::kLiteral ||
                          step.kind == PreTokenizerKind::kMetaspace;
  if (!needs_text || !step.pattern.empty()) return {};
  return InvalidArgumentError(
      "[text] a pre-tokenizer cuts at the empty text; expected a text of at "
      "least a character");
}

// Makes pieces of a step's matches and the text between them.
class Parts {
 public:
  using PassOn = std::function<Status(const Span&)>;
  Parts(const PreTokenizerStep& step, PassOn pass_on)
      : step_(step), pass_on_(std::move(pass_on)) {}

  Status Add(const Span& span, bool matched) {
    if (span.begin == span.end) return {};
    matched = matched != step_.invert;
    if (waiting_.end != 0 && Joins(matched)) {
      waiting_.end = span.end;
      matched_ = matched;
      return {};
    }
    STOWAGE_RETURN_IF_ERROR(Finish());
    waiting_ = span;
    matched_ = matched;
    return {};
  }

  // Passes on the pending part, which the next one may have joined.
  Status Finish() {
    const bool removed = step_.behavior == SplitBehavior::kRemoved && matched_;
    if (waiting_.end == 0 || removed) return {};
    return pass_on_(waiting_);
  }

 private:
  bool Joins(bool matched) const {
    switch (step_.behavior) {
      case SplitBehavior::kIsolated:
      case SplitBehavior::kRemoved:
        return false;
      case SplitBehavior::kMergedWithPrevious:
        return matched && !matched_;
      case SplitBehavior::kMergedWithNext:
        return !matched && matched_;
      case SplitBehavior::kContiguous:
        return matched == matched_;
    }
    return false;
  }

  const PreTokenizerStep& step_;
  PassOn pass_on_;
  Span waiting_;
  bool matched_ = false;
};

}  // namespace

Result<PreTokenizer> PreTokenizer::Create(
    const std::vector<PreTokenizerStep>& steps) {
  if (steps.size() > kMaxSteps) {
    return UnsupportedError("[text] the pre-tokenizer has ", steps.size(),
                            " steps; at most ", kMaxSteps, " are read");
  }
  PreTokenizer result;
  for (const PreTokenizerStep& step : steps) {
    STOWAGE_RETURN_IF_ERROR(CheckStep(step));
    size_t search = 0;
    if (step.kind == PreTokenizerKind::kPattern && !step.pattern.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(WordPattern pattern,
                               WordPattern::Compile(step.pattern));
      search = result.patterns_.size();
      result.patterns_.push_back(std::move(pattern));
    }
    result.steps_.push_back({step, search});
  }
  return result;
}

PreTokenizer::Searches PreTokenizer::NewSearches() const {
  Searches searches;
  for (const WordPattern& pattern : patterns_) searches.emplace_back(pattern);
  return searches;
}

Status PreTokenizer::ForEachWord(std::string_view text, const Place& place,
                                 Searches* searches, const Take& take) const {
  return Cut(0, text, place, searches, take);
}

Status PreTokenizer::Cut(size_t step, std::string_view piece,
                         const Place& place, Searches* searches,
                         const Take& take) const {
  if (piece.empty()) return {};
  if (step == steps_.size()) {
    take(piece);
    return {};
  }
  const PreTokenizerStep& now = steps_[step].step;
  if (now.kind == PreTokenizerKind::kMetaspace) {
    return Cut(step + 1, WithMetaspace(piece, now, place), place, searches,
               take);
  }
  if (now.kind == PreTokenizerKind::kPattern && now.pattern.empty()) {
    if (piece.front() == ' ' || place.goes_on) {
      return Cut(step + 1, piece, place, searches, take);
    }
    return Cut(step + 1, StrCat(" ", piece), place, searches, take);
  }
  return CutAtMatches(step, piece, place, searches, take);
}

Status PreTokenizer::CutAtMatches(size_t step, std::string_view piece,
                                  const Place& place, Searches* searches,
                                  const Take& take) const {
  const PreTokenizerStep& now = steps_[step].step;
  const auto find = [&](size_t from, Span* span) {
    switch (now.kind) {
      case PreTokenizerKind::kLiteral:
        return FindLiteral(piece, now.pattern, from, span);
      case PreTokenizerKind::kWhiteSpace:
        return FindCharacter(piece, from, IsWhiteSpace, span);
      case PreTokenizerKind::kPunctuation:
        return FindCharacter(piece, from, IsPunctuation, span);
      case PreTokenizerKind::kWords:
        return FindWord(piece, from, span);
      default:
        return (*searches)[steps_[step].search].Find(piece, from, &span->begin,
                                                     &span->end);
    }
  };
  Parts parts(now, [&](const Span& span) {
    return Cut(step + 1, piece.substr(span.begin, span.end - span.begin),
               span.begin == 0 ? place : Place{.is_begin = false}, searches,
               take);
  });
  for (size_t from = 0; from < piece.size();) {
    Span span;
    const Found found = find(from, &span);
    if (found == Found::kTooHard) {
      return InvalidArgumentError(
          "[text] the pattern ", Quoted(now.pattern),
          " takes too many steps in a text of ", piece.size(),
          " bytes, at byte ", from,
          "; expected a pattern that goes through text once");
    }
    if (found == Found::kNo) span = {piece.size(), piece.size()};
    STOWAGE_RETURN_IF_ERROR(parts.Add({from, span.begin}, false));
    STOWAGE_RETURN_IF_ERROR(parts.Add(span, true));
    from = span.end;
  }
  return parts.Finish();
}

}  // namespace text

}  // namespace stowage
