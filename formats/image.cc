#include "formats/image.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/image_decoders.h"

namespace stowage {

Result<Image> DecodeImage(std::string_view bytes, int64_t channels,
                          std::string_view origin) {
  STOWAGE_CHECK(channels == 1 || channels == 3);
  if (bytes.starts_with("\x89PNG")) {
    return formats::DecodePng(bytes, channels, origin);
  }
  if (bytes.starts_with("\xff\xd8\xff")) {
    return formats::DecodeJpeg(bytes, channels, origin);
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[image] ", Quoted(origin), ", of ", bytes.size(),
                      " bytes, begins neither as a PNG nor as a JPEG")};
}

namespace formats {

Result<Image> MakeImage(int64_t channels, int64_t height, int64_t width,
                        std::string_view origin) {
  if (height < 1 || width < 1 || height > kMaxPixels / width) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[image] ", Quoted(origin), " is ", height, " x ",
                        width, " pixels; expected 1 to ", kMaxPixels)};
  }
  Image image{channels, height, width, {}};
  const Bytes bytes = channels * height * width;
  STOWAGE_RETURN_IF_ERROR(
      CheckMemory(StrCat("decoding ", Quoted(origin)), bytes));
  image.pixels.resize(static_cast<size_t>(bytes));
  return image;
}

uint8_t LumaOf(const uint8_t* rgb) {
  return static_cast<uint8_t>(
      (19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

void StoreRow(const uint8_t* row, int64_t y, Image* image) {
  const int64_t plane = image->height * image->width;
  uint8_t* to = image->pixels.data() + y * image->width;
  for (int64_t x = 0; x < image->width; ++x) {
    for (int64_t c = 0; c < image->channels; ++c) to[c * plane + x] = *row++;
  }
}

}  // namespace formats
}  // namespace stowage
