#ifndef STOWAGE_FORMATS_IMAGE_H_
#define STOWAGE_FORMATS_IMAGE_H_

// Images: PNG by libpng and JPEG by libjpeg-turbo, where the build has them.
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

/// The image in `bytes`, by what they begin with, in grey (1 channel) or in red,
/// green and blue (3), whichever the file has; what is transparent lies over
/// black. `origin` names the file in errors, kInvalidArgument: neither a PNG nor a
/// JPEG, one that ends early or is damaged, one of more than 2^28 pixels.
/// kUnsupported in a build without the library. Precondition: 1 or 3 channels.
Result<Image> DecodeImage(std::string_view bytes, int64_t channels,
                          std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_IMAGE_H_
