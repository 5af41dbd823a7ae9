#ifndef STOWAGE_FORMATS_IMAGE_H_
#define STOWAGE_FORMATS_IMAGE_H_

// Decodes PNG (by libpng) and JPEG (by libjpeg-turbo), if the build has the libraries.
//
//   Result<Image> cat = DecodeImage(bytes, /*channels=*/3, "cat.jpg");

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

struct Image {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // (channels, height, width), row-major
};

/// The image in `bytes`, a PNG or JPEG by its first bytes, converted to grey (1 channel) or
/// RGB (3) as by Pillow's convert; alpha is dropped. `origin` names the file in errors,
/// kInvalidArgument: neither a PNG nor a JPEG, truncated, damaged, or of more than 2^28
/// pixels. kUnsupported in a build without the library. Precondition: 1 or 3 channels.
Result<Image> DecodeImage(std::string_view bytes, int64_t channels,
                          std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_IMAGE_H_
