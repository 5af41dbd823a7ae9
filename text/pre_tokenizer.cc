#include "text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "text/utf8.h"

namespace stowage {

const char* const kGpt2Pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<std::vector<PreTokenizerStep>> PreTokenizerSteps(std::string_view name) {
  if (name == "gpt-2") return std::vector<PreTokenizerStep>{{kGpt2Pattern}};
  if (name == "smollm") {
    return std::vector<PreTokenizerStep>{{R"(\p{N})"}, {kGpt2Pattern}};
  }
  // Both as their tokenizer.json has them; they differ in how many digits go together.
  constexpr std::string_view kContractions =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  constexpr std::string_view kRest =
      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (name == "llama-bpe") {
    return std::vector<PreTokenizerStep>{
        {StrCat(kContractions, R"(\p{N}{1,3})", kRest)}};
  }
  if (name == "qwen2") {
    return std::vector<PreTokenizerStep>{
        {StrCat(kContractions, R"(\p{N})", kRest)}};
  }
  return Error{ErrorCode::kUnsupported,
               StrCat("[text] the pre-tokenizer ", Quoted(name),
                      " is not known; expected gpt-2, llama-bpe, qwen2 or "
                      "smollm")};
}

namespace text {
namespace {

// Each step cuts within what the one before has cut, one call within another.
constexpr size_t kMaxSteps = 64;

}  // namespace

Result<PreTokenizer> PreTokenizer::Create(
    const std::vector<PreTokenizerStep>& steps) {
  if (steps.size() > kMaxSteps) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[text] the pre-tokenizer has ", steps.size(),
                        " steps; at most ", kMaxSteps, " are read")};
  }
  PreTokenizer result;
  for (const PreTokenizerStep& step : steps) {
    int search = -1;
    if (!step.pattern.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(WordPattern pattern,
                               WordPattern::Compile(step.pattern));
      search = static_cast<int>(result.patterns_.size());
      result.patterns_.push_back(std::move(pattern));
    }
    result.steps_.push_back({step.behavior, step.invert, step.pattern, search});
  }
  return result;
}

PreTokenizer::Searches PreTokenizer::NewSearches() const {
  Searches searches;
  for (const WordPattern& pattern : patterns_) searches.emplace_back(pattern);
  return searches;
}

Status PreTokenizer::ForEachWord(
    std::string_view text, Searches* searches,
    const std::function<void(std::string_view)>& take) const {
  return Cut(0, text, searches, take);
}

Status PreTokenizer::Cut(
    size_t step, std::string_view piece, Searches* searches,
    const std::function<void(std::string_view)>& take) const {
  if (piece.empty()) return {};
  if (step == steps_.size()) {
    take(piece);
    return {};
  }
  const Step& now = steps_[step];
  if (now.search < 0) {
    if (piece.front() == ' ') return Cut(step + 1, piece, searches, take);
    return Cut(step + 1, StrCat(" ", piece), searches, take);
  }
  // A part waits until it is known whether the next one joins it.
  struct Part {
    size_t begin = 0, end = 0;
    bool matched = false;
  } waiting;
  const auto joins = [&](const Part& next) {
    switch (now.behavior) {
      case SplitBehavior::kIsolated:
      case SplitBehavior::kRemoved:
        return false;
      case SplitBehavior::kMergedWithPrevious:
        return next.matched && !waiting.matched;
      case SplitBehavior::kMergedWithNext:
        return !next.matched && waiting.matched;
      case SplitBehavior::kContiguous:
        return next.matched == waiting.matched;
    }
    return false;
  };
  const auto pass_on = [&]() -> Status {
    if (now.behavior == SplitBehavior::kRemoved && waiting.matched) return {};
    return Cut(step + 1,
               piece.substr(waiting.begin, waiting.end - waiting.begin),
               searches, take);
  };
  const auto add = [&](size_t begin, size_t end, bool matched) -> Status {
    if (begin == end) return {};
    const Part next = {begin, end, matched != now.invert};
    if (waiting.end != 0 && joins(next)) {
      waiting.end = next.end;
      waiting.matched = next.matched;
      return {};
    }
    STOWAGE_RETURN_IF_ERROR(pass_on());
    waiting = next;
    return {};
  };
  WordPattern::Search& search = (*searches)[static_cast<size_t>(now.search)];
  for (size_t from = 0; from < piece.size();) {
    size_t begin = 0, end = 0;
    const WordPattern::Found found = search.Find(piece, from, &begin, &end);
    if (found == WordPattern::Found::kTooHard) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[text] the pattern ", Quoted(now.source),
                          " takes too many steps in a text of ", piece.size(),
                          " bytes, at byte ", from,
                          "; expected a pattern that goes through text once")};
    }
    if (found == WordPattern::Found::kNo) begin = end = piece.size();
    STOWAGE_RETURN_IF_ERROR(add(from, begin, false));
    STOWAGE_RETURN_IF_ERROR(add(begin, end, true));
    from = end;
  }
  return pass_on();
}

}  // namespace text

}  // namespace stowage

namespace stowage::text {

namespace {

// Where the white space at the end of `text` begins.
size_t TrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 &&
           (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u) {
      --begin;
    }
    if (!IsWhiteSpace(FirstCharacter(text.substr(begin)).code)) break;
    end = begin;
  }
  return end;
}

size_t LeadingSpace(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Character character = FirstCharacter(text.substr(end));
    if (!IsWhiteSpace(character.code)) break;
    end += character.bytes;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &AddedToken::text);
  for (const AddedToken& token : tokens_) {
    first_[static_cast<unsigned char>(token.text.front())] = true;
  }
}

const AddedToken* AddedTokens::At(std::string_view text) const {
  // Those that begin with the first n bytes of `text` stand together.
  const AddedToken* longest = nullptr;
  auto begin = tokens_.begin(), end = tokens_.end();
  for (size_t n = 0; n < text.size() && begin != end; ++n) {
    const auto byte_of = [n](const AddedToken& token) {
      return token.text.size() > n
                 ? static_cast<int>(static_cast<unsigned char>(token.text[n]))
                 : -1;
    };
    const int byte = static_cast<unsigned char>(text[n]);
    begin = std::partition_point(begin, end, [&](const AddedToken& token) {
      return byte_of(token) < byte;
    });
    end = std::partition_point(begin, end, [&](const AddedToken& token) {
      return byte_of(token) == byte;
    });
    if (begin != end && begin->text.size() == n + 1) longest = &*begin;
  }
  return longest;
}

Status AddedTokens::Split(std::string_view text, bool special,
                          const std::function<Status(std::string_view)>& piece,
                          const std::function<void(int32_t)>& token) const {
  size_t done = 0;  // up to where `text` has been given
  for (size_t at = 0; at < text.size();) {
    const AddedToken* const found = first_[static_cast<unsigned char>(text[at])]
                                        ? At(text.substr(at))
                                        : nullptr;
    if (found == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    at += found->text.size();
    if (found->special && !special) continue;
    size_t end = at;
    // Space that the token before has taken is taken; but what follows this one is
    // looked through again for tokens, as if it were not.
    if (found->strip_left) {
      begin = std::max(done, TrailingSpace(text.substr(0, begin)));
    }
    if (found->strip_right) end += LeadingSpace(text.substr(end));
    if (begin > done) {
      STOWAGE_RETURN_IF_ERROR(piece(text.substr(done, begin - done)));
    }
    token(found->id);
    done = end;
  }
  if (done < text.size()) return piece(text.substr(done));
  return {};
}

}  // namespace stowage::text
