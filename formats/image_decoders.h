#ifndef STOWAGE_FORMATS_IMAGE_DECODERS_H_
#define STOWAGE_FORMATS_IMAGE_DECODERS_H_

// What decodes one kind of image each: a library, or, in a build without it, an
// error that names its package.

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "formats/image.h"

namespace stowage::formats {

inline constexpr int64_t kMaxPixels = 268'435'456;

Result<Image> DecodePng(std::string_view bytes, int64_t channels,
                        std::string_view origin);
Result<Image> DecodeJpeg(std::string_view bytes, int64_t channels,
                         std::string_view origin);

/// Checks a size that a file gives and makes room for it.
Result<Image> MakeImage(int64_t channels, int64_t height, int64_t width,
                        std::string_view origin);

/// The grey of a pixel as Pillow has it: 0.299 R + 0.587 G + 0.114 B, in 16 bits behind the
/// point.
uint8_t LumaOf(const uint8_t* rgb);

/// Puts one row of pixels, whose channels stand side by side, in its place.
void StoreRow(const uint8_t* row, int64_t y, Image* image);

}  // namespace stowage::formats

#endif  // STOWAGE_FORMATS_IMAGE_DECODERS_H_
