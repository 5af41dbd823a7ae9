#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace stowage::text {
namespace {

constexpr size_t kShort = 32;  // bytes up to which scanning all pairs is faster

}  // namespace

// By id, whether the token is never produced.
std::vector<bool> Bpe::Apart() const {
  std::vector<bool> apart(static_cast<size_t>(size()));
  for (const int32_t id : options_.apart) apart[static_cast<size_t>(id)] = true;
  return apart;
}

Result<Bpe::Ids> Bpe::Place(const std::vector<std::string>& tokens) {
  for (const std::string& token : tokens) {
    const std::optional<std::string> bytes =
        options_.characters ? std::nullopt : OfAlphabet(token);
    texts_.Add(bytes ? *bytes : token);
  }
  byte_ids_.fill(-1);
  const std::vector<bool> apart = Apart();
  Ids id_of;
  id_of.reserve(tokens.size());
  for (int32_t id = 0; id < size(); ++id) {
    const std::string& token = tokens[static_cast<size_t>(id)];
    if (token.empty()) continue;
    const auto [there, is_new] = id_of.emplace(token, id);
    if (!is_new) {
      return InvalidArgumentError("[text] tokens ", there->second, " and ", id,
                                  " are both ", Quoted(token),
                                  "; expected each once");
    }
    AddUnit(token, id, apart[static_cast<size_t>(id)]);
  }
  return id_of;
}

// Records the token if it is a unit: a byte or a character.
void Bpe::AddUnit(std::string_view token, int32_t id, bool is_apart) {
  if (options_.characters) {
    if (const auto byte = ByteOfToken(token)) byte_ids_[*byte] = id;
    const Character first = FirstCharacter(token);
    if (!is_apart && first.bytes == token.size()) {
      character_ids_[first.code] = id;
    }
  } else if (!is_apart && Bytes(id).size() == 1 && OfAlphabet(token)) {
    byte_ids_[static_cast<unsigned char>(Bytes(id).front())] = id;
  }
}

void Bpe::PlaceMerges(const std::vector<Merge>& merges) {
  const size_t slots = std::bit_ceil(2 * merges.size() + 2);
  merges_.resize(slots);
  merge_shift_ = 64 - std::countr_zero(slots);
  for (const Merge& merge : merges) {
    size_t slot = SlotOf(merge.pair);
    while (merges_[slot].pair != kNoPair && merges_[slot].pair != merge.pair) {
      slot = (slot + 1) & (slots - 1);
    }
    merges_[slot] = merge;
  }
}

Result<Bpe> Bpe::Create(const std::vector<std::string>& tokens,
                        const std::vector<std::string>& merges,
                        const BpeOptions& options) {
  Bpe bpe;
  bpe.options_ = options;
  STOWAGE_ASSIGN_OR_RETURN(const Ids id_of, bpe.Place(tokens));
  std::vector<Merge> all;
  all.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 ||
        space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string_view::npos) {
      return InvalidArgumentError(
          "[text] merge ", rank, " is ", Quoted(merge),
          "; expected two tokens and a space between them");
    }
    int32_t ids[3];
    const std::string both =
        StrCat(merge.substr(0, space), merge.substr(space + 1));
    const std::string_view parts[3] = {merge.substr(0, space),
                                       merge.substr(space + 1), both};
    for (int i = 0; i < 3; ++i) {
      const auto found = id_of.find(parts[i]);
      if (found == id_of.end()) {
        return InvalidArgumentError("[text] merge ", rank, ", ", Quoted(merge),
                                    ", ", i < 2 ? "is of " : "gives ",
                                    Quoted(parts[i]), ", which is none of the ",
                                    id_of.size(), " tokens");
      }
      ids[i] = found->second;
    }
    all.push_back(
        {PairOf(ids[0], ids[1]), static_cast<uint32_t>(rank), ids[2]});
  }
  bpe.PlaceMerges(all);
  bpe.KeepWholeWords();
  return bpe;
}

// The unit of a character in merges.
int32_t Bpe::UnitOf(std::string_view character) const {
  const char32_t code = FirstCharacter(character).code;
  const auto found = character_ids_.find(code);
  if (found != character_ids_.end()) return found->second;
  return by_scores_ ? size() + static_cast<int32_t>(code) : -1;
}

