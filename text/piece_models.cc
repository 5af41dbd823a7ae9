#include "text/piece_models.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/result.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace stowage::text {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr float kMaxSingleSum = 100'000;

}  // namespace

Result<Unigram> Unigram::Create(const std::vector<std::string>& tokens,
                                const std::vector<double>& scores,
                                const UnigramOptions& options) {
  Unigram unigram;
  unigram.texts_ = TokenTexts(tokens);
  unigram.scores_ = scores;
  unigram.options_ = options;
  unigram.byte_ids_.fill(-1);
  std::vector<bool> apart(tokens.size());
  for (const int32_t id : options.apart) apart[static_cast<size_t>(id)] = true;
  std::vector<Trie::Entry> entries;
  double least = std::numeric_limits<double>::infinity();
  for (int32_t id = 0; id < unigram.size(); ++id) {
    const auto at = static_cast<size_t>(id);
    const std::string_view text = unigram.texts_[id];
    if (text.size() > kMaxPiece) {
      return UnsupportedError("[text] the token ", id, " has ", text.size(),
                              " bytes; at most ", kMaxPiece,
                              " are read of a unigram model");
    }
    if (const auto byte = ByteOfToken(text)) unigram.byte_ids_[*byte] = id;
    if (text.empty() || apart[at]) continue;
    entries.emplace_back(text, id);
    least = std::min(least, scores[at]);
  }
  unigram.trie_ = Trie(std::move(entries));
  unigram.unknown_score_ = options.least.value_or(least) - kUnknownPenalty;
  return unigram;
}

// Makes scores in [begin, end] relative to that of `begin`, as sentencepiece does to keep
// 32-bit sums near zero.
template <typename Real>
void Unigram::Rebase(size_t begin, size_t end, std::vector<Best<Real>>* best) {
  const Real offset = (*best)[begin].score;
  for (size_t i = begin; i <= end; ++i) {
    Best<Real>& at = (*best)[i];
    if (i == begin || at.id != kUnreached) at.score -= offset;
  }
}

template <typename Real>
std::vector<Unigram::Best<Real>> Unigram::FindBest(
    std::string_view word) const {
  std::vector<Best<Real>> best(word.size() + 1);
  size_t last = 0;
  const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    last = std::max(last, end);
    const Real sum = static_cast<Real>(score) + best[begin].score;
    Best<Real>& to = best[end];
    if (to.id == kUnreached || sum > to.score) to = {sum, id, begin};
  };
  for (size_t begin = 0; begin < word.size();) {
    if (options_.is_single && std::abs(best[begin].score) > kMaxSingleSum) {
      Rebase(begin, last, &best);
    }
    const size_t character = FirstCharacter(word.substr(begin)).bytes;
    bool has_single = false;
    uint32_t node = Trie::kRoot;
    for (size_t end = begin; end < word.size();) {
      node = trie_.Child(node, static_cast<unsigned char>(word[end++]));
      if (node == Trie::kNone) break;
      const int32_t id = trie_.Id(node);
      if (id < 0) continue;
      offer(begin, end, id, scores_[static_cast<size_t>(id)]);
      if (end == begin + character) has_single = true;
    }
    if (!has_single) {
      offer(begin, begin + character, kUnknown, unknown_score_);
    }
    begin += character;
  }
  return best;
}

// A run of unknown characters may itself be a piece.
void Unigram::AppendUnknown(std::string_view text,
                            std::vector<int32_t>* ids) const {
  if (const int32_t id = trie_.Find(text); id >= 0) {
    ids->push_back(id);
    return;
  }
  const size_t before = ids->size();
  if (options_.byte_fallback) {
    for (const char c : text) {
      ids->push_back(byte_ids_[static_cast<unsigned char>(c)]);
    }
    const auto bytes = ids->begin() + static_cast<ptrdiff_t>(before);
    if (std::find(bytes, ids->end(), -1) == ids->end()) return;
    ids->resize(before);
  }
  if (options_.unknown) ids->push_back(*options_.unknown);
}

