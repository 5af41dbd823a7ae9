#ifndef STOWAGE_TEXT_BPE_H_
#define STOWAGE_TEXT_BPE_H_

// Byte pair encoding (R. Sennrich et al., 2016): a word begins as a list of units, and of all
// adjacent pairs the one that is first in the list of merges is merged, leftmost first, until
// no pair is in the list.
//
// GPT-2's units are bytes, and its tokens are written in an alphabet of 256 printable
// characters: "Ġthe" is " the" (text/vocabulary.h). SentencePiece's units are characters; one
// without a token becomes its bytes, "<0xE2>" and so on, or unknown. SentencePiece has scores
// instead of merges: the pair whose concatenation is the token of the highest score is merged
// first.
//
//   STOWAGE_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Create(tokens, merges, {}));
//   bpe.Encode(" the", &ids);

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace stowage::text {

/// The maximum length of a token for Bpe::ByScores, in bytes.
inline constexpr size_t kMaxScoredToken = 512;

struct BpeOptions {
  // A word that is a token becomes it, without merging.
  bool ignore_merges = false;
  // Replaces units without a token; absent: they are dropped.
  std::optional<int32_t> unknown = std::nullopt;
  bool fuse_unknown = false;   // one `unknown` for a run of such units
  bool characters = false;     // units are characters, else bytes
  bool byte_fallback = false;  // a character without a token becomes its bytes
  // Ids that are never produced, such as those of control tokens.
  std::vector<int32_t> apart = {};
};

class Bpe {
 public:
  /// `tokens` by id, "" for an unused id; `merges` as "left right", in order of priority.
  /// Errors kInvalidArgument: two ids with one token; a merge that is not a pair, or whose
  /// parts or result are not tokens.
  static Result<Bpe> Create(const std::vector<std::string>& tokens,
                            const std::vector<std::string>& merges,
                            const BpeOptions& options);

  /// `scores` by id. Precondition: options.characters, a finite score for each token.
  /// Errors kInvalidArgument: two ids with one token; kUnsupported: a token longer than
  /// kMaxScoredToken. O(n L) for n bytes of tokens of at most L.
  static Result<Bpe> ByScores(const std::vector<std::string>& tokens,
                              const std::vector<double>& scores,
                              const BpeOptions& options);

  /// Appends the tokens of one word. O(n log n) for n bytes.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  /// The number of ids, unused ones included.
  int32_t size() const { return texts_.size(); }
  /// The bytes of the token: decoded from the byte alphabet, or the token itself if it is
  /// not in the alphabet. Empty for an unused id. Precondition: 0 <= id < size().
  std::string_view Bytes(int32_t id) const { return texts_[id]; }

 private:
  // The merge of a pair of ids, in a table with open addressing.
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = kNever;
    int32_t id = 0;
  };
  using Ids = std::unordered_map<std::string_view, int32_t>;
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

  static uint64_t PairOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 |
           static_cast<uint32_t>(right);
  }
  size_t SlotOf(uint64_t pair) const {
    return static_cast<size_t>(pair * 0x9E3779B97F4A7C15u >> merge_shift_);
  }
  Result<Ids> Place(const std::vector<std::string>& tokens);
  std::vector<bool> Apart() const;
  void AddUnit(std::string_view token, int32_t id, bool is_apart);
  void PlaceMerges(const std::vector<Merge>& merges);
  void AddSplits(std::string_view token, const Merge& merge, const Ids& id_of,
                 std::vector<Merge>* merges) const;
  int32_t UnitOf(std::string_view character) const;
  const Merge& Find(int32_t left, int32_t right) const;
  void AppendBytes(std::string_view word, std::vector<int32_t>* ids) const;
  void AppendCharacters(std::string_view word, std::vector<int32_t>* ids) const;
  bool AppendFallback(std::string_view character,
                      std::vector<int32_t>* ids) const;
  void ReplaceUnits(std::vector<int32_t>* ids, size_t begin) const;
  void MergeShort(std::vector<int32_t>* ids, size_t begin) const;
  void MergeLong(std::vector<int32_t>* ids, size_t begin) const;
  void MergeWord(std::string_view word, std::vector<int32_t>* ids) const;
  size_t WordSlot(std::string_view word) const;
  void KeepWholeWords();

  TokenTexts texts_;
  std::array<int32_t, 256> byte_ids_{};  // of bytes, or "<0x00>" on; -1: none
  std::unordered_map<char32_t, int32_t> character_ids_;
  std::vector<Merge> merges_;
  int merge_shift_ = 63;
  // A hash table of words that are one token, which most of a text is. -1: free.
  std::vector<int32_t> words_;
  size_t longest_word_ = 0;
  // Characters without a token may take part in merges: until merging ends, their unit is
  // size() plus their code.
  bool by_scores_ = false;
  BpeOptions options_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_BPE_H_
