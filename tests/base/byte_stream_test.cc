#include "base/byte_stream.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace stowage {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST_CASE("numbers and texts read back as they were written") {
  const int64_t integers[] = {0,   1,   -1,  63,      64,   -64,  -65,
                              127, 128, 300, 1 << 14, kMax, kMin, kMin + 1};
  ByteWriter out;
  for (const int64_t value : integers) {
    out.Signed(value);
    out.Unsigned(static_cast<uint64_t>(value));
  }
  out.Real(-0.1);
  out.Real(-0.0);
  out.Text("");
  out.Text(std::string("a\0b", 3));
  for (const char* const text : {"fc1", "fc2", "fc1", "", ""}) {
    out.Interned(text);
  }
  ByteReader in(out.bytes(), "test");
  for (const int64_t value : integers) {
    CHECK(in.Signed() == value);
    CHECK(in.Unsigned() == static_cast<uint64_t>(value));
  }
  CHECK(in.Real() == -0.1);
  CHECK(std::signbit(in.Real()));
  CHECK(in.Text() == "");
  CHECK(in.Text() == std::string("a\0b", 3));
  for (const char* const text : {"fc1", "fc2", "fc1", "", ""}) {
    CHECK(in.Interned() == text);
  }
  CHECK(in.AtEnd());
  CHECK(in.status().ok());
}

// DWARF 5, table 7.7.
TEST_CASE("unsigned integers are LEB128") {
  ByteWriter out;
  for (const uint64_t value : {2u, 127u, 128u, 129u, 12857u}) {
    out.Unsigned(value);
  }
  CHECK(out.bytes() == std::string("\x02\x7f\x80\x01\x81\x01\xb9\x64"));
}

TEST_CASE("a text that comes again takes one byte") {
  ByteWriter out;
  out.Interned("a name that is long");
  const size_t size = out.bytes().size();
  out.Interned("a name that is long");
  CHECK(out.bytes().size() == size + 1);
}

TEST_CASE("the first thing that is wrong is kept, and all else reads as zero") {
  const auto error = [](std::string bytes, auto read) {
    ByteReader in(bytes, "test");
    read(&in);
    CHECK(in.Unsigned() == 0);
    CHECK(in.Text() == "");
    REQUIRE_FALSE(in.status().ok());
    CHECK(in.status().error().code == ErrorCode::kInvalidArgument);
    return in.status().error().message;
  };
  const std::string end = "; the bytes are damaged, or of another kind";
  CHECK(error("\x81", [](ByteReader* in) { in->Unsigned(); }) ==
        "[test] byte 1 of 1: they end within a number" + end);
  CHECK(error("1234567", [](ByteReader* in) { in->Real(); }) ==
        "[test] byte 0 of 7: they end within a real" + end);
  CHECK(error("\x03xy", [](ByteReader* in) { in->Text(); }) ==
        "[test] byte 1 of 3: the length of a text is 3; expected one below 3" +
            end);
  CHECK(error("\x05", [](ByteReader* in) { in->Below(5, "a role"); }) ==
        "[test] byte 1 of 1: a role is 5; expected one below 5" + end);
  CHECK(error("\x01", [](ByteReader* in) { in->Int(0, 9, "a size"); }) ==
        "[test] byte 1 of 1: a size is -1; expected 0 to 9" + end);
  CHECK(error("\x01", [](ByteReader* in) { in->Interned(); }) ==
        "[test] byte 1 of 1: the number of a text is 1; expected one below 1" +
            end);
  CHECK(error(std::string(9, '\xff') + "\x02", [](ByteReader* in) {
          in->Unsigned();
        }) == "[test] byte 10 of 10: a number does not fit 64 bits" + end);
}

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
