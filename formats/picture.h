#ifndef STOWAGE_FORMATS_PICTURE_H_
#define STOWAGE_FORMATS_PICTURE_H_

// Pictures: PNG by libpng and JPEG by libjpeg-turbo, where the build has them.
//
//   Result<Picture> cat = DecodePicture(bytes, /*channels=*/3, "cat.jpg");

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

struct Picture {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // (channels, height, width), row-major
};

/// The picture in `bytes`, by what they begin with, in grey (1 channel) or in red,
/// green and blue (3), whichever the file has; what is transparent lies over
/// black. `origin` names the file in errors, kInvalidArgument: neither a PNG nor a
/// JPEG, one that ends early or is damaged, one of more than 2^28 pixels.
/// kUnsupported in a build without the library. Precondition: 1 or 3 channels.
Result<Picture> DecodePicture(std::string_view bytes, int64_t channels,
                              std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_PICTURE_H_
