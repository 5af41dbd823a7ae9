#ifndef STOWAGE_FORMATS_IMAGE_H_
#define STOWAGE_FORMATS_IMAGE_H_

// Images: their shapes, the augmentation of training images, and the decoding of PNG (by
// libpng) and JPEG (by libjpeg-turbo), if the build has the libraries.
//
//   Result<Image> cat = DecodeImage(bytes, /*channels=*/3, "cat.jpg");

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

/// The shape and number of classes of a classifier's images.
struct ImageShape {
  int64_t channels = 1, height = 1, width = 1;
  int64_t classes = 2;

  /// The number of elements of an image.
  int64_t size() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// Augmentation of training images.
struct Augmentation {
  int64_t pad = 0;  // zeros on each side, before a random crop of the old size
  bool flip = false;  // horizontally, with probability 1/2
};

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
