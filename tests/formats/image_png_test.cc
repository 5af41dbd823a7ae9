#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/image.h"
#include "tests/formats/hex.h"

namespace stowage {
namespace {

using testing::FromHex;

// By Pillow: 2 rows of 3 pixels.
constexpr std::string_view kPng =
    "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d000000"
    "1849444154789c63f8cfc0c0f09f8181e13f2397881c040000313303ef9ed3a823000000"
    "0049454e44ae426082";
// [[0, 128], [200, 255]] in grey.
constexpr std::string_view kGreyPng =
    "89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f8000000"
    "0e49444154789c6360686038f11f000495024811a8f6e30000000049454e44ae426082";

TEST_CASE("a PNG is decoded into planes of its channels") {
  const Result<Image> image = DecodeImage(FromHex(kPng), 3, "a.png");
  REQUIRE_MESSAGE(image.ok(), image.error().message);
  CHECK(image->channels == 3);
  CHECK(image->height == 2);
  CHECK(image->width == 3);
  CHECK(image->pixels == std::vector<uint8_t>{255, 0, 0, 10, 40, 70,  //
                                              0, 255, 0, 20, 50, 80,  //
                                              0, 0, 255, 30, 60, 90});
}

// It says that it is of 16384 x 16384 pixels, and holds a byte of them.
constexpr std::string_view kLargePng =
    "89504e470d0a1a0a0000000d49484452000040000000400008000000008ca34f58000000"
    "0949444154789c630000000100015eff7df90000000049454e44ae426082";

TEST_CASE("no memory is taken for pixels that a file cannot hold") {
  const Result<Image> image = DecodeImage(FromHex(kLargePng), 1, "a.png");
  REQUIRE(!image.ok());
  CHECK(image.error().message ==
        "[png] \"a.png\" says that it is 16384 x 16384 pixels, which a file of "
        "66 bytes cannot hold");
}

// The same pixels in 16 bits, and both with a gAMA chunk of 1.
constexpr std::string_view kWidePng =
    "89504e470d0a1a0a0000000d494844520000000300000002100200000042862d0e00000021"
    "49"
    "44415478da63f8ff9f010c90682e2e111139390d0d23231b1b37b78080a82800c281097f3f"
    "2e"
    "53f50000000049454e44ae426082";
constexpr std::string_view kGammaPng =
    "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d00000004"
    "67"
    "414d41000186a031e8965f000000174944415478da63f8cfc0c000c15c22721a46366e0151"
    "00"
    "335904c05c9be18c0000000049454e44ae426082";
constexpr std::string_view kWideGammaPng =
    "89504e470d0a1a0a0000000d494844520000000300000002100200000042862d0e00000004"
    "67"
    "414d41000186a031e8965f000000214944415478da63f8ff9f010c90682e2e111139390d0d"
    "23"
    "231b1b37b78080a82800c281097f3f2e53f50000000049454e44ae426082";

TEST_CASE(
    "the same pixels are the same numbers, whatever the file says of them") {
  const Result<Image> plain = DecodeImage(FromHex(kPng), 3, "a.png");
  REQUIRE(plain.ok());
  for (const std::string_view other : {kWidePng, kGammaPng, kWideGammaPng}) {
    const Result<Image> image = DecodeImage(FromHex(other), 3, "a.png");
    REQUIRE_MESSAGE(image.ok(), image.error().message);
    CHECK(image->pixels == plain->pixels);
  }
}

// 0.299 R + 0.587 G + 0.114 B, as Pillow's convert("L") has it.
TEST_CASE("a PNG in colour is read as grey by its luma") {
  for (const std::string_view file : {kPng, kWidePng, kGammaPng}) {
    const Result<Image> grey = DecodeImage(FromHex(file), 1, "a.png");
    REQUIRE_MESSAGE(grey.ok(), grey.error().message);
    CHECK(grey->pixels == std::vector<uint8_t>{76, 150, 29, 18, 48, 78});
  }
}

// By Pillow 13.0: RGBA, a palette of which an entry is transparent, and grey with alpha.
TEST_CASE("how much a pixel covers is dropped, as Pillow's convert drops it") {
  const auto pixels = [](std::string_view hex, int64_t channels) {
    const Result<Image> image = DecodeImage(FromHex(hex), channels, "a.png");
    REQUIRE_MESSAGE(image.ok(), image.error().message);
    return std::vector<int>(image->pixels.begin(), image->pixels.end());
  };
  constexpr std::string_view kRgba =
      "89504e470d0a1a0a0000000d494844520000000200000002080600000072b60d24000000"
      "1a49444154789c63e03a21c7f08b85b581919189f97f725222070029bf04a8921a148e00"
      "00000049454e44ae426082";
  CHECK(pixels(kRgba, 3) ==
        std::vector<int>{10, 250, 1, 100, 200, 4, 2, 100, 30, 5, 3, 100});
  CHECK(pixels(kRgba, 1) == std::vector<int>{124, 78, 2, 100});
  constexpr std::string_view kPalette =
      "89504e470d0a1a0a0000000d49484452000000020000000202030000000fd8e5b7000000"
      "09504c54450a141e28323cc86400cd93f9e30000000274524e53ff00e5b7304a0000000c"
      "49444154789c63106098000000c400a1165cba960000000049454e44ae426082";
  CHECK(pixels(kPalette, 3) ==
        std::vector<int>{10, 40, 200, 40, 20, 50, 100, 50, 30, 60, 0, 60});
  CHECK(pixels(kPalette, 1) == std::vector<int>{18, 48, 118, 48});
  CHECK(pixels("89504e470d0a1a0a0000000d49484452000000020000000108040000005e2b"
               "b7010000000d49444154789c63606538910200020d0132e4b2b17e00000000"
               "49454e44ae426082",
               1) == std::vector<int>{5, 200});
}

TEST_CASE("a grey PNG is what it is, and the same in each of three channels") {
  const std::vector<uint8_t> grey = {0, 128, 200, 255};
  const Result<Image> one = DecodeImage(FromHex(kGreyPng), 1, "a.png");
  REQUIRE_MESSAGE(one.ok(), one.error().message);
  CHECK(one->pixels == grey);
  const Result<Image> three = DecodeImage(FromHex(kGreyPng), 3, "a.png");
  REQUIRE_MESSAGE(three.ok(), three.error().message);
  CHECK(std::vector<uint8_t>(three->pixels.begin() + 8, three->pixels.end()) ==
        grey);
}

TEST_CASE("a PNG that is cut short anywhere before its last part is refused") {
  const std::string whole = FromHex(kPng);
  const size_t last_part = 12;  // IEND, which says nothing
  for (size_t size = 4; size < whole.size() - last_part; ++size) {
    INFO("bytes kept: " << size);
    const Result<Image> cut = DecodeImage(whole.substr(0, size), 3, "a.png");
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.error().message.starts_with("[png] \"a.png\", of " +
                                          std::to_string(size) + " bytes, "));
  }
}

TEST_CASE("what is no image is named with its size") {
  const Result<Image> image = DecodeImage("GIF89a", 3, "a.gif");
  REQUIRE_FALSE(image.ok());
  CHECK(image.error().message ==
        "[image] \"a.gif\", of 6 bytes, begins neither as a PNG nor as a "
        "JPEG");
}

}  // namespace
}  // namespace stowage
