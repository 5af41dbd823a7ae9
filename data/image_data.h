#ifndef STOWAGE_DATA_IMAGE_DATA_H_
#define STOWAGE_DATA_IMAGE_DATA_H_

// Loads image data sets with a class for each image or each pixel. ImageData reads several file
// layouts and splits off a validation set. ImageReader draws augmented batches of f32 images
// (batch, channels, height, width) and i32 labels. A batch depends only on the seed and the step
// (Philox4x32-10), so a resumed run draws the same batches as an uninterrupted run.
//
//   Result<ImageData> data = ImageData::Load("fashion", {.seed = 1});
//   ImageReader reader(*data, {.batch = 64, .seed = 1});
//   Result<ImageBatch> batch = reader.Get(step);

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/image.h"

namespace stowage {

class ImageStore;  // data/image_files.h

/// A list of images in an ImageStore.
class ImageSet {
 public:
  ImageSet(std::shared_ptr<const ImageStore> store, std::vector<int64_t> rows);

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  /// Returns the labels of image i: one label, or one for each pixel in row-major order.
  std::span<const int32_t> labels(int64_t i) const;
  /// Writes image i to `x`, which must have the size of an image. Byte pixels are divided by 255.
  /// Does not allocate if the images are in memory. Returns an error if a file can no longer be
  /// read or decoded.
  Status Read(int64_t i, std::span<float> x) const;

 private:
  std::shared_ptr<const ImageStore> store_;
  std::vector<int64_t> rows_;
};

struct ImageLoadOptions {
  uint64_t seed = 1;     // determines the validation set, unless the files do
  int64_t channels = 1;  // of decoded PNG and JPEG files, 1 or 3
  /// The decoded PNG and JPEG files of a training or validation set are kept in memory if they have
  /// at most this number of bytes. Otherwise files are decoded for each batch.
  Bytes keep = 1'073'741'824;
  bool labels_pixels = false;  // each pixel has a label, not each image
};

struct ImageData {
  ImageShape shape;
  ImageSet train, held_out;
  int64_t labels = 1;  // per image: 1, or the number of pixels
  /// The names of ignored files, folders and arrays.
  std::vector<std::string> left_out;
  /// The number of classes without an image in `train`. The classes are 0 to the largest label in
  /// `train`.
  int64_t classes_without = 0;
  /// The XXH64 of all pixels, as floats, and all labels, in order.
  uint64_t digest = 0;
  /// The mean and standard deviation of each channel of `train`, for normalization. If pixels are
  /// floats, they are 0 and 1.
  std::vector<float> mean, deviation;

  /// Returns whether `path` is a folder or ends in .npz, as Load requires.
  static bool Reads(const std::string& path);

  /// Loads the images in `path`, which is one of the following.
  ///  - A folder with train-images-idx3-ubyte and train-labels-idx1-ubyte. The corresponding t10k-
  ///    files, if present, are the validation set. Each file may end in .gz.
  ///  - A folder with a subfolder of PNG and JPEG files for each class. The class subfolders may
  ///    also be in train/ and, for the validation set, in test/. Classes are numbered in the order
  ///    of their names.
  ///  - An .npz with images "x" of shape (N, C, H, W), (N, H, W) or (N, W), and N integer labels
  ///    "y". Pixels are bytes or floats. Floats are not normalized. Only this layout supports a
  ///    label for each pixel, for which "y" has shape (N, H, W).
  /// If the files have no validation set, a fifth of the images is chosen at random from the seed.
  /// Decodes every file at least once, to detect invalid files early. Errors name the file, its
  /// content and the expected content. Propagates errors of ReadImageFiles (data/image_files.h).
  /// Returns kInvalidArgument if there are fewer than 2 classes or too few images, or if the
  /// validation set has another image size or further classes.
  static Result<ImageData> Load(const std::string& path,
                                const ImageLoadOptions& options);
};

struct ImageBatch {
  std::span<const float> x;
  std::span<const int32_t> y;
};

/// Samples x.size() / data.shape.size() training images for `step` with replacement, normalizes and
/// augments them, and writes them to `x` and their labels to `y`. Labels of pixels are flipped with
/// their image. `scratch` must have the size of one image, `x` of whole images, and `y` of their
/// labels. Does not allocate if the images are in memory. Requires `augmentation.pad == 0` if
/// pixels have labels. Returns an error if a file can no longer be decoded.
Status DrawImages(const ImageData& data, const Augmentation& augmentation,
                  uint64_t seed, int64_t step, std::span<float> scratch,
                  std::span<float> x, std::span<int32_t> y);

/// Copies images first, first + 1, ... of the validation set, modulo its size, to `x` and their
/// labels to `y`, and normalizes the images. `x` must have the size of whole images, and `y` of
/// their labels. Requires `first >= 0`. Returns an error if a file can no longer be decoded.
Status ReadImages(const ImageData& data, int64_t first, std::span<float> x,
                  std::span<int32_t> y);

struct ImageReaderOptions {
  int64_t batch = 1;
  uint64_t seed = 1;
  Augmentation augmentation = {};
};

/// Draws training batches with DrawImages. A thread prefetches them into memory that the
/// constructor allocates.
class ImageReader {
 public:
  /// Creates a reader. `data` must outlive it.
  ImageReader(const ImageData& data, const ImageReaderOptions& options);
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  /// Returns the batch of `step`, which is valid until the next call. Requires `step >= 0`. The
  /// next two steps are prefetched. A call for another step restarts prefetching. Propagates errors
  /// of DrawImages.
  Result<ImageBatch> Get(int64_t step);

 private:
  static constexpr int64_t kSlots = 3;  // one in use, two prefetched

  struct Slot {
    std::optional<int64_t> step;
    Status status;
    std::vector<float> x;
    std::vector<int32_t> y;
  };

  Slot& Of(int64_t step) { return slots_[static_cast<size_t>(step % kSlots)]; }
  void Work();

  const ImageData& data_;
  const ImageReaderOptions options_;
  std::vector<Slot> slots_;
  std::vector<float> scratch_;  // used by the thread

  std::mutex mutex_;
  std::condition_variable changed_;
  // These members and the steps of the slots are guarded by mutex_. A slot is filled without it.
  bool stops_ = false;
  int64_t generation_ = 0;
  int64_t first_ = 0;  // first step in the slots
  int64_t next_ = 0;   // next step to prefetch
  bool begun_ = false;
  std::thread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_DATA_IMAGE_DATA_H_
