#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "text/unicode.h"

namespace stowage::text {
namespace {

// Printable bytes map to themselves, the others to U+0100 and up.
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

// The inverse of Alphabet().
class AlphabetReader {
 public:
  AlphabetReader() {
    bytes_.fill(-1);
    const auto alphabet = Alphabet();
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[alphabet[byte]] = static_cast<int>(byte);
    }
  }
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

std::optional<std::string> OfAlphabet(std::string_view token) {
  static const AlphabetReader* const reader = new AlphabetReader;
  return reader->Read(token);
}

std::optional<unsigned char> ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
    return std::nullopt;
  }
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<unsigned char>(value);
}

Trie::Trie(std::vector<Entry> entries) {
  std::ranges::stable_sort(entries, {}, &Entry::first);
  // For each node, the range of sorted entries that pass through it.
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> ranges = {{0, entries.size()}};
  nodes_.emplace_back();
  size_t level_end = 1, depth = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (i == level_end) {
      level_end = nodes_.size();
      ++depth;
    }
    size_t at = ranges[i].begin;
    while (at < ranges[i].end && entries[at].first.size() == depth) {
      nodes_[i].id = entries[at++].second;
    }
    nodes_[i].children = static_cast<uint32_t>(nodes_.size());
    while (at < ranges[i].end) {
      const char byte = entries[at].first[depth];
      const size_t begin = at;
      while (at < ranges[i].end && entries[at].first[depth] == byte) ++at;
      ranges.push_back({begin, at});
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ++nodes_[i].count;
    }
  }
}

uint32_t Trie::Child(uint32_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].children;
  const auto end = begin + nodes_[node].count;
  const auto child = std::lower_bound(
      begin, end, byte,
      [](const Node& a, unsigned char b) { return a.byte < b; });
  if (child == end || child->byte != byte) return kNone;
  return static_cast<uint32_t>(child - nodes_.begin());
}

int32_t Trie::Find(std::string_view text) const {
  uint32_t node = kRoot;
  for (const char c : text) {
    node = Child(node, static_cast<unsigned char>(c));
    if (node == kNone) return -1;
  }
  return Id(node);
}

namespace {

// Whether no word character is adjacent to [begin, end) of `text`.
bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  const auto is_word = [&](size_t at) {
    return IsWordCharacter(FirstCharacter(text.substr(at)).code);
  };
  return (begin == 0 || !is_word(LastCharacter(text.substr(0, begin)))) &&
         (end == text.size() || !is_word(end));
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
  const AddedToken* longest = nullptr;
  if (text.empty() || !first_[static_cast<unsigned char>(text.front())]) {
    return longest;
  }
  // Tokens that begin with the first n bytes of `text` are contiguous.
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
  size_t done = 0;  // the end of the text that has been passed on
  for (size_t at = 0; at < text.size();) {
    const AddedToken* const found = At(text.substr(at));
    if (found == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    at += found->text.size();
    if (found->special && !special) continue;
    if (found->single_word && !StandsAlone(text, begin, at)) continue;
    size_t end = at;
    // White space that the token before has absorbed is not absorbed again; white space
    // that this one absorbs is still searched for tokens.
    if (found->strip_left) {
      begin = std::max(done, TrailingSpace(text.substr(0, begin)));
    }
    if (found->strip_right) end += LeadingSpace(text.substr(end));
    // A token of white space that the one before has absorbed is empty.
    if (begin >= end) continue;
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
