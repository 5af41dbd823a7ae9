#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>

#include "base/errors.h"
#include "base/hash.h"
#include "base/strings.h"
#include "text/utf8.h"

namespace stowage::text {
namespace {

constexpr size_t kShort =
    32;  // bytes up to which looking at all pairs is quicker

// Printable bytes are their own characters; the others follow from U+0100 on.
bool IsPrintable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

std::array<char32_t, 256> Alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    alphabet[byte] = IsPrintable(byte) ? byte : next++;
  }
  return alphabet;
}

// Reads what is written in the alphabet.
class AlphabetReader {
 public:
  AlphabetReader() {
    bytes_.fill(-1);
    const auto alphabet = Alphabet();
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[alphabet[byte]] = static_cast<int>(byte);
    }
  }
  // The bytes of `token`; nothing when it holds another character.
  std::optional<std::string> Read(std::string_view token) const {
    std::string bytes;
    while (!token.empty()) {
      const Character c = FirstCharacter(token);
      if (!c.well_formed || c.code >= bytes_.size() || bytes_[c.code] < 0) {
        return std::nullopt;
      }
      bytes += static_cast<char>(bytes_[c.code]);
      token.remove_prefix(c.bytes);
    }
    return bytes;
  }

 private:
  std::array<int, 0x144> bytes_{};
};

}  // namespace

std::string InAlphabet(std::string_view bytes) {
  const auto alphabet = Alphabet();
  std::string out;
  for (const char c : bytes) {
    AppendUtf8(alphabet[static_cast<unsigned char>(c)], &out);
  }
  return out;
}

Result<Bpe> Bpe::Create(const std::vector<std::string>& tokens,
                        const std::vector<std::string>& merges,
                        const BpeOptions& options) {
  Bpe bpe;
  bpe.options_ = options;
  bpe.byte_ids_.fill(-1);
  const AlphabetReader alphabet;
  std::unordered_map<std::string_view, int32_t> id_of;
  id_of.reserve(tokens.size());
  bpe.starts_.reserve(tokens.size() + 1);
  bpe.starts_.push_back(0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::optional<std::string> bytes = alphabet.Read(tokens[i]);
    bpe.bytes_ += bytes ? *bytes : tokens[i];
    bpe.starts_.push_back(static_cast<uint32_t>(bpe.bytes_.size()));
    if (tokens[i].empty()) continue;
    const auto [there, is_new] = id_of.emplace(tokens[i], id);
    if (!is_new) {
      return InvalidArgumentError("[text] tokens ", there->second, " and ", id,
                                  " are both ", Quoted(tokens[i]),
                                  "; expected each once");
    }
    if (bytes && bytes->size() == 1) {
      bpe.byte_ids_[static_cast<unsigned char>(bytes->front())] = id;
    }
  }

  const size_t slots = std::bit_ceil(2 * merges.size() + 2);
  bpe.merges_.resize(slots);
  bpe.merge_shift_ = 64 - std::countr_zero(slots);
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
    const uint64_t pair = PairOf(ids[0], ids[1]);
    size_t slot = bpe.SlotOf(pair);
    while (bpe.merges_[slot].pair != kNoPair &&
           bpe.merges_[slot].pair != pair) {
      slot = (slot + 1) & (slots - 1);
    }
    bpe.merges_[slot] = {pair, static_cast<uint32_t>(rank), ids[2]};
  }
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

// A token that its own bytes merge to need not be merged again.
void Bpe::KeepWholeWords() {
  words_.assign(std::bit_ceil(2 * static_cast<size_t>(size()) + 2), -1);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view bytes = Bytes(id);
    if (bytes.empty()) continue;
    ids.clear();
    if (!options_.ignore_merges) {
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

void Bpe::MergeWord(std::string_view word, std::vector<int32_t>* ids) const {
  const size_t begin = ids->size();
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
  if (ids->size() - begin <= kShort) {
    MergeShort(ids, begin);
  } else {
    MergeLong(ids, begin);
  }
}

// Looks at all pairs for each merge.
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

// Keeps the pairs in a heap. What is in it for a token that has changed since is
// skipped: a token's place holds another id then, or none.
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
