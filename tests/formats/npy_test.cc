#include "formats/npy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/formats/hex.h"

namespace stowage {
namespace {

using testing::FromHex;

// Files that NumPy has written.
constexpr std::string_view kF32 =
    "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f"
    "6f72646572273a2046616c73652c20277368617065273a2028322c2033292c207d202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020"
    "202020202020202020202020202020202020200a0000c03f000000c00000404000008040"
    "0000a0400000c8c0";
constexpr std::string_view kI64V2 =
    "934e554d50590200740000007b276465736372273a20273c6938272c2027666f72747261"
    "6e5f6f72646572273a2046616c73652c20277368617065273a2028332c292c207d202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020"
    "202020202020202020202020202020202020200a0700000000000000f7ffffffffffffff"
    "0000000000010000";
// numpy.asfortranarray([[0, 1, 2], [3, 4, 5]]).
constexpr std::string_view kFortran =
    "934e554d5059010076007b276465736372273a20273c6934272c2027666f727472616e5f"
    "6f72646572273a20547275652c20277368617065273a2028322c2033292c207d20202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020"
    "202020202020202020202020202020202020200a00000000030000000100000004000000"
    "0200000005000000";

std::string RefuseNpy(std::string_view bytes) {
  const Result<Array> array = ParseNpy(bytes, "a.npy");
  REQUIRE_FALSE(array.ok());
  CHECK(array.error().code == ErrorCode::kInvalidArgument);
  return array.error().message;
}

// A file of version 1 with this header and body.
std::string File(std::string_view header, std::string_view body) {
  std::string file = FromHex("934e554d50590100");
  file += static_cast<char>(header.size());
  file += '\0';
  return file + std::string(header) + std::string(body);
}

TEST_CASE("NumPy's arrays are read, of versions 1 and 2") {
  const Result<Array> reals = ParseNpy(FromHex(kF32), "a.npy");
  REQUIRE_MESSAGE(reals.ok(), reals.error().message);
  CHECK(reals->type == TensorType{DType::kF32, {2, 3}});
  CHECK(ValuesOf<float>(*reals) ==
        std::vector<float>{1.5f, -2, 3, 4, 5, -6.25f});
  const Result<Array> integers = ParseNpy(FromHex(kI64V2), "a.npy");
  REQUIRE_MESSAGE(integers.ok(), integers.error().message);
  CHECK(integers->type == TensorType{DType::kI64, {3}});
  CHECK(ValuesOf<int64_t>(*integers) ==
        std::vector<int64_t>{7, -9, int64_t{1} << 40});
}

TEST_CASE("an array in Fortran's order is put into rows") {
  const Result<Array> array = ParseNpy(FromHex(kFortran), "a.npy");
  REQUIRE_MESSAGE(array.ok(), array.error().message);
  CHECK(array->type == TensorType{DType::kI32, {2, 3}});
  CHECK(ValuesOf<int32_t>(*array) == std::vector<int32_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("what is written is what NumPy writes") {
  for (const std::string_view file : {kF32}) {
    const Result<Array> array = ParseNpy(FromHex(file), "a.npy");
    REQUIRE(array.ok());
    CHECK(*NpyBytes(*array) == FromHex(file));
  }
  // One dimension, and none.
  for (const Shape& shape : {Shape{2}, Shape{}, Shape{1, 2, 1}}) {
    const Array array{{DType::kI16, shape},
                      std::string(shape.rank() == 0 ? 2 : 4, 'a')};
    const Result<std::string> bytes = NpyBytes(array);
    REQUIRE(bytes.ok());
    CHECK(bytes->size() % 64 == array.bytes.size());
    const Result<Array> back = ParseNpy(*bytes, "a.npy");
    REQUIRE_MESSAGE(back.ok(), back.error().message);
    CHECK(*back == array);
  }
  const Result<std::string> none = NpyBytes({{DType::kBF16, {1}}, "ab"});
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message ==
        "[npy] NumPy has no type for bf16; cast to f32 first");
}

TEST_CASE("what is no NPY file is refused with what is there") {
  CHECK(RefuseNpy("NUMPY") ==
        "[npy] \"a.npy\" is no NPY file: it does not begin with \\x93NUMPY");
  CHECK(RefuseNpy(FromHex("934e554d505909000000")) ==
        "[npy] \"a.npy\" is of version 9; expected 1, 2 or 3");
  CHECK(RefuseNpy(FromHex("934e554d50590100ff")) ==
        "[npy] \"a.npy\" has 9 bytes, which end in its header");
  CHECK(RefuseNpy(FromHex("934e554d50590100ff00")) ==
        "[npy] \"a.npy\" has 10 bytes; its header alone has 255");
  CHECK(RefuseNpy(File("{'descr': '<f4'}", "")) ==
        "[npy] \"a.npy\" has a header that is not read: \"{'descr': "
        "'<f4'}\"; expected the keys descr, fortran_order and shape");
  const auto of_type = [](std::string_view type) {
    return File("{'descr': '" + std::string(type) +
                    "', 'fortran_order': False, 'shape': (1, 2), }",
                "12345678");
  };
  CHECK(RefuseNpy(of_type(">f4")) ==
        "[npy] \"a.npy\" has elements of type \">f4\"; expected <f2, <f4, "
        "<f8, <i2, <i4, <i8, |u1 or |b1");
  CHECK(RefuseNpy(of_type("<f8")) ==
        "[npy] \"a.npy\" has 8 bytes after its header; f64(1, 2) takes 16");
  CHECK(ParseNpy(of_type("<f4"), "a.npy").ok());
  const std::string cut = FromHex(kF32).substr(0, 150);
  CHECK(RefuseNpy(cut) ==
        "[npy] \"a.npy\" has 22 bytes after its header; f32(2, 3) takes 24");
  CHECK(RefuseNpy(File(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", "")) ==
        "[npy] \"a.npy\" is of shape (0), which has no element or too many");
}

TEST_CASE("bytes of a bool are 0 and 1 whatever they were") {
  const Result<Array> array =
      ParseNpy(File("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}",
                    std::string("\0\1\x7f", 3)),
               "a.npy");
  REQUIRE_MESSAGE(array.ok(), array.error().message);
  CHECK(array->bytes == std::string("\0\1\1", 3));
}

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

std::string RefuseNpz(std::string_view bytes) {
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
  CHECK(RefuseNpz("PK") ==
        "[npz] \"a.npz\" is no NPZ file, or ends early: its 2 bytes have no "
        "end of an archive");
}

TEST_CASE("a damaged element is noticed by its checksum") {
  std::string bytes = *NpzBytes(Two());
  const size_t at = bytes.find("\1\2\3");
  REQUIRE(at != std::string::npos);
  bytes[at] = 9;
  const std::string message = RefuseNpz(bytes);
  CHECK(message.starts_with(
      "[npz] \"a.npz\" has a file \"x.npy\" that is damaged: its checksum "
      "is "));
}

TEST_CASE("what an archive may hold beside arrays is refused by name") {
  std::string bytes = *NpzBytes(Two());
  for (size_t at; (at = bytes.find("x.npy")) != std::string::npos;) {
    bytes.replace(at, 5, "x.txt");
  }
  CHECK(RefuseNpz(bytes) ==
        "[npz] \"a.npz\" has a file \"x.txt\", which is no .npy; expected "
        "arrays alone");
}

}  // namespace
}  // namespace stowage
