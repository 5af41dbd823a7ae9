#ifndef STOWAGE_TEXT_BPE_H_
#define STOWAGE_TEXT_BPE_H_

// Byte pair encoding (R. Sennrich et al., 2016): a word's units are tokens, and of all
// neighbours those are merged that come first in the list of merges, the leftmost
// first, until none is in it.
//
// The units of GPT-2 and its kind are bytes, and tokens are written in an alphabet of 256
// printable characters, one for each byte: "Ġthe" is " the". Those of SentencePiece are
// characters; one without a token is its bytes, "<0xE2>" and so on, or unknown. Its files
// have scores in place of merges: of the pairs that together are a token, that of the
// highest score is merged first.
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
#include "text/token_texts.h"

namespace stowage::text {

/// The longest token that Bpe::ByScores takes, in bytes.
inline constexpr size_t kMaxScoredToken = 512;

struct BpeOptions {
  // A word that is a token is that token, however merges would go.
  bool ignore_merges = false;
  // Takes the place of units that have no token, which are left out without one.
  std::optional<int32_t> unknown = std::nullopt;
  bool fuse_unknown = false;   // of several units in a row
  bool characters = false;     // units are characters, else bytes
  bool byte_fallback = false;  // a character without a token is its bytes
  // Ids that no text becomes, as those of control tokens.
  std::vector<int32_t> apart = {};
};

class Bpe {
 public:
  /// `tokens` by id, "" where an id has none; `merges` as "left right", the first
  /// merged first. Errors kInvalidArgument: two ids with one token, a merge that is
  /// no pair, of what is no token or to what is none.
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

  /// How many ids there are; some may be without a token.
  int32_t size() const { return texts_.size(); }
  /// The bytes that the token stands for; what is not in the alphabet stands for
  /// itself. Empty where the id has no token. Precondition: 0 <= id < size().
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
  // Words that are one token, by their bytes: most of a text. -1: free.
  std::vector<int32_t> words_;
  size_t longest_word_ = 0;
  // Characters without a token may be parts of merges: their unit is size() and their
  // code, until all is merged.
  bool by_scores_ = false;
  BpeOptions options_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_BPE_H_
