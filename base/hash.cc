#include "base/hash.h"

#include <bit>
#include <charconv>
#include <cstdio>

namespace stowage {
namespace {

constexpr uint64_t kPrime1 = 11400714785074694791u;
constexpr uint64_t kPrime2 = 14029467366897019727u;
constexpr uint64_t kPrime3 = 1609587929392839161u;
constexpr uint64_t kPrime4 = 9650029242287828579u;
constexpr uint64_t kPrime5 = 2870177450012600261u;

// Little-endian on every machine; compiles to one load.
template <int kBytes>
uint64_t Load(const char* at) {
  uint64_t value = 0;
  for (int i = 0; i < kBytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(at[i])) << (8 * i);
  }
  return value;
}

uint64_t Round(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

uint64_t Merge(uint64_t hash, uint64_t lane) {
  return (hash ^ Round(0, lane)) * kPrime1 + kPrime4;
}

}  // namespace

std::string HexDigest(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(digest));
  return text;
}

std::string Hex(uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16);
  return std::string(digits, end.ptr);
}

uint64_t Xxh64(std::string_view text, uint64_t seed) {
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = seed + kPrime5;
  if (left >= 32) {
    uint64_t a = seed + kPrime1 + kPrime2, b = seed + kPrime2, c = seed,
             d = seed - kPrime1;
    for (; left >= 32; left -= 32, at += 32) {
      a = Round(a, Load<8>(at));
      b = Round(b, Load<8>(at + 8));
      c = Round(c, Load<8>(at + 16));
      d = Round(d, Load<8>(at + 24));
    }
    hash =
        std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const uint64_t lane : {a, b, c, d}) hash = Merge(hash, lane);
  }
  hash += text.size();
  for (; left >= 8; left -= 8, at += 8) {
    hash = std::rotl(hash ^ Round(0, Load<8>(at)), 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ (Load<4>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at) {
    hash = std::rotl(hash ^ (Load<1>(at) * kPrime5), 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace stowage