template <typename Real>
void Unigram::EncodeBy(std::string_view word, std::vector<int32_t>* ids) const {
  const std::vector<Best<Real>> best = FindBest<Real>(word);
  std::vector<size_t> ends;
  for (size_t end = word.size(); end > 0; end = best[end].begin) {
    ends.push_back(end);
  }
  size_t unknown_begin = 0, begin = 0;
  const auto finish_unknown = [&] {
    if (unknown_begin == begin) return;
    AppendUnknown(word.substr(unknown_begin, begin - unknown_begin), ids);
  };
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const int32_t id = best[*end].id;
    const bool is_unknown = id == kUnknown || id == options_.unknown;
    if (!is_unknown) {
      finish_unknown();
      ids->push_back(id);
      unknown_begin = *end;
    }
    begin = *end;
  }
  finish_unknown();
}

void Unigram::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  if (options_.is_single) {
    EncodeBy<float>(word, ids);
  } else {
    EncodeBy<double>(word, ids);
  }
}

namespace {

// The id of the longest token that `rest` begins with; sets `*bytes` to its length.
int32_t LongestStart(const Trie& trie, std::string_view rest, size_t* bytes) {
  int32_t longest = -1;
  uint32_t node = Trie::kRoot;
  for (size_t i = 0; i < rest.size(); ++i) {
    node = trie.Child(node, static_cast<unsigned char>(rest[i]));
    if (node == Trie::kNone) break;
    if (trie.Id(node) < 0) continue;
    longest = trie.Id(node);
    *bytes = i + 1;
  }
  return longest;
}

bool HasMoreCharacters(std::string_view word, int32_t count) {
  for (const char c : word) {
    if ((static_cast<unsigned char>(c) & 0xC0u) != 0x80u && count-- == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<WordPiece> WordPiece::Create(const std::vector<std::string>& tokens,
                                    const WordPieceOptions& options) {
  WordPiece pieces;
  pieces.texts_ = TokenTexts(tokens);
  pieces.options_ = options;
  std::vector<bool> apart(tokens.size());
  for (const int32_t id : options.apart) apart[static_cast<size_t>(id)] = true;
  std::vector<Trie::Entry> begins, goes_on;
  for (int32_t id = 0; id < pieces.size(); ++id) {
    const std::string_view text = pieces.texts_[id];
    if (text.size() > kMaxWordPiece) {
      return UnsupportedError("[text] the token ", id, " has ", text.size(),
                              " bytes; at most ", kMaxWordPiece,
                              " are read of WordPiece");
    }
    if (text.empty() || apart[static_cast<size_t>(id)]) continue;
    begins.emplace_back(text, id);
    if (text.starts_with(options.prefix) &&
        text.size() > options.prefix.size()) {
      goes_on.emplace_back(text.substr(options.prefix.size()), id);
    }
  }
  pieces.begins_ = Trie(std::move(begins));
  pieces.goes_on_ = Trie(std::move(goes_on));
  return pieces;
}

// Appends the tokens of the word; false if it cannot be split into tokens.
bool WordPiece::AppendTokens(std::string_view word,
                             std::vector<int32_t>* ids) const {
  if (HasMoreCharacters(word, options_.max_characters)) return false;
  for (size_t begin = 0; begin < word.size();) {
    size_t bytes = 0;
    const int32_t id = LongestStart(begin == 0 ? begins_ : goes_on_,
                                    word.substr(begin), &bytes);
    if (id < 0) return false;
    ids->push_back(id);
    begin += bytes;
  }
  return true;
}

void WordPiece::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  const size_t before = ids->size();
  if (AppendTokens(word, ids)) return;
  ids->resize(before);
  if (options_.unknown) ids->push_back(*options_.unknown);
}

}  // namespace stowage::text