// Adds the merges that result in a token: one for each split into two units or tokens.
void Bpe::AddSplits(std::string_view token, const Merge& merge,
                    const Ids& id_of, std::vector<Merge>* merges) const {
  const auto symbol = [&](std::string_view part) {
    if (FirstCharacter(part).bytes == part.size()) return UnitOf(part);
    const auto found = id_of.find(part);
    return found == id_of.end() ? -1 : found->second;
  };
  for (size_t at = FirstCharacter(token).bytes; at < token.size();
       at += FirstCharacter(token.substr(at)).bytes) {
    const int32_t left = symbol(token.substr(0, at));
    const int32_t right = symbol(token.substr(at));
    if (left >= 0 && right >= 0) {
      merges->push_back({PairOf(left, right), merge.rank, merge.id});
    }
  }
}

Result<Bpe> Bpe::ByScores(const std::vector<std::string>& tokens,
                          const std::vector<double>& scores,
                          const BpeOptions& options) {
  Bpe bpe;
  bpe.options_ = options;
  bpe.by_scores_ = true;
  STOWAGE_ASSIGN_OR_RETURN(Ids id_of, bpe.Place(tokens));
  for (const int32_t id : options.apart) {
    id_of.erase(tokens[static_cast<size_t>(id)]);
  }
  // Pairs of one score are merged from the left.
  std::vector<double> ranks;
  for (const auto& [token, id] : id_of) {
    ranks.push_back(scores[static_cast<size_t>(id)]);
  }
  std::ranges::sort(ranks, std::greater<>());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<Merge> all;
  for (const auto& [token, id] : id_of) {
    if (token.size() > kMaxScoredToken) {
      return UnsupportedError("[text] the token ", id, " has ", token.size(),
                              " bytes; at most ", kMaxScoredToken,
                              " are read where merges go by scores");
    }
    const auto rank =
        std::ranges::lower_bound(ranks, scores[static_cast<size_t>(id)],
                                 std::greater<>()) -
        ranks.begin();
    bpe.AddSplits(token, {kNoPair, static_cast<uint32_t>(rank), id}, id_of,
                  &all);
  }
  bpe.PlaceMerges(all);
  bpe.KeepWholeWords();
  return bpe;
}

const Bpe::Merge& Bpe::Find(int32_t left, int32_t right) const {
  const uint64_t pair = PairOf(left, right);
  size_t slot = SlotOf(pair);
  while (merges_[slot].pair != pair && merges_[slot].pair != kNoPair) {
    slot = (slot + 1) & (merges_.size() - 1);
  }
  return merges_[slot];
}

size_t Bpe::WordSlot(std::string_view word) const {
  size_t slot = Xxh64(word) & (words_.size() - 1);
  while (words_[slot] >= 0 && Bytes(words_[slot]) != word) {
    slot = (slot + 1) & (words_.size() - 1);
  }
  return slot;
}

// Fills the table of words that are one token when merged.
void Bpe::KeepWholeWords() {
  words_.assign(std::bit_ceil(2 * static_cast<size_t>(size()) + 2), -1);
  const std::vector<bool> apart = Apart();
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view bytes = Bytes(id);
    if (bytes.empty()) continue;
    ids.clear();
    if (options_.ignore_merges) {
      if (apart[static_cast<size_t>(id)]) continue;
    } else {
      MergeWord(bytes, &ids);
      if (ids.size() != 1 || ids.front() != id) continue;
    }
    words_[WordSlot(bytes)] = id;
    longest_word_ = std::max(longest_word_, bytes.size());
  }
}

void Bpe::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  if (word.size() <= longest_word_) {
    const int32_t id = words_[WordSlot(word)];
    if (id >= 0) {
      ids->push_back(id);
      return;
    }
  }
  MergeWord(word, ids);
}

void Bpe::AppendBytes(std::string_view word, std::vector<int32_t>* ids) const {
  bool after_unknown = false;
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      ids->push_back(id);
    } else if (options_.unknown && !(after_unknown && options_.fuse_unknown)) {
      ids->push_back(*options_.unknown);
    }
    after_unknown = id < 0;
  }
}

// Falls back to the tokens of the character's bytes, if it has all of them.
bool Bpe::AppendFallback(std::string_view character,
                         std::vector<int32_t>* ids) const {
  if (!options_.byte_fallback) return false;
  const size_t before = ids->size();
  for (const char c : character) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id < 0) {
      ids->resize(before);
      return false;
    }
    ids->push_back(id);
  }
  return true;
}

