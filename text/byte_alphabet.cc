#include "text/byte_alphabet.h"

#include <array>

#include "base/strings.h"
#include "text/utf8.h"

namespace stowage::text {
namespace {

// Printable bytes are their own characters; the others follow from U+0100 on.
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

// Reads what is written in the alphabet.
class AlphabetReader {
 public:
  AlphabetReader() {
    bytes_.fill(-1);
    const auto alphabet = Alphabet();
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[alphabet[byte]] = static_cast<int>(byte);
    }
  }
  // The bytes of `token`; nothing when it holds another character.
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

std::string InAlphabet(std::string_view bytes) {
  const auto alphabet = Alphabet();
  std::string out;
  for (const char c : bytes) {
    AppendUtf8(alphabet[static_cast<unsigned char>(c)], &out);
  }
  return out;
}

std::optional<std::string> OfAlphabet(std::string_view token) {
  static const AlphabetReader* const reader = new AlphabetReader;
  return reader->Read(token);
}

std::string ByteToken(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return StrCat("<0x", kDigits[byte >> 4], kDigits[byte & 15], ">");
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

}  // namespace stowage::text
