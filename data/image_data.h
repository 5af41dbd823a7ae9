#ifndef STOWAGE_DATA_IMAGE_DATA_H_
#define STOWAGE_DATA_IMAGE_DATA_H_

// Image data sets: classes of images, or a class for each pixel. Reads files of several
// layouts, holds out a validation set, and draws augmented batches: f32 of (batch, channels,
// height, width), and i32 labels. A batch is a function of the seed and the step alone
// (Philox4x32-10), so that a resumed run draws what an uninterrupted one would have drawn.
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

/// A sequence of images of a store.
class ImageSet {
 public:
  ImageSet(std::shared_ptr<const ImageStore> store, std::vector<int64_t> rows);

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  /// The labels of image i: one, or one for each pixel, row by row.
  std::span<const int32_t> labels(int64_t i) const;
  /// Writes image i, bytes as fractions of 255. Allocates nothing if the store is in memory.
  /// Error: a file that can no longer be decoded.
  Status Read(int64_t i, std::span<float> x) const;

 private:
  std::shared_ptr<const ImageStore> store_;
  std::vector<int64_t> rows_;
};

struct ImageLoadOptions {
  uint64_t seed = 1;     // of the validation set, unless the files determine it
  int64_t channels = 1;  // of decoded PNG and JPEG files, 1 or 3
  /// Decoded files of a set stay in memory if they have at most this many bytes.
  Bytes keep = 1'073'741'824;
  bool labels_pixels = false;  // each pixel has a label, not each image
};

struct ImageData {
  ImageShape shape;
  ImageSet train, held_out;
  int64_t labels = 1;  // of an image: one, or one for each pixel
  /// The names of files, folders and arrays that were ignored.
  std::vector<std::string> left_out;
  /// The number of classes below the largest that no label of `train` has.
  int64_t classes_without = 0;
  /// XXH64 of all pixels and labels in order.
  uint64_t digest = 0;
  /// By channel of `train`; 0 and 1 if pixels are floats.
  std::vector<float> mean, deviation;

  /// Whether Load reads `path`: a folder, or a file that ends in .npz.
  static bool Reads(const std::string& path);

  /// Loads the images in `path`:
  ///  - a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte; t10k-... of both,
  ///    if present, are the validation set; each may end in .gz;
  ///  - a folder with a folder of PNG and JPEG files for each class, or with such folders in
  ///    train/ and in test/, which is the validation set; classes are numbered by name;
  ///  - an .npz with "x" of shape (N, C, H, W), (N, H, W) or (N, W), of bytes, or of floats,
  ///    which are not normalized, and "y", N integers; (N, H, W) if each pixel has a label,
  ///    which other layouts do not support.
  /// Without a validation set, a fifth is drawn by the seed. Everything is decoded once, so
  /// that invalid files fail here. Errors name the file, its content and what was expected.
  static Result<ImageData> Load(const std::string& path,
                                const ImageLoadOptions& options);
};

struct ImageBatch {
  std::span<const float> x;
  std::span<const int32_t> y;
};

/// Draws `x.size() / shape.size()` images of a step with repetition, augments and normalizes
/// them; labels of pixels are flipped with them. `scratch` holds one image. Allocates nothing
/// if the images are in memory. Precondition: no padding if pixels have labels.
Status DrawImages(const ImageData& data, const Augmentation& augmentation,
                  uint64_t seed, int64_t step, std::span<float> scratch,
                  std::span<float> x, std::span<int32_t> y);

/// Reads images first, first + 1, ... of the validation set, normalized.
Status ReadImages(const ImageData& data, int64_t first, std::span<float> x,
                  std::span<int32_t> y);

struct ImageReaderOptions {
  int64_t batch = 1;
  uint64_t seed = 1;
  Augmentation augmentation = {};
};

/// Draws training batches, prefetched by a thread into slots allocated by the constructor.
class ImageReader {
 public:
  /// `data` outlives the reader.
  ImageReader(const ImageData& data, const ImageReaderOptions& options);
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  /// The batch of `step`, valid until the next call. Consecutive steps are prefetched; any
  /// other step restarts the prefetch.
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
  std::vector<float> scratch_;  // the thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, with the slots' steps; a slot is filled without it.
  bool stops_ = false;
  int64_t generation_ = 0;
  int64_t first_ = 0;  // of the steps in slots
  int64_t next_ = 0;   // the next to prefetch
  bool begun_ = false;
  std::thread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_DATA_IMAGE_DATA_H_
