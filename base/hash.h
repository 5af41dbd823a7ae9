#ifndef STOWAGE_BASE_HASH_H_
#define STOWAGE_BASE_HASH_H_

// FNV-1a, 64 bits: the digest of graph texts and checkpoint bytes. It tells
// accidents apart, not attacks.
//
//   Fnv1a hash;
//   hash.Update(header);  hash.Update(bytes);
//   hash.digest();

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace stowage {

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

}  // namespace stowage

#endif  // STOWAGE_BASE_HASH_H_
