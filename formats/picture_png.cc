// By libpng's simplified reader, which leaves no jumps to its callers. Pixels are what the
// file holds, as Pillow has them: what it says of colours and gamma is left out, by which
// the reader would change them.

#include <png.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "formats/picture_decoders.h"

namespace stowage::formats {
namespace {

struct Image {
  png_image image = {};
  Image() { image.version = PNG_IMAGE_VERSION; }
  ~Image() { png_image_free(&image); }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
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

Result<Picture> DecodePng(std::string_view bytes, int64_t channels,
                          std::string_view origin) {
  Image holder;
  png_image& image = holder.image;
  const auto fail = [&] {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[png] ", Quoted(origin), ", of ", bytes.size(),
                        " bytes, ends early or is damaged: ", image.message)};
  };
  const std::string file = WithoutColours(bytes);
  if (!png_image_begin_read_from_memory(&image, file.data(), file.size())) {
    return fail();
  }
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits are scaled alone
  STOWAGE_ASSIGN_OR_RETURN(Picture picture, MakePicture(channels, image.height,
                                                        image.width, origin));
  const bool to_grey =
      channels == 1 && (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.format = channels == 1 && !to_grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  const png_color black = {};
  if (!png_image_finish_read(&image, &black, pixels.data(), 0, nullptr)) {
    return fail();
  }
  if (to_grey) {
    for (size_t i = 0; i < pixels.size() / 3; ++i) {
      pixels[i] = LumaOf(&pixels[3 * i]);
    }
  }
  const int64_t row = picture.width * channels;
  for (int64_t y = 0; y < picture.height; ++y) {
    StoreRow(pixels.data() + y * row, y, &picture);
  }
  return picture;
}

}  // namespace stowage::formats
