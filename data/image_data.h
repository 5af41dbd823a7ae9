#ifndef STOWAGE_DATA_IMAGE_DATA_H_
#define STOWAGE_DATA_IMAGE_DATA_H_

// Loads image data sets, in which each image or each pixel has a class. Reads several file layouts,
// splits off a validation set, and draws augmented batches of f32 images (batch, channels, height,
// width) and i32 labels. A batch depends only on the seed and the step (Philox4x32-10), so a
// resumed run draws the same batches as an uninterrupted run.
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
  /// Writes image i to `x`. Byte pixels are divided by 255. Allocates nothing if the store is in
  /// memory. Returns an error if a file can no longer be decoded.
  Status Read(int64_t i, std::span<float> x) const;

 private:
  std::shared_ptr<const ImageStore> store_;
  std::vector<int64_t> rows_;
};

struct ImageLoadOptions {
  uint64_t seed = 1;     // chooses the validation set, unless the files do
  int64_t channels = 1;  // of decoded PNG and JPEG files, 1 or 3
  /// The decoded files of a set are kept in memory if they have at most this many bytes.
  Bytes keep = 1'073'741'824;
  bool labels_pixels = false;  // each pixel has a label, not each image
};

struct ImageData {
  ImageShape shape;
  ImageSet train, held_out;
  int64_t labels = 1;  // per image: 1, or the number of pixels
  /// The names of ignored files, folders and arrays.
  std::vector<std::string> left_out;
  /// The number of classes, up to the largest label of `train`, without an image in `train`.
  int64_t classes_without = 0;
  /// XXH64 of all pixels and labels in order.
  uint64_t digest = 0;
  /// Statistics of each channel of `train`. For float pixels, the mean is 0 and the deviation is 1.
  std::vector<float> mean, deviation;

  /// Returns whether Load accepts `path`, which must be a folder or end in .npz.
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
  /// Decodes every file once to detect invalid files early. Errors name the file, its content and
  /// the expected content.
  static Result<ImageData> Load(const std::string& path,
                                const ImageLoadOptions& options);
};

struct ImageBatch {
  std::span<const float> x;
  std::span<const int32_t> y;
};

/// Samples `x.size() / shape.size()` training images of a step with replacement, normalizes and
/// augments them. Labels of pixels are flipped with their image. `scratch` holds one image.
/// Allocates nothing if the images are in memory. Requires `augmentation.pad == 0` if pixels have
/// labels.
Status DrawImages(const ImageData& data, const Augmentation& augmentation,
                  uint64_t seed, int64_t step, std::span<float> scratch,
                  std::span<float> x, std::span<int32_t> y);

/// Copies images first, first + 1, ... of the validation set, modulo its size, and normalizes them.
Status ReadImages(const ImageData& data, int64_t first, std::span<float> x,
                  std::span<int32_t> y);

struct ImageReaderOptions {
  int64_t batch = 1;
  uint64_t seed = 1;
  Augmentation augmentation = {};
};

/// Draws training batches. A thread prefetches them into slots allocated by the constructor.
class ImageReader {
 public:
  /// `data` must outlive the reader.
  ImageReader(const ImageData& data, const ImageReaderOptions& options);
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  /// Returns the batch of `step`, which is valid until the next call. Consecutive steps are
  /// prefetched. Any other step restarts prefetching.
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
