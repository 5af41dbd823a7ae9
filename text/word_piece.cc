#include "text/word_piece.h"

#include <utility>

#include "base/result.h"

namespace stowage::text {
namespace {

// The longest text that `rest` begins with: its id, and its bytes in `*bytes`.
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

// Whether all of the word is tokens.
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
