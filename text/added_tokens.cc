#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace stowage::text {
namespace {

// Whether there is no letter, digit or the like right before and after a part of `text`.
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
  // Those that begin with the first n bytes of `text` stand together.
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
  size_t done = 0;  // up to where `text` has been given
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
    // Space that the token before has taken is taken; but what follows this one is
    // looked through again for tokens, as if it were not.
    if (found->strip_left) {
      begin = std::max(done, TrailingSpace(text.substr(0, begin)));
    }
    if (found->strip_right) end += LeadingSpace(text.substr(end));
    // Of white space that is a token, and taken by the one before it, nothing is left.
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
