#ifndef STOWAGE_BASE_HASH_H_
#define STOWAGE_BASE_HASH_H_

// Computes non-cryptographic 64-bit hashes: FNV-1a (Fnv1a), which accepts the content in several
// calls, and XXH64 (Xxh64), which is faster for large blocks. They detect accidental changes, not
// attacks.
//
//   Fnv1a hash;
//   hash.Update(header);  hash.Update(bytes);
//   hash.digest();
//   Xxh64(content, Xxh64(key));

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stowage {

/// A 64-bit FNV-1a hash of all bytes passed to Update, in order (Fowler, Noll and Vo).
class Fnv1a {
 public:
  void Update(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) {
      state_ = (state_ ^ static_cast<uint64_t>(b)) * 1099511628211u;
    }
  }
  void Update(std::string_view text) {
    Update(std::as_bytes(std::span(text.data(), text.size())));
  }
  uint64_t digest() const { return state_; }

 private:
  uint64_t state_ = 14695981039346656037u;
};

/// Returns `digest` as 16 hexadecimal digits.
std::string HexDigest(uint64_t digest);
/// Returns `value` in hexadecimal, without leading zeros.
std::string Hex(uint64_t value);

/// Returns the XXH64 hash of `text` (Y. Collet, xxHash fast digest algorithm, format 0.1.1). Linear
/// in the size of `text`.
uint64_t Xxh64(std::string_view text, uint64_t seed = 0);

}  // namespace stowage

#endif  // STOWAGE_BASE_HASH_H_
