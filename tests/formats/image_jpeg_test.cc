#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/image.h"
#include "tests/formats/hex.h"

namespace stowage {
namespace {

using testing::FromHex;

// By Pillow: 8 rows of 16 pixels of (200, 40, 90).
constexpr std::string_view kJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000201010101010201010102"
    "020202020403020202020504040304060506060605060606070908060709070606080b08"
    "090a0a0a0a0a06080b0c0b0a0c090a0a0affdb004301020202020202050303050a070607"
    "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
    "0a0a0a0a0a0a0a0a0a0a0a0a0a0affc00011080008001003012200021101031101ffc400"
    "1f0000010501010101010100000000000000000102030405060708090a0bffc400b51000"
    "02010303020403050504040000017d010203000411051221314106135161072271143281"
    "91a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a"
    "434445464748494a535455565758595a636465666768696a737475767778797a83848586"
    "8788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6"
    "c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc400"
    "1f0100030101010101010101010000000000000102030405060708090a0bffc400b51100"
    "020102040403040705040400010277000102031104052131061241510761711322328108"
    "144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a3536373839"
    "3a434445464748494a535455565758595a636465666768696a737475767778797a828384"
    "85868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4"
    "c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda00"
    "0c03010002110311003f00f9de8a28ae73fd303fffd9";

void CheckPlane(const Image& image, size_t channel, int value) {
  const size_t plane = 8 * 16;
  for (size_t i = 0; i < plane; ++i) {
    const int pixel = image.pixels[channel * plane + i];
    REQUIRE(pixel >= value - 2);
    REQUIRE(pixel <= value + 2);
  }
}

TEST_CASE("a JPEG is decoded into planes of colour, or into grey") {
  const Result<Image> image = DecodeImage(FromHex(kJpeg), 3, "a.jpg");
  REQUIRE_MESSAGE(image.ok(), image.error().message);
  CHECK(image->height == 8);
  CHECK(image->width == 16);
  CheckPlane(*image, 0, 200);
  CheckPlane(*image, 1, 40);
  CheckPlane(*image, 2, 90);
  const Result<Image> grey = DecodeImage(FromHex(kJpeg), 1, "a.jpg");
  REQUIRE_MESSAGE(grey.ok(), grey.error().message);
  // 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601).
  CheckPlane(*grey, 0, 94);
}

// By Pillow 13.0, which reads rows 0 and 3 as below in convert("L"): of the colours as they
// are rounded, which is up to 19 from the luma that the file holds.
constexpr std::string_view kColours =
    "ffd8ffe000104a46494600010100000100010000ffdb0043001b12141714111b1716171e"
    "1c1b2028422b28252528513a3d3042605565645f555d5b6a7899816a7190735b5d85b586"
    "909ea3abadab6780bcc9baa6c799a8aba4ffdb0043011c1e1e2823284e2b2b4ea46e5d6e"
    "a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4"
    "a4a4a4a4a4a4a4a4a4a4a4a4a4a4ffc00011080008001003012200021101031101ffc400"
    "160001010100000000000000000000000000000203ffc4001a1000010501000000000000"
    "00000000000000030425344452ffc4001501010100000000000000000000000000000304"
    "ffc4001e110000060203000000000000000000000000010203046121416281d1ffda000c"
    "03010002110311003f00951dd994e739a28eecca739c01a2329c7855428763a73de8b9d0"
    "ffd9";

TEST_CASE("a JPEG in colour is read as grey by its colours") {
  const Result<Image> grey = DecodeImage(FromHex(kColours), 1, "a.jpg");
  REQUIRE_MESSAGE(grey.ok(), grey.error().message);
  const int rows[2][16] = {
      {224, 208, 158, 155, 222, 224, 171, 160, 225, 221, 169, 168, 235, 235,
       184, 173},
      {72, 62, 2, 3, 77, 76, 14, 10, 85, 75, 13, 16, 91, 90, 27, 26}};
  for (size_t i = 0; i < 2; ++i) {
    for (size_t x = 0; x < 16; ++x) {
      const int pixel = grey->pixels[3 * i * 16 + x];
      CAPTURE(x);
      CHECK(pixel >= rows[i][x] - 2);
      CHECK(pixel <= rows[i][x] + 2);
    }
  }
}

// By Pillow, which wrote it with an Adobe marker: 8 rows of 16 pixels of (30, 200, 120, 40)
// in cyan, magenta, yellow and black.
constexpr std::string_view kInks =
    "ffd8ffee000e41646f626500640000000000ffdb00430001010101010101010101010101"
    "010101010101010101010101010101010101010101010101010101010101010101010101"
    "010101010101010101010101010101ffc000140800080010044311004d11005911004b11"
    "00ffc400160001010100000000000000000000000000000a06ffc4001410010000000000"
    "0000000000000000000000ffda000e0443004d0059004b00003f00b084dbb70ab8007fff"
    "d9";

// Expected values are those of Pillow's convert.
TEST_CASE("a JPEG of inks is read in red, green and blue, or in grey") {
  std::string bytes = FromHex(kInks);
  const Result<Image> image = DecodeImage(bytes, 3, "a.jpg");
  REQUIRE_MESSAGE(image.ok(), image.error().message);
  CheckPlane(*image, 0, 190);
  CheckPlane(*image, 1, 46);
  CheckPlane(*image, 2, 114);
  const Result<Image> grey = DecodeImage(bytes, 1, "a.jpg");
  REQUIRE_MESSAGE(grey.ok(), grey.error().message);
  CheckPlane(*grey, 0, 97);
  // The marker's last byte says how inks became what is stored: as Y, Cb, Cr and K.
  bytes[bytes.find("Adobe") + 11] = 2;
  const Result<Image> ycck = DecodeImage(bytes, 3, "a.jpg");
  REQUIRE_MESSAGE(ycck.ok(), ycck.error().message);
  CheckPlane(*ycck, 0, 17);
  CheckPlane(*ycck, 1, 8);
  CheckPlane(*ycck, 2, 134);
}

TEST_CASE("a JPEG that is cut short anywhere is refused") {
  const std::string whole = FromHex(kJpeg);
  for (size_t size = 3; size < whole.size() - 2; ++size) {
    INFO("bytes kept: " << size);
    const Result<Image> cut = DecodeImage(whole.substr(0, size), 3, "a.jpg");
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(DecodeImage(whole.substr(0, whole.size() - 4), 3, "a.jpg")
            .error()
            .message ==
        "[jpeg] \"a.jpg\", of 630 bytes, ends early or is "
        "damaged: Premature end of JPEG file");
}

}  // namespace
}  // namespace stowage
