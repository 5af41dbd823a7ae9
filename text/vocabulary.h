#ifndef STOWAGE_TEXT_VOCABULARY_H_
#define STOWAGE_TEXT_VOCABULARY_H_

// Stores the tokens of a vocabulary. TokenTexts returns tokens by id. OfAlphabet and ByteOfToken
// read the notations for bytes in files. Trie and AddedTokens search for tokens in a text.
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

/// The tokens of a vocabulary, indexed by id and stored in a single string.
class TokenTexts {
 public:
  TokenTexts() = default;
  explicit TokenTexts(const std::vector<std::string>& tokens) {
    ends_.reserve(tokens.size() + 1);
    for (const std::string& token : tokens) Add(token);
  }

  /// Adds the token of the next id. "" marks an unused id.
  void Add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }

  int32_t size() const { return static_cast<int32_t>(ends_.size()) - 1; }

  /// Returns the token with id `id`. Requires `0 <= id < size()`.
  std::string_view operator[](int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(ends_[at],
                                           ends_[at + 1] - ends_[at]);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_ = {0};
};

/// Returns the bytes that `token` denotes in the byte alphabet of GPT-2, which has a printable
/// character for each byte. Returns nullopt if the token contains a character that is not in the
/// alphabet.
std::optional<std::string> OfAlphabet(std::string_view token);

/// Returns the byte of a byte token of SentencePiece, such as "<0x0A>", or nullopt for other
/// tokens.
std::optional<unsigned char> ByteOfToken(std::string_view token);

/// A trie that maps strings to ids. Callers descend it byte by byte.
class Trie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = ~uint32_t{0};
  using Entry = std::pair<std::string_view, int32_t>;

  Trie() : Trie(std::vector<Entry>()) {}
  /// Builds the trie. Of equal strings, the id of the last one is used. O(n log n) in the number of
  /// strings, and linear in their bytes.
  explicit Trie(std::vector<Entry> entries);

  /// Returns the child of `node` for `byte`, or kNone. Logarithmic in the number of children.
  uint32_t Child(uint32_t node, unsigned char byte) const;
  /// Returns the id of the string that ends at `node`, or -1.
  int32_t Id(uint32_t node) const { return nodes_[node].id; }
  /// Returns the id of `text`, or -1.
  int32_t Find(std::string_view text) const;

 private:
  // The children of a node are contiguous in nodes_, ordered by byte.
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

/// A token that is matched in the text before the text is split into words. The fields correspond
/// to added_tokens in tokenizer.json.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;      // a control token, not text
  bool strip_left = false;   // absorbs the white space before it
  bool strip_right = false;  // absorbs the white space after it
  bool single_word = false;  // not matched next to a word character
  bool normalized = false;   // matched in the normalized, not the raw text
  bool is_normal = false;    // `text` is already normalized
};

namespace text {

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Requires that no token has an empty text.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Splits `text` at added tokens. Matches are found from left to right, and at each position the
  /// longest token is used. Calls `piece` for the text between tokens and `token` for each token,
  /// in order. If `special` is false, special tokens are not matched. Stops at the first error of
  /// `piece` and returns it.
  Status Split(std::string_view text, bool special,
               const std::function<Status(std::string_view)>& piece,
               const std::function<void(int32_t)>& token) const;

  /// Returns the longest token at the start of `text`, or null.
  const AddedToken* At(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;  // sorted by text
  std::array<bool, 256> first_{};   // the first bytes of their texts
};

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_VOCABULARY_H_
