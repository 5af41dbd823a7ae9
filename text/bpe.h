#ifndef STOWAGE_TEXT_BPE_H_
#define STOWAGE_TEXT_BPE_H_

// Encodes words with byte pair encoding (R. Sennrich et al., 2016). A word is initially a list of
// units. Among its adjacent pairs, the pair that comes first in the list of merges is replaced by
// its concatenation, leftmost first. This is repeated until no adjacent pair is in the list of
// merges.
//
// The units of GPT-2 are bytes. Its files contain tokens in an alphabet of 256 printable
// characters, in which "Ġthe" is " the" (text/vocabulary.h). The units of SentencePiece are
// characters. A character without a token is encoded as its bytes, "<0xE2>" and so on, or as the
// unknown token. SentencePiece has scores instead of merges: the pair whose concatenation is the
// token with the highest score is merged first.
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
  // A word that is a token is encoded as this token, without merging.
  bool ignore_merges = false;
  // Replaces units without a token. If absent, these units are dropped.
  std::optional<int32_t> unknown = std::nullopt;
  bool fuse_unknown = false;   // one `unknown` replaces adjacent units
  bool characters = false;     // units are characters, not bytes
  bool byte_fallback = false;  // characters without a token become bytes
  // Ids that Encode never produces, such as the ids of control tokens.
  std::vector<int32_t> apart = {};
};

class Bpe {
 public:
  /// Creates an encoder with merges. `tokens` is indexed by id, and "" marks an unused id. Each
  /// element of `merges` is "left right", in order of priority. The ids in `options` must be valid.
  /// Returns kInvalidArgument if two ids have the same token, if a merge is not a pair, or if an
  /// element of the pair or their concatenation is not in `tokens`.
  static Result<Bpe> Create(const std::vector<std::string>& tokens,
                            const std::vector<std::string>& merges,
                            const BpeOptions& options);

  /// Creates an encoder with scores, which are indexed by id. Requires `options.characters`, valid
  /// ids in `options`, and a finite score for each token. Returns kInvalidArgument if two ids have
  /// the same token, and kUnsupported if a token is longer than kMaxScoredToken. O(n L), where n is
  /// the number of bytes of all tokens and L of the longest token.
  static Result<Bpe> ByScores(const std::vector<std::string>& tokens,
                              const std::vector<double>& scores,
                              const BpeOptions& options);

  /// Appends the tokens of one word to `ids`. O(n log n) for a word of n bytes.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  /// Returns the number of ids, including unused ids.
  int32_t size() const { return texts_.size(); }
  /// Returns the bytes of a token, or "" for an unused id. If units are bytes, a token in the byte
  /// alphabet is decoded. Other tokens are returned unchanged. Requires `0 <= id < size()`.
  std::string_view Bytes(int32_t id) const { return texts_[id]; }

 private:
  // The merge of a pair of ids: an entry of a hash table with open addressing.
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
  std::array<int32_t, 256> byte_ids_{};  // of bytes or "<0x00>" etc., or -1
  std::unordered_map<char32_t, int32_t> character_ids_;
  std::vector<Merge> merges_;
  int merge_shift_ = 63;
  // A hash table of the words that are one token, which are most words of a text. -1 marks a free
  // slot.
  std::vector<int32_t> words_;
  size_t longest_word_ = 0;
  // If true, characters without a token may take part in merges. During merging, the unit of such a
  // character is size() plus its code.
  bool by_scores_ = false;
  BpeOptions options_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_BPE_H_
