#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/npy.h"
#include "tests/formats/hex.h"

namespace stowage {
namespace {

using testing::FromHex;

// 2 x 3 of u8, written by hand.
const std::string kSmall("\0\0\x08\x02\0\0\0\x02\0\0\0\x03\1\2\3\4\5\xff", 18);

std::string Refuse(std::string_view bytes) {
  const Result<Array> array = ParseIdx(bytes, "a.idx");
  REQUIRE_FALSE(array.ok());
  CHECK(array.error().code == ErrorCode::kInvalidArgument);
  return array.error().message;
}

TEST_CASE("an IDX file is a type, dimensions and elements") {
  const Result<Array> array = ParseIdx(kSmall, "a.idx");
  REQUIRE_MESSAGE(array.ok(), array.error().message);
  CHECK(array->type == TensorType{DType::kU8, {2, 3}});
  CHECK(ValuesOf<uint8_t>(*array) == std::vector<uint8_t>{1, 2, 3, 4, 5, 255});
}

TEST_CASE("numbers of several bytes are big-endian") {
  const Result<Array> array = ParseIdx(FromHex("00000c01"
                                               "00000002"
                                               "00000102"
                                               "fffffffe"),
                                       "a.idx");
  REQUIRE_MESSAGE(array.ok(), array.error().message);
  CHECK(ValuesOf<int32_t>(*array) == std::vector<int32_t>{258, -2});
  const Result<Array> reals = ParseIdx(FromHex("00000d01"
                                               "00000001"
                                               "3fc00000"),
                                       "a.idx");
  REQUIRE_MESSAGE(reals.ok(), reals.error().message);
  CHECK(ValuesOf<float>(*reals) == std::vector<float>{1.5f});
}

TEST_CASE("what is no IDX file is refused with what is there") {
  CHECK(Refuse("") ==
        "[idx] \"a.idx\" has 0 bytes; an IDX file begins with 4 that say its "
        "type");
  CHECK(Refuse("PK\3\4") ==
        "[idx] \"a.idx\" is no IDX file: its first bytes are 80, 75; expected "
        "0, 0");
  CHECK(Refuse(FromHex("0000090100000001ff")) ==
        "[idx] \"a.idx\" has elements of IDX type 9; expected 8 (u8), 11 "
        "(i16), 12 (i32), 13 (f32) or 14 (f64)");
  CHECK(Refuse(FromHex("00000809")) ==
        "[idx] \"a.idx\" has 9 dimensions; at most 8 are read");
  CHECK(Refuse(kSmall.substr(0, 10)) ==
        "[idx] \"a.idx\" has 10 bytes; the header of 2 dimensions alone takes "
        "12");
  CHECK(Refuse(kSmall.substr(0, 17)) ==
        "[idx] \"a.idx\" has 5 bytes after its header; u8(2, 3) takes 6");
  CHECK(Refuse(kSmall + "x") ==
        "[idx] \"a.idx\" has 7 bytes after its header; u8(2, 3) takes 6");
  CHECK(Refuse(FromHex("000008020000000300000000")) ==
        "[idx] \"a.idx\" is of shape (3, 0), which has no element or too many");
}

}  // namespace
}  // namespace stowage
