// By libpng's simplified reader, which leaves no jumps to its callers. Pixels are what the
// file holds, as Pillow has them: what it says of colours and gamma is left out, by which
// the reader would change them.

#include <png.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "formats/image_decoders.h"

namespace stowage::formats {
namespace {

struct PngImage {
  png_image png = {};
  PngImage() { png.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&png); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

// The file without the chunks that say what colours look like. What is no chunk stays,
// for the reader to refuse.
std::string WithoutColours(std::string_view bytes) {
  constexpr size_t kSignature = 8, kFrame = 12;  // length, name and checksum
  std::string kept(bytes.substr(0, kSignature));
  std::string_view rest = bytes.substr(std::min(kSignature, bytes.size()));
  while (rest.size() >= kFrame) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) {
      length = length << 8 | static_cast<unsigned char>(rest[i]);
    }
    if (length > rest.size() - kFrame) break;
    const std::string_view name = rest.substr(4, 4);
    const std::string_view chunk = rest.substr(0, length + kFrame);
    if (name != "gAMA" && name != "cHRM" && name != "sRGB" && name != "iCCP") {
      kept += chunk;
    }
    rest.remove_prefix(chunk.size());
  }
  return kept.append(rest);
}

}  // namespace

Result<Image> DecodePng(std::string_view bytes, int64_t channels,
                        std::string_view origin) {
  PngImage holder;
  png_image& png = holder.png;
  const auto fail = [&] {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[png] ", Quoted(origin), ", of ", bytes.size(),
                        " bytes, ends early or is damaged: ", png.message)};
  };
  const std::string file = WithoutColours(bytes);
  if (!png_image_begin_read_from_memory(&png, file.data(), file.size())) {
    return fail();
  }
  // Deflate makes no more than 1,032 bytes of one (RFC 1951), and a pixel has a bit.
  constexpr uint64_t kMaxBytes = 1032;
  const uint64_t bits = uint64_t{png.width} * png.height;
  if (bits / 8 > kMaxBytes * file.size()) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[png] ", Quoted(origin), " says that it is ", png.height, " x ",
               png.width, " pixels, which a file of ", bytes.size(),
               " bytes cannot hold")};
  }
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits are scaled alone
  STOWAGE_ASSIGN_OR_RETURN(Image image,
                           MakeImage(channels, png.height, png.width, origin));
  const bool to_grey =
      channels == 1 && (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
  // What covers how much of a pixel is dropped, as by Pillow's convert, and mixed with
  // nothing.
  const bool has_alpha = (png.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  const bool is_grey = channels == 1 && !to_grey;
  png.format = is_grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  if (has_alpha) png.format |= PNG_FORMAT_FLAG_ALPHA;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(png));
  if (!png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr)) {
    return fail();
  }
  if (has_alpha) {
    const size_t colours = is_grey ? 1 : 3;
    const size_t count = pixels.size() / (colours + 1);
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < colours; ++c) {
        pixels[i * colours + c] = pixels[i * (colours + 1) + c];
      }
    }
    pixels.resize(count * colours);
  }
  if (to_grey) {
    for (size_t i = 0; i < pixels.size() / 3; ++i) {
      pixels[i] = LumaOf(&pixels[3 * i]);
    }
  }
  const int64_t row = image.width * channels;
  for (int64_t y = 0; y < image.height; ++y) {
    StoreRow(pixels.data() + y * row, y, &image);
  }
  return image;
}

}  // namespace stowage::formats
