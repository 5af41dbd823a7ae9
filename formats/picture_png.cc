// By libpng's simplified reader, which leaves no jumps to its callers.

#include <png.h>

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
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) {
    return fail();
  }
  STOWAGE_ASSIGN_OR_RETURN(Picture picture, MakePicture(channels, image.height,
                                                        image.width, origin));
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::vector<uint8_t> rows(picture.pixels.size());
  const png_color black = {};
  if (!png_image_finish_read(&image, &black, rows.data(), 0, nullptr)) {
    return fail();
  }
  const int64_t row = picture.width * channels;
  for (int64_t y = 0; y < picture.height; ++y) {
    StoreRow(rows.data() + y * row, y, &picture);
  }
  return picture;
}

}  // namespace stowage::formats
