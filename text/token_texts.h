#ifndef STOWAGE_TEXT_TOKEN_TEXTS_H_
#define STOWAGE_TEXT_TOKEN_TEXTS_H_

// The texts of all tokens by id, side by side in one string.
//
//   TokenTexts texts;
//   texts.Add("the");
//   texts[0] == "the";

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stowage::text {

class TokenTexts {
 public:
  TokenTexts() = default;
  explicit TokenTexts(const std::vector<std::string>& tokens) {
    ends_.reserve(tokens.size() + 1);
    for (const std::string& token : tokens) Add(token);
  }

  /// The text of the next id; empty where it has no token.
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

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKEN_TEXTS_H_
