#include "base/hash.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace stowage {
namespace {

TEST_CASE("XXH64 gives the digests of its reference implementation") {
  CHECK(Xxh64("") == 0xef46db3751d8e999u);
  CHECK(Xxh64("a") == 0xd24ec4f1a98c6e5bu);
  CHECK(Xxh64("abc") == 0x44bc2cf5ad770999u);
  CHECK(Xxh64("Nobody inspects the spammish repetition") ==
        0xfbcea83c8a378bf1u);
  CHECK(Xxh64("xxhash", 20141025) == 0xb559b98d844e0635u);
}

TEST_CASE("XXH64 tells texts apart by every bit, whatever their length") {
  for (size_t size = 1; size < 100; ++size) {
    std::string text(size, 'x');
    const uint64_t digest = Xxh64(text);
    for (size_t at = 0; at < size; ++at) {
      CAPTURE(size);
      CAPTURE(at);
      text[at] ^= 1;
      CHECK(Xxh64(text) != digest);
      text[at] ^= 1;
    }
  }
}

}  // namespace
}  // namespace stowage
