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

// By numpy.savez_compressed: x = zeros((4, 5)), b = [True, False].
constexpr std::string_view kNpzDeflated =
    "504b03042d00000008000000210033bfd215ffffffffffffffff05001400782e6e707901"
    "001000200100000000000049000000000000009bec17ea1b10c9c850c650ad9e925a9c5c"
    "a46ea5a06e9366a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416"
    "a402f91a263a0aa69a3a0ab50a64032e86410e00504b03042d000000080000002100ee19"
    "bb5dffffffffffffffff05001400622e6e70790100100082000000000000004600000000"
    "0000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e9364a8aea3a09e965f5452"
    "9498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a14002e4606"
    "00504b01022d032d00000008000000210033bfd215490000002001000005000000000000"
    "0000000000800100000000782e6e7079504b01022d032d000000080000002100ee19bb5d"
    "4600000082000000050000000000000000000000800180000000622e6e7079504b050600"
    "0000000200020066000000fd0000000000";

TEST_CASE("the arrays of numpy.savez_compressed are read") {
  const auto arrays = ParseNpz(FromHex(kNpzDeflated), "a.npz");
  REQUIRE_MESSAGE(arrays.ok(), arrays.error().message);
  REQUIRE(arrays->size() == 2);
  CHECK((*arrays)[0].name == "x");
  CHECK((*arrays)[0].array.type == TensorType{DType::kF64, {4, 5}});
  CHECK(ValuesOf<double>((*arrays)[0].array) == std::vector<double>(20));
  CHECK((*arrays)[1].array.type == TensorType{DType::kBool, {2}});
  CHECK((*arrays)[1].array.bytes == std::string("\1\0", 2));
}

}  // namespace
}  // namespace stowage
