#ifndef STOWAGE_TEXT_BPE_H_
#define STOWAGE_TEXT_BPE_H_

// Byte-level byte pair encoding (R. Sennrich et al., 2016; GPT-2): a word's bytes are
// tokens, and of all neighbours those are merged that stand first in the list of
// merges, the leftmost first, until none stands there.
//
// Tokens are written in an alphabet of 256 printable characters, one for each byte:
// "Ġthe" is " the".
//
//   STOWAGE_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(tokens, merges, {}));
//   bpe.Encode(" the", &ids);

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::text {

struct BpeOptions {
  // A word that is a token is that token, however merges would go.
  bool ignore_merges = false;
  // Takes the place of bytes that have no token, which are left out without one.
  std::optional<int32_t> unknown = std::nullopt;
  bool fuse_unknown = false;  // of several bytes in a row
};

class Bpe {
 public:
  /// `tokens` by id, "" where an id has none; `merges` as "left right", the first
  /// merged first. Errors kInvalidArgument: two ids with one token, a merge that is
  /// no pair, of what is no token or to what is none.
  static Result<Bpe> Create(const std::vector<std::string>& tokens,
                            const std::vector<std::string>& merges,
                            const BpeOptions& options);

  /// Appends the tokens of one word. O(n log n) for n bytes.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  /// How many ids there are; some may be without a token.
  int32_t size() const { return static_cast<int32_t>(starts_.size()) - 1; }
  /// The bytes that the token stands for; what is not in the alphabet stands for
  /// itself. Empty where the id has no token. Precondition: 0 <= id < size().
  std::string_view Bytes(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(starts_[at],
                                           starts_[at + 1] - starts_[at]);
  }

 private:
  // The merge of a pair of ids, in a table with open addressing.
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = kNever;
    int32_t id = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

  static uint64_t PairOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 |
           static_cast<uint32_t>(right);
  }
  size_t SlotOf(uint64_t pair) const {
    return static_cast<size_t>(pair * 0x9E3779B97F4A7C15u >> merge_shift_);
  }
  const Merge& Find(int32_t left, int32_t right) const;
  void MergeShort(std::vector<int32_t>* ids, size_t begin) const;
  void MergeLong(std::vector<int32_t>* ids, size_t begin) const;
  void MergeWord(std::string_view word, std::vector<int32_t>* ids) const;
  size_t WordSlot(std::string_view word) const;
  void KeepWholeWords();

  std::string bytes_;                    // of all tokens
  std::vector<uint32_t> starts_;         // by id, and the end
  std::array<int32_t, 256> byte_ids_{};  // -1: no token
  std::vector<Merge> merges_;
  int merge_shift_ = 63;
  // Words that are one token, by their bytes: most of a text. -1: free.
  std::vector<int32_t> words_;
  size_t longest_word_ = 0;
  BpeOptions options_;
};

/// `bytes` in the alphabet that tokens are written in.
std::string InAlphabet(std::string_view bytes);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_BPE_H_
