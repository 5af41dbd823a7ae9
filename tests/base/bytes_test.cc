#include "base/bytes.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "base/result.h"

namespace stowage {
namespace {

constexpr Bytes kMax = std::numeric_limits<Bytes>::max();

TEST_CASE("sizes that users type parse to exact bytes") {
  struct Row {
    const char* text;
    Bytes bytes;
  };
  for (const Row& row : {
           Row{"0", 0},
           Row{"4000000", 4000000},
           Row{"512B", 512},
           Row{"64KiB", 65536},
           Row{"64MiB", 67108864},
           Row{"64 MiB", 67108864},
           Row{"1.5GiB", 1610612736},
           Row{"2TiB", 2199023255552},
           Row{"3KB", 3000},
           Row{"3kB", 3000},
           Row{"7MB", 7000000},
           Row{"4.2GB", 4200000000},
           Row{"4.1GB", 4100000000},  // as a double, 4.1 is a little less
           Row{"1TB", 1000000000000},
           Row{"9007199254740993", 9007199254740993},  // 2^53 + 1: no double
           Row{"9223372036854775807", kMax},
       }) {
    INFO(std::string(row.text));
    const Result<Bytes> parsed = ParseBytes(row.text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == row.bytes);
  }
}

TEST_CASE("text that is no size is refused") {
  for (const char* text :
       {"", "abc", "-1", "-0.5KiB", " 64MiB", "64MiB ", "MiB", "64mib", "64M",
        "1e3", "+5", "1,5GiB", "0x10", "nan", "inf", "1.5.2GiB"}) {
    INFO(std::string(text));
    const Result<Bytes> parsed = ParseBytes(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("sizes beyond 63 bits are refused") {
  for (const char* text : {"9223372036854775808", "8388608TiB", "9223373TB",
                           "99999999999999999999999999"}) {
    INFO(std::string(text));
    CHECK_FALSE(ParseBytes(text).ok());
  }
  // One TiB below 2^63.
  CHECK(ParseBytes("8388607TiB").value() == kMax - 1099511627776 + 1);
}

TEST_CASE("the error of a bad size quotes it and shows what would do") {
  CHECK(ParseBytes("abc").error().message ==
        "[bytes] \"abc\" is not a size: expected a number that is not "
        "negative, with B, KiB, MiB, GiB, TiB, kB, MB, GB, TB or no unit, as "
        "in 64MiB");
}

TEST_CASE("byte counts print with one decimal from KiB up") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1024) == "1.0 KiB");
  CHECK(FormatBytes(1536) == "1.5 KiB");
  CHECK(FormatBytes(67108864) == "64.0 MiB");
  CHECK(FormatBytes(3435973837) == "3.2 GiB");
  CHECK(FormatBytes(-2048) == "-2.0 KiB");
  CHECK(FormatBytes(kMax) == "8192.0 PiB");
}

TEST_CASE("byte counts print in powers of ten once these were asked for") {
  SetByteUnits(ByteUnits::kPowersOf1000);
  CHECK(FormatBytes(999) == "999 B");
  CHECK(FormatBytes(1000) == "1.0 KB");
  CHECK(FormatBytes(4200000000) == "4.2 GB");
  CHECK(FormatBytes(-2500) == "-2.5 KB");
  CHECK(FormatBytes(kMax) == "9223.4 PB");
  SetByteUnits(ByteUnits::kPowersOf1024);
  CHECK(FormatBytes(4200000000) == "3.9 GiB");
}

TEST_CASE("aligning rounds up to the next multiple, powers of two or not") {
  CHECK(AlignUp(0, 64) == 0);
  CHECK(AlignUp(1, 64) == 64);
  CHECK(AlignUp(64, 64) == 64);
  CHECK(AlignUp(65, 64) == 128);
  CHECK(AlignUp(13, 6) == 18);
  CHECK(AlignUp(13, 1) == 13);
}

TEST_CASE("checked sums and products report overflow") {
  CHECK(CheckedAdd(kMax - 1, 1) == kMax);
  CHECK_FALSE(CheckedAdd(kMax, 1).has_value());
  CHECK(CheckedMul(1 << 20, 1 << 20) == 1099511627776);
  CHECK_FALSE(CheckedMul(kMax / 2 + 1, 2).has_value());
}

}  // namespace
}  // namespace stowage
