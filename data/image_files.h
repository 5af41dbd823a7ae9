#ifndef STOWAGE_DATA_IMAGE_FILES_H_
#define STOWAGE_DATA_IMAGE_FILES_H_

// Reads the images and labels of a data set from files in the layouts that ImageData::Load lists.
// An ImageStore has images in memory, or paths of files that are decoded when they are read.
//
//   STOWAGE_ASSIGN_OR_RETURN(ImageParts parts, ReadImageFiles("fashion", options));

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "data/image_data.h"
#include "formats/image.h"

namespace stowage {

/// Images and their labels. The images are in memory, or in files that Read decodes.
class ImageStore {
 public:
  using Files = std::vector<std::string>;
  using Pixels = std::variant<std::vector<uint8_t>, std::vector<float>, Files>;

  /// `pixels` are the pixels of all images in order, or the path of each image. Each image has
  /// `labels_each` labels.
  ImageStore(const ImageShape& shape, Pixels pixels,
             std::vector<int32_t> labels, int64_t labels_each)
      : shape_(shape),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        labels_each_(static_cast<size_t>(labels_each)) {}

  const ImageShape& shape() const { return shape_; }
  int64_t size() const {
    return static_cast<int64_t>(labels_.size() / labels_each_);
  }
  std::span<const int32_t> labels(int64_t i) const {
    return std::span(labels_).subspan(static_cast<size_t>(i) * labels_each_,
                                      labels_each_);
  }
  /// Returns whether pixels are bytes, which ImageData normalizes, instead of floats, which it does
  /// not normalize.
  bool has_bytes() const {
    return !std::holds_alternative<std::vector<float>>(pixels_);
  }

  /// Writes image i to `x`, which must have shape().size() elements. Byte pixels are divided by
  /// 255. Propagates errors of Decode.
  Status Read(int64_t i, std::span<float> x) const;

  /// Returns the pixels of an image file, with `shape.channels` channels. Returns kInvalidArgument
  /// if its height or width differs from `shape`. Propagates errors of ReadFile and DecodeImage
  /// (formats/image.h).
  static Result<std::vector<uint8_t>> Decode(const std::string& file,
                                             const ImageShape& shape);

 private:
  const ImageShape shape_;
  const Pixels pixels_;
  const std::vector<int32_t> labels_;
  const size_t labels_each_;
};

/// The training set or the validation set of a data set.
struct ImagePart {
  std::string origin;  // names the labels in errors
  ImageShape shape;    // without classes
  ImageStore::Pixels pixels;
  std::vector<int32_t> labels;
  int64_t labels_each = 1;  // labels per image
  std::vector<std::string> left_out = {};

  int64_t images() const { return std::ssize(labels) / labels_each; }
};

struct ImageParts {
  ImagePart train;
  std::optional<ImagePart> held_out;
};

/// Reads the images in `path`, in one of the layouts that ImageData::Load describes. Errors name
/// the file. Returns kNotFound or kIo if a file or array is missing or cannot be read, and
/// kInvalidArgument for a file or array of another layout, shape or type. Propagates errors of
/// DecodeImage, ParseIdx and ParseNpz.
Result<ImageParts> ReadImageFiles(const std::string& path,
                                  const ImageLoadOptions& options);

}  // namespace stowage

#endif  // STOWAGE_DATA_IMAGE_FILES_H_
