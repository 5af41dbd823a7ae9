#ifndef STOWAGE_TESTS_FORMATS_HEX_H_
#define STOWAGE_TESTS_FORMATS_HEX_H_

// Converts hexadecimal digits to bytes, for tests that store files of other programs as digits.
//
//   FromHex("1f8b") == "\x1f\x8b"

#include <string>
#include <string_view>

namespace stowage::testing {

inline std::string FromHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return bytes;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_FORMATS_HEX_H_
