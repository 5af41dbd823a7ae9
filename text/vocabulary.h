#ifndef STOWAGE_TEXT_VOCABULARY_H_
#define STOWAGE_TEXT_VOCABULARY_H_

// The tokens of a vocabulary: their texts by id, the ways in which files write bytes, and
// the search for the tokens at the start of a text.
//
//   TokenTexts texts;
//   texts.Add("the");                              // texts[0] == "the"
//
//   OfAlphabet("Ġthe") == " the";
//   ByteOfToken("<0x0A>") == '\n';
//
//   Trie trie({{"a", 0}, {"ab", 1}});
//   uint32_t node = trie.Child(Trie::kRoot, 'a');  // trie.Id(node) == 0
//   node = trie.Child(node, 'b');                  // trie.Id(node) == 1
//
//   AddedTokens tokens({{.text = "<|im_end|>", .id = 2, .special = true}});
//   tokens.Split(text, /*special=*/true,
//                [](std::string_view piece) {}, [](int32_t id) {});

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace stowage::text {

/// The texts of all tokens by id, in one string.
class TokenTexts {
 public:
  TokenTexts() = default;
  explicit TokenTexts(const std::vector<std::string>& tokens) {
    ends_.reserve(tokens.size() + 1);
    for (const std::string& token : tokens) Add(token);
  }

  /// Adds the text of the next id; "" for an unused id.
  void Add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }

  int32_t size() const { return static_cast<int32_t>(ends_.size()) - 1; }

  /// Precondition: 0 <= id < size().
  std::string_view operator[](int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(ends_[at],
                                           ends_[at + 1] - ends_[at]);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_ = {0};
};

/// The bytes of a token in GPT-2's byte alphabet, which has a printable character for each
/// byte; absent if it holds another character.
std::optional<std::string> OfAlphabet(std::string_view token);

/// The byte of SentencePiece's token of a byte, such as "<0x0A>"; absent for other texts.
std::optional<unsigned char> ByteOfToken(std::string_view token);

/// A trie of texts with ids, descended byte by byte.
class Trie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = ~uint32_t{0};
  using Entry = std::pair<std::string_view, int32_t>;

  Trie() : Trie(std::vector<Entry>()) {}
  /// Of equal texts, the last one's id counts. O(n log n) in the number of texts, linear in
  /// their bytes.
  explicit Trie(std::vector<Entry> entries);

  /// The child of `node` for `byte`, or kNone. Logarithmic in the number of children.
  uint32_t Child(uint32_t node, unsigned char byte) const;
  /// The id of the text that ends at `node`, or -1.
  int32_t Id(uint32_t node) const { return nodes_[node].id; }
  /// The id of `text`, or -1.
  int32_t Find(std::string_view text) const;

 private:
  // Children are contiguous in nodes_, ordered by byte.
  struct Node {
    uint32_t children = 0;
    uint16_t count = 0;
    unsigned char byte = 0;
    int32_t id = -1;
  };
  std::vector<Node> nodes_;
};

}  // namespace stowage::text

namespace stowage {

/// A token that is matched in the text itself, before it is split into words. The fields are
/// those of tokenizer.json's added_tokens.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;      // a control token, not text
  bool strip_left = false;   // absorbs the white space before it
  bool strip_right = false;  // absorbs the white space after it
  bool single_word = false;  // not matched next to a word character
  bool normalized = false;   // matched in normalized text, else in the raw text
  bool is_normal = false;    // `text` is normalized already
};

namespace text {

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Precondition: no text is empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Splits `text` at added tokens, leftmost first and of several the longest, and calls
  /// `piece` for the text between and `token` for each token, in order. Without `special`,
  /// special tokens are text. Stops at the first error.
  Status Split(std::string_view text, bool special,
               const std::function<Status(std::string_view)>& piece,
               const std::function<void(int32_t)>& token) const;

  /// The longest token at the start of `text`, if any.
  const AddedToken* At(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;  // sorted by text
  std::array<bool, 256> first_{};   // the first bytes of their texts
};

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_VOCABULARY_H_
