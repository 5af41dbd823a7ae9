#include "formats/gzip.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/npy.h"
#include "tests/formats/hex.h"

namespace stowage {
namespace {

using testing::FromHex;

// By Python's gzip.compress: 2 x 3 of u8 as IDX.
const std::string kZipped = FromHex(
    "1f8b08000000000002036360e06062606000616646266616d6ff00f0de5f2112000000");

TEST_CASE("an IDX file may be compressed") {
  const Result<Array> array = ParseIdx(kZipped, "a.idx.gz");
  REQUIRE_MESSAGE(array.ok(), array.error().message);
  CHECK(ValuesOf<uint8_t>(*array) == std::vector<uint8_t>{1, 2, 3, 4, 5, 255});
}

TEST_CASE("a file of two members holds the one after the other") {
  const Result<std::string> once = Gunzip(kZipped, "a.gz");
  REQUIRE_MESSAGE(once.ok(), once.error().message);
  const Result<std::string> twice = Gunzip(kZipped + kZipped, "a.gz");
  REQUIRE_MESSAGE(twice.ok(), twice.error().message);
  CHECK(*twice == *once + *once);
}

TEST_CASE("a compressed file that is cut short or damaged is refused") {
  for (size_t size = 2; size < kZipped.size(); ++size) {
    INFO("first bytes kept: " << size);
    const Result<std::string> cut = Gunzip(kZipped.substr(0, size), "a.gz");
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(Gunzip(kZipped.substr(0, 30), "a.gz").error().message ==
        "[gzip] \"a.gz\" ends early: its 30 bytes hold 18 and no end");
  CHECK(Gunzip(kZipped + "tail", "a.gz").error().message ==
        "[gzip] \"a.gz\" goes on for 4 bytes after its end");
  std::string wrong = kZipped;
  wrong[28] ^= 1;  // of the checksum
  CHECK(Gunzip(wrong, "a.gz").error().message ==
        "[gzip] \"a.gz\" is damaged: incorrect data check");
}

TEST_CASE("a raw stream holds as many bytes as it is said to") {
  // The same without header and checksum.
  const std::string raw = kZipped.substr(10, kZipped.size() - 18);
  const Result<std::string> content = Inflate(raw, 18, "a");
  REQUIRE_MESSAGE(content.ok(), content.error().message);
  CHECK(*content == *Gunzip(kZipped, "a.gz"));
  CHECK(Inflate(raw, 17, "a").error().message ==
        "[gzip] \"a\" is said to hold 17 bytes; its 17 bytes hold more");
  CHECK(Inflate(raw, 19, "a").error().message ==
        "[gzip] \"a\" is said to hold 19 bytes; its 17 bytes hold 18");
  CHECK(Inflate(raw, 1'000'000'000, "a").error().message ==
        "[gzip] \"a\" is said to hold 1000000000 bytes; its 17 bytes hold "
        "fewer");
}

}  // namespace
}  // namespace stowage
