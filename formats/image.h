#ifndef STOWAGE_FORMATS_IMAGE_H_
#define STOWAGE_FORMATS_IMAGE_H_

// Defines the shape of images and the augmentation of training images. Decodes PNG files with
// libpng and JPEG files with libjpeg-turbo, if the build has these libraries.
//
//   Result<Image> cat = DecodeImage(bytes, /*channels=*/3, "cat.jpg");

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

/// The image shape and number of classes of a classifier.
struct ImageShape {
  int64_t channels = 1, height = 1, width = 1;
  int64_t classes = 2;

  /// Returns the number of elements of an image.
  int64_t size() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// Random changes to training images.
struct Augmentation {
  int64_t pad = 0;    // zeros added on each side before a random crop
  bool flip = false;  // horizontally, with probability 1/2
};

struct Image {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // (channels, height, width), row-major
};

/// Decodes a PNG or JPEG file, which is recognized by its first bytes. Converts the image to gray
/// if `channels` is 1 and to RGB if it is 3, as Pillow's convert does, and drops alpha. `origin`
/// names the file in errors. Returns kInvalidArgument if the bytes are neither PNG nor JPEG, are
/// truncated or damaged, or if the image has more than 2^28 pixels. Returns kDevice if memory is
/// insufficient, and kUnsupported in a build without the library. Requires that `channels` is 1 or
/// 3.
Result<Image> DecodeImage(std::string_view bytes, int64_t channels,
                          std::string_view origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_IMAGE_H_