// An unknown character is delayed until the next one with a token: if only some bytes have
// tokens, those of later characters come first, as in `tokenizers`.
void Bpe::AppendCharacters(std::string_view word,
                           std::vector<int32_t>* ids) const {
  bool waits = false;
  while (!word.empty()) {
    const std::string_view character =
        word.substr(0, FirstCharacter(word).bytes);
    word.remove_prefix(character.size());
    const int32_t id = UnitOf(character);
    if (id >= 0) {
      if (waits) ids->push_back(*options_.unknown);
      waits = false;
      ids->push_back(id);
    } else if (!AppendFallback(character, ids) && options_.unknown) {
      if (waits && !options_.fuse_unknown) ids->push_back(*options_.unknown);
      waits = true;
    }
  }
  if (waits) ids->push_back(*options_.unknown);
}

// After merging, replaces characters without a token by bytes or `unknown`.
void Bpe::ReplaceUnits(std::vector<int32_t>* ids, size_t begin) const {
  const auto first = ids->begin() + static_cast<ptrdiff_t>(begin);
  if (std::none_of(first, ids->end(),
                   [&](int32_t id) { return id >= size(); })) {
    return;
  }
  const std::vector<int32_t> merged(first, ids->end());
  ids->resize(begin);
  bool after_unknown = false;
  for (const int32_t id : merged) {
    std::string character;
    if (id >= size())
      AppendUtf8(static_cast<char32_t>(id - size()), &character);
    const bool is_unknown = id >= size() && !AppendFallback(character, ids);
    if (id < size()) {
      ids->push_back(id);
    } else if (is_unknown && options_.unknown &&
               !(after_unknown && options_.fuse_unknown)) {
      ids->push_back(*options_.unknown);
    }
    after_unknown = is_unknown;
  }
}

void Bpe::MergeWord(std::string_view word, std::vector<int32_t>* ids) const {
  const size_t begin = ids->size();
  if (options_.characters) {
    AppendCharacters(word, ids);
  } else {
    AppendBytes(word, ids);
  }
  if (ids->size() - begin <= kShort) {
    MergeShort(ids, begin);
  } else {
    MergeLong(ids, begin);
  }
  if (by_scores_) ReplaceUnits(ids, begin);
}

// Scans all pairs for each merge.
void Bpe::MergeShort(std::vector<int32_t>* ids, size_t begin) const {
  int32_t* const word = ids->data() + begin;
  size_t count = ids->size() - begin;
  if (count < 2) return;
  std::array<Merge, kShort> merge;  // of each with the next
  for (size_t i = 0; i + 1 < count; ++i) merge[i] = Find(word[i], word[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merge[i].rank < merge[best].rank) best = i;
    }
    if (merge[best].rank == kNever) break;
    word[best] = merge[best].id;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      word[i] = word[i + 1];
      merge[i] = merge[i + 1];
    }
    if (best > 0) merge[best - 1] = Find(word[best - 1], word[best]);
    if (best + 1 < count) merge[best] = Find(word[best], word[best + 1]);
  }
  ids->resize(begin + count);
}

// Keeps the pairs in a heap. Entries of tokens that have changed since are stale, and are
// recognized by the id at their place.
void Bpe::MergeLong(std::vector<int32_t>* ids, size_t begin) const {
  const size_t count = ids->size() - begin;
  int32_t* const word = ids->data() + begin;
  std::vector<size_t> previous(count), next(count);
  struct Candidate {
    uint32_t rank;
    size_t at;
    uint64_t pair;
    int32_t id;
  };
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> heap(
      later);
  const auto push = [&](size_t at) {
    if (next[at] == count) return;
    const Merge& merge = Find(word[at], word[next[at]]);
    if (merge.rank != kNever) heap.push({merge.rank, at, merge.pair, merge.id});
  };
  for (size_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? count : i - 1;
    next[i] = i + 1;
  }
  for (size_t i = 0; i < count; ++i) push(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    if (word[top.at] < 0 || next[top.at] == count ||
        PairOf(word[top.at], word[next[top.at]]) != top.pair) {
      continue;
    }
    const size_t gone = next[top.at];
    word[top.at] = top.id;
    word[gone] = -1;
    next[top.at] = next[gone];
    if (next[gone] != count) previous[next[gone]] = top.at;
    if (previous[top.at] != count) push(previous[top.at]);
    push(top.at);
  }
  ids->erase(
      std::remove(ids->begin() + static_cast<ptrdiff_t>(begin), ids->end(), -1),
      ids->end());
}

}  // namespace stowage::text
