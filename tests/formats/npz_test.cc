#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/npy.h"
#include "tests/formats/hex.h"

namespace stowage {
namespace {

using testing::FromHex;

// By numpy.savez: x = [1, 2, 3] of u8, y = 2.5.
constexpr std::string_view kNpz =
    "504b03042d0000000000000021002ae38eb1ffffffffffffffff05001400782e6e707901"
    "00100083000000000000008300000000000000934e554d5059010076007b276465736372"
    "273a20277c7531272c2027666f727472616e5f6f72646572273a2046616c73652c202773"
    "68617065273a2028332c292c207d20202020202020202020202020202020202020202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020"
    "20200a010203504b03042d00000000000000210035b43a93ffffffffffffffff05001400"
    "792e6e70790100100088000000000000008800000000000000934e554d5059010076007b"
    "276465736372273a20273c6638272c2027666f727472616e5f6f72646572273a2046616c"
    "73652c20277368617065273a2028292c207d202020202020202020202020202020202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020"
    "20202020202020200a0000000000000440504b01022d032d0000000000000021002ae38e"
    "b18300000083000000050000000000000000000000800100000000782e6e7079504b0102"
    "2d032d00000000000000210035b43a938800000088000000050000000000000000000000"
    "8001ba000000792e6e7079504b0506000000000200020066000000790100000000";

std::string Refuse(std::string_view bytes) {
  const Result<std::vector<NamedArray>> arrays = ParseNpz(bytes, "a.npz");
  REQUIRE_FALSE(arrays.ok());
  CHECK(arrays.error().code == ErrorCode::kInvalidArgument);
  return arrays.error().message;
}

std::vector<NamedArray> Two() {
  return {{"x", {{DType::kU8, {3}}, "\1\2\3"}},
          {"y.z", {{DType::kI16, {1, 1}}, "ab"}}};
}

TEST_CASE("the arrays of numpy.savez are read by name") {
  const auto arrays = ParseNpz(FromHex(kNpz), "a.npz");
  REQUIRE_MESSAGE(arrays.ok(), arrays.error().message);
  REQUIRE(arrays->size() == 2);
  CHECK((*arrays)[0].name == "x");
  CHECK(ValuesOf<uint8_t>((*arrays)[0].array) == std::vector<uint8_t>{1, 2, 3});
  CHECK((*arrays)[1].name == "y");
  CHECK((*arrays)[1].array.type == TensorType{DType::kF64, {}});
  CHECK(ValuesOf<double>((*arrays)[1].array) == std::vector<double>{2.5});
}

TEST_CASE("what is written is read again") {
  const Result<std::string> bytes = NpzBytes(Two());
  REQUIRE_MESSAGE(bytes.ok(), bytes.error().message);
  const auto arrays = ParseNpz(*bytes, "a.npz");
  REQUIRE_MESSAGE(arrays.ok(), arrays.error().message);
  REQUIRE(arrays->size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK((*arrays)[i].name == Two()[i].name);
    CHECK((*arrays)[i].array == Two()[i].array);
  }
  CHECK(ParseNpz(*NpzBytes({}), "a.npz")->empty());
  std::vector<NamedArray> same = Two();
  same[1].name = same[0].name;
  CHECK(NpzBytes(same).error().message == "[npz] there are two arrays \"x\"");
}

TEST_CASE("an archive that ends early anywhere is refused") {
  const std::string whole = FromHex(kNpz);
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO("bytes kept: " << size);
    CHECK_FALSE(ParseNpz(whole.substr(0, size), "a.npz").ok());
  }
  CHECK(Refuse("PK") ==
        "[npz] \"a.npz\" is no NPZ file, or ends early: its 2 bytes have no "
        "end of an archive");
}

TEST_CASE("a damaged element is noticed by its checksum") {
  std::string bytes = *NpzBytes(Two());
  const size_t at = bytes.find("\1\2\3");
  REQUIRE(at != std::string::npos);
  bytes[at] = 9;
  const std::string message = Refuse(bytes);
  CHECK(message.starts_with(
      "[npz] \"a.npz\" has a file \"x.npy\" that is damaged: its checksum "
      "is "));
}

TEST_CASE("what an archive may hold beside arrays is refused by name") {
  std::string bytes = *NpzBytes(Two());
  for (size_t at; (at = bytes.find("x.npy")) != std::string::npos;) {
    bytes.replace(at, 5, "x.txt");
  }
  CHECK(Refuse(bytes) ==
        "[npz] \"a.npz\" has a file \"x.txt\", which is no .npy; expected "
        "arrays alone");
}

}  // namespace
}  // namespace stowage
