#include "data/image_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"
#include "data/image_files.h"
#include "math/random.h"

namespace stowage {
namespace {

std::shared_ptr<const ImageStore> StoreOf(ImagePart part, int64_t classes) {
  part.shape.classes = classes;
  return std::make_shared<ImageStore>(part.shape, std::move(part.pixels),
                                      std::move(part.labels), part.labels_each);
}

uint64_t Digest(std::span<const std::byte> bytes, uint64_t before) {
  return Xxh64({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
               before);
}

// One pass over all images: the digest of pixels and labels, the classes of the training set,
// and if pixels are bytes, its mean and standard deviation by channel.
Status Measure(const ImageShape& shape, bool has_bytes, ImageData* data) {
  const auto channels = static_cast<size_t>(shape.channels);
  const auto plane = static_cast<size_t>(shape.height * shape.width);
  std::vector<double> sum(channels), squares(channels);
  std::vector<float> x(static_cast<size_t>(shape.size()));
  std::vector<bool> is_there(static_cast<size_t>(shape.classes));
  for (const ImageSet* const set : {&data->train, &data->held_out}) {
    for (int64_t i = 0; i < set->size(); ++i) {
      STOWAGE_RETURN_IF_ERROR(set->Read(i, x));
      data->digest = Digest(std::as_bytes(std::span(x)), data->digest);
      data->digest = Digest(std::as_bytes(set->labels(i)), data->digest);
      if (set != &data->train) continue;
      for (const int32_t label : set->labels(i)) {
        is_there[static_cast<size_t>(label)] = true;
      }
      if (!has_bytes) continue;
      for (size_t k = 0; k < x.size(); ++k) {
        sum[k / plane] += x[k];
        squares[k / plane] += static_cast<double>(x[k]) * x[k];
      }
    }
  }
  data->classes_without = std::ranges::count(is_there, false);
  if (!has_bytes) return {};
  const double count =
      static_cast<double>(plane) * static_cast<double>(data->train.size());
  for (size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / count;
    const double variance = std::max(squares[c] / count - mean * mean, 0.0);
    data->mean[c] = static_cast<float>(mean);
    // A constant channel is not scaled.
    if (variance > 1e-12) {
      data->deviation[c] = static_cast<float>(std::sqrt(variance));
    }
  }
  return {};
}

void Normalize(const ImageData& data, std::span<float> x) {
  const auto plane = static_cast<size_t>(data.shape.height * data.shape.width);
  for (size_t k = 0; k < x.size(); ++k) {
    const size_t c = k / plane % data.mean.size();
    x[k] = (x[k] - data.mean[c]) / data.deviation[c];
  }
}

// The random choices for one example of one step, from the words of one Philox counter.
struct Draw {
  int64_t row, down, right;
  bool flips;
};

Draw DrawOf(uint64_t seed, int64_t step, int64_t example, int64_t size,
            const Augmentation& augmentation) {
  const auto s = static_cast<uint64_t>(step);
  const auto e = static_cast<uint64_t>(example);
  const math::Philox4 words = math::Philox4x32(
      {{static_cast<uint32_t>(e), static_cast<uint32_t>(e >> 32),
        static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)}},
      {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
  const auto below = [](uint64_t word, int64_t bound) {
    return static_cast<int64_t>(word * static_cast<uint64_t>(bound) >> 32);
  };
  const int64_t places = 2 * augmentation.pad + 1;
  return {.row = below(words.word[0], size),
          .down = below(words.word[1], places) - augmentation.pad,
          .right = below(words.word[2], places) - augmentation.pad,
          .flips = augmentation.flip && words.word[3] >> 31 != 0};
}

// Crops `planes` planes of the shape from `from`, padded by zeros, and flips them.
template <typename T>
void CropAndFlip(int64_t planes, const ImageShape& shape, const Draw& draw,
                 std::span<const T> from, std::span<T> to) {
  for (int64_t c = 0; c < planes; ++c) {
    for (int64_t y = 0; y < shape.height; ++y) {
      for (int64_t x = 0; x < shape.width; ++x) {
        const int64_t y0 = y + draw.down;
        const int64_t x0 = (draw.flips ? shape.width - 1 - x : x) + draw.right;
        const bool inside =
            y0 >= 0 && y0 < shape.height && x0 >= 0 && x0 < shape.width;
        const int64_t plane = c * shape.height;
        to[static_cast<size_t>((plane + y) * shape.width + x)] =
            inside ? from[static_cast<size_t>((plane + y0) * shape.width + x0)]
                   : T{0};
      }
    }
  }
}

}  // namespace

ImageSet::ImageSet(std::shared_ptr<const ImageStore> store,
                   std::vector<int64_t> rows)
    : store_(std::move(store)), rows_(std::move(rows)) {}

std::span<const int32_t> ImageSet::labels(int64_t i) const {
  return store_->labels(rows_[static_cast<size_t>(i)]);
}

Status ImageSet::Read(int64_t i, std::span<float> x) const {
  return store_->Read(rows_[static_cast<size_t>(i)], x);
}

bool ImageData::Reads(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".npz") || std::filesystem::is_directory(path, ignored);
}

Result<ImageData> ImageData::Load(const std::string& path,
                                  const ImageLoadOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(ImageParts parts, ReadImageFiles(path, options));
  ImagePart& train = parts.train;
  const int64_t classes = *std::ranges::max_element(train.labels) + 1;
  if (classes < 2) {
    return InvalidArgumentError(
        "[data] ", Quoted(train.origin), " has ", train.images(),
        " images, all of class 0; at least 2 classes are "
        "needed");
  }
  if (parts.held_out) {
    const ImagePart& test = *parts.held_out;
    if (test.shape != train.shape) {
      const auto text = [](const ImageShape& shape) {
        return StrCat("(", shape.channels, ", ", shape.height, ", ",
                      shape.width, ")");
      };
      return InvalidArgumentError(
          "[data] ", "in ", Quoted(path), " the images to train with are ",
          text(train.shape), ", those held out ", text(test.shape));
    }
    for (size_t i = 0; i < test.labels.size(); ++i) {
      if (test.labels[i] >= classes) {
        return InvalidArgumentError("[data] ", Quoted(test.origin), ": label ",
                                    i, " is ", test.labels[i],
                                    "; the images to train with are of ",
                                    classes, " classes, 0 to ", classes - 1);
      }
    }
  }
  std::vector<std::string> left_out = std::move(train.left_out);
  if (parts.held_out) {
    std::ranges::copy(parts.held_out->left_out, std::back_inserter(left_out));
  }
  ImageShape shape = train.shape;
  shape.classes = classes;
  const std::string origin = train.origin;
  const int64_t labels = train.labels_each;
  const std::shared_ptr<const ImageStore> store =
      StoreOf(std::move(train), classes);
  std::shared_ptr<const ImageStore> held_out_store = store;
  std::vector<int64_t> rows(static_cast<size_t>(store->size()));
  std::vector<int64_t> held_out_rows;
  if (parts.held_out) {
    std::iota(rows.begin(), rows.end(), 0);
    held_out_store = StoreOf(*std::move(parts.held_out), classes);
    held_out_rows.resize(static_cast<size_t>(held_out_store->size()));
    std::iota(held_out_rows.begin(), held_out_rows.end(), 0);
  } else {
    if (store->size() < 5) {
      return InvalidArgumentError(
          "[data] ", Quoted(origin), " has ", store->size(),
          " images; at least 5 are needed to hold out a "
          "fifth");
    }
    rows = ShuffledOrder(store->size(), SplitMix64(options.seed, 0));
    const auto fifth = rows.begin() + store->size() / 5;
    held_out_rows.assign(rows.begin(), fifth);
    rows.erase(rows.begin(), fifth);
  }
  ImageData data{
      .shape = shape,
      .train = ImageSet(store, std::move(rows)),
      .held_out = ImageSet(held_out_store, std::move(held_out_rows)),
      .labels = labels,
      .left_out = std::move(left_out),
      .mean = std::vector<float>(static_cast<size_t>(shape.channels), 0.0f),
      .deviation =
          std::vector<float>(static_cast<size_t>(shape.channels), 1.0f)};
  STOWAGE_RETURN_IF_ERROR(Measure(shape, store->has_bytes(), &data));
  return data;
}

Status DrawImages(const ImageData& data, const Augmentation& augmentation,
                  uint64_t seed, int64_t step, std::span<float> scratch,
                  std::span<float> x, std::span<int32_t> y) {
  const auto size = static_cast<size_t>(data.shape.size());
  const auto labels = static_cast<size_t>(data.labels);
  const size_t images = x.size() / size;
  STOWAGE_CHECK(scratch.size() == size && x.size() == images * size &&
                y.size() == images * labels);
  STOWAGE_CHECK(labels == 1 || augmentation.pad == 0);
  for (size_t i = 0; i < images; ++i) {
    const Draw draw = DrawOf(seed, step, static_cast<int64_t>(i),
                             data.train.size(), augmentation);
    STOWAGE_RETURN_IF_ERROR(data.train.Read(draw.row, scratch));
    // Normalize first, so that the padding is the mean.
    Normalize(data, scratch);
    CropAndFlip<float>(data.shape.channels, data.shape, draw, scratch,
                       x.subspan(i * size, size));
    const std::span<const int32_t> of_row = data.train.labels(draw.row);
    if (labels == 1) {
      y[i] = of_row[0];
    } else {
      CropAndFlip<int32_t>(1, data.shape, draw, of_row,
                           y.subspan(i * labels, labels));
    }
  }
  return {};
}

Status ReadImages(const ImageData& data, int64_t first, std::span<float> x,
                  std::span<int32_t> y) {
  const auto size = static_cast<size_t>(data.shape.size());
  const auto labels = static_cast<size_t>(data.labels);
  const size_t images = x.size() / size;
  STOWAGE_CHECK(x.size() == images * size && y.size() == images * labels);
  for (size_t i = 0; i < images; ++i) {
    const int64_t row =
        (first + static_cast<int64_t>(i)) % data.held_out.size();
    STOWAGE_RETURN_IF_ERROR(data.held_out.Read(row, x.subspan(i * size, size)));
    std::ranges::copy(data.held_out.labels(row),
                      y.begin() + static_cast<std::ptrdiff_t>(i * labels));
  }
  Normalize(data, x);
  return {};
}

ImageReader::ImageReader(const ImageData& data,
                         const ImageReaderOptions& options)
    : data_(data), options_(options) {
  const auto size = static_cast<size_t>(data.shape.size());
  const auto batch = static_cast<size_t>(options.batch);
  scratch_.resize(size);
  slots_.resize(kSlots);
  for (Slot& slot : slots_) {
    slot.x.resize(batch * size);
    slot.y.resize(batch * static_cast<size_t>(data.labels));
  }
  thread_ = std::thread([this] { Work(); });
}

ImageReader::~ImageReader() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<ImageBatch> ImageReader::Get(int64_t step) {
  STOWAGE_CHECK(step >= 0);
  std::unique_lock lock(mutex_);
  if (!begun_ || step < first_ || step >= first_ + kSlots) {
    // Restart from `step`, and discard batches in progress.
    begun_ = true;
    ++generation_;
    next_ = step;
    for (Slot& slot : slots_) slot.step.reset();
  }
  first_ = step;
  changed_.notify_all();
  Slot& slot = Of(step);
  changed_.wait(lock, [&] { return slot.step == step; });
  if (!slot.status.ok()) return slot.status.error();
  return ImageBatch{slot.x, slot.y};
}

void ImageReader::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(
        lock, [&] { return stops_ || (begun_ && next_ < first_ + kSlots); });
    if (stops_) return;
    const int64_t step = next_;
    const int64_t generation = generation_;
    Slot& slot = Of(step);
    slot.step.reset();
    lock.unlock();
    slot.status = DrawImages(data_, options_.augmentation, options_.seed, step,
                             scratch_, slot.x, slot.y);
    lock.lock();
    if (generation != generation_) continue;
    slot.step = step;
    ++next_;
    changed_.notify_all();
  }
}

}  // namespace stowage
