#ifndef STOWAGE_NN_IMAGE_DATA_H_
#define STOWAGE_NN_IMAGE_DATA_H_

// Images in classes, or with a class for each pixel, from files of others: what they
// are, what is held out, and batches of them. A batch is (batch, channels, height,
// width) of f32, and labels of i32; it depends on the seed and the step alone
// (Philox4x32-10), so that a resumed run sees what the whole one would have seen.
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
#include "nn/model_options.h"

namespace stowage {

/// Where the pixels are: in memory, or in files that are decoded when asked for.
class ImageStore;

/// Images of a store, in an order.
class ImageSet {
 public:
  ImageSet(std::shared_ptr<const ImageStore> store, std::vector<int64_t> rows);

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  /// Of image i: one, or one for each pixel, row by row.
  std::span<const int32_t> labels(int64_t i) const;
  /// Writes image i, bytes as fractions of 255. Allocates nothing where the
  /// store is in memory. Error: a file that can no longer be decoded.
  Status Read(int64_t i, std::span<float> x) const;

 private:
  std::shared_ptr<const ImageStore> store_;
  std::vector<int64_t> rows_;
};

struct ImageLoadOptions {
  uint64_t seed = 1;     // of what is held out, where the files do not say
  int64_t channels = 1;  // that files of images are decoded to, 1 or 3
  /// Decoded files of at most so many bytes, of each part, stay in memory.
  Bytes keep = 1'073'741'824;
  bool labels_pixels = false;  // each pixel has a label, not each image
};

struct ImageData {
  ImageShape shape;
  ImageSet train, held_out;
  int64_t labels = 1;  // of an image: one, or one for each pixel
  /// Files, folders and arrays in the path that are of none of this, by name.
  std::vector<std::string> left_out;
  /// Classes of which `train` has no label, though it has one of a higher number.
  int64_t classes_without = 0;
  /// XXH64 of all pixels and labels, in their order.
  uint64_t digest = 0;
  /// Of each channel of `train`; 0 and 1 where numbers are taken as they are.
  std::vector<float> mean, deviation;

  /// Whether Load reads `path`: a folder, or a file that ends in .npz.
  static bool Reads(const std::string& path);

  /// The images in `path`:
  ///  - a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte, perhaps
  ///    with t10k-... of both, which is then held out; each may end in .gz;
  ///  - a folder with a folder of PNG and JPEG files for each class, or with
  ///    such folders in train/ and in test/, which is then held out; classes are
  ///    numbered in the order of their names;
  ///  - an .npz with "x", (N, C, H, W), (N, H, W) or (N, W), of bytes or of reals,
  ///    which are taken as they are, and "y", N integers, or (N, H, W) where each
  ///    pixel has a label, which no other files hold.
  /// Where nothing is said to be held out, a fifth is, chosen by the seed. All is
  /// decoded once, so bad files end here: the errors name the file, what is there
  /// and what was expected.
  static Result<ImageData> Load(const std::string& path,
                                const ImageLoadOptions& options);
};

struct ImageBatch {
  std::span<const float> x;
  std::span<const int32_t> y;
};

/// Draws images with repetition for a step, as many as `x` holds, varies and
/// normalizes them; labels of pixels are flipped with them. `scratch` holds one
/// image. Allocates nothing where the images are in memory. Precondition: where
/// pixels have labels, nothing is padded, since what is outside has none.
Status DrawImages(const ImageData& data, const Augmentation& augmentation,
                  uint64_t seed, int64_t step, std::span<float> scratch,
                  std::span<float> x, std::span<int32_t> y);

/// Images first, first + 1, ... of what was held out, normalized.
Status ReadImages(const ImageData& data, int64_t first, std::span<float> x,
                  std::span<int32_t> y);

struct ImageReaderOptions {
  int64_t batch = 1;
  uint64_t seed = 1;
  Augmentation augmentation = {};
};

/// Batches for training, made ahead by a thread of its own into slots that are
/// allocated here.
class ImageReader {
 public:
  /// `data` outlives the reader.
  ImageReader(const ImageData& data, const ImageReaderOptions& options);
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  /// The batch of `step`, valid until another step is asked for. Steps that follow
  /// each other have been prepared; any other may be asked for, too.
  Result<ImageBatch> Get(int64_t step);

 private:
  static constexpr int64_t kSlots = 3;  // one in use, two ahead

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
  // What the mutex guards, the slots' steps included. A slot is filled without it.
  bool stops_ = false;
  int64_t generation_ = 0;
  int64_t first_ = 0;  // of the steps in slots
  int64_t next_ = 0;   // to be prepared
  bool begun_ = false;
  std::thread thread_;
};

}  // namespace stowage

#endif  // STOWAGE_NN_IMAGE_DATA_H_
