#include "nn/image_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
#include <variant>

#include "base/files.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/array.h"
#include "formats/image.h"
#include "formats/npy.h"
#include "math/random.h"
#include "math/small_floats.h"
#include "nn/random.h"

namespace stowage {

class ImageStore {
 public:
  using Files = std::vector<std::string>;
  using Pixels = std::variant<std::vector<uint8_t>, std::vector<float>, Files>;

  /// `pixels` are all images, one after the other, or the files they are in;
  /// `labels` so many numbers of each.
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
  /// Whether its numbers are bytes, which are to be normalized.
  bool has_bytes() const {
    return !std::holds_alternative<std::vector<float>>(pixels_);
  }

  Status Read(int64_t i, std::span<float> x) const {
    STOWAGE_CHECK(std::ssize(x) == shape_.size() && i >= 0 && i < size());
    if (const auto* reals = std::get_if<std::vector<float>>(&pixels_)) {
      std::copy_n(reals->begin() + i * shape_.size(), shape_.size(), x.begin());
      return {};
    }
    if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&pixels_)) {
      ToFloats({bytes->data() + i * shape_.size(), x.size()}, x);
      return {};
    }
    const std::string& file = std::get<Files>(pixels_)[static_cast<size_t>(i)];
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<uint8_t> pixels,
                             Decode(file, shape_));
    ToFloats(pixels, x);
    return {};
  }

  /// The pixels of a file, of the shape's size.
  static Result<std::vector<uint8_t>> Decode(const std::string& file,
                                             const ImageShape& shape) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file));
    STOWAGE_ASSIGN_OR_RETURN(Image image,
                             DecodeImage(bytes, shape.channels, file));
    if (image.height != shape.height || image.width != shape.width) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[data] ", Quoted(file), " is ", image.height, " x ",
                 image.width, " pixels; the first image is ", shape.height,
                 " x ", shape.width, ", and all must agree")};
    }
    return std::move(image.pixels);
  }

 private:
  static void ToFloats(std::span<const uint8_t> bytes, std::span<float> x) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(bytes[i]) / 255;
    }
  }

  const ImageShape shape_;
  const Pixels pixels_;
  const std::vector<int32_t> labels_;
  const size_t labels_each_;
};

namespace {

namespace fs = std::filesystem;

Error Fail(std::string_view message,
           ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[data] ", message)};
}

// What was read of one part, training or held out.
struct Part {
  std::string origin;  // of the labels, for errors
  ImageShape shape;    // without classes
  ImageStore::Pixels pixels;
  std::vector<int32_t> labels;
  int64_t labels_each = 1;  // of each image
  std::vector<std::string> left_out = {};

  int64_t images() const { return std::ssize(labels) / labels_each; }
};

// Labels of images (N), or of pixels (N, H, W).
Result<std::vector<int32_t>> LabelsOf(const Array& array,
                                      const std::string& origin, bool pixels) {
  if (array.type.shape.rank() != (pixels ? 3 : 1) ||
      IsFloat(array.type.dtype) || array.type.dtype == DType::kBool) {
    return Fail(StrCat(Quoted(origin), " holds ", array.type.ToString(),
                       "; expected a label, an integer, for each ",
                       pixels ? "pixel, (N, H, W)" : "image"));
  }
  std::vector<int32_t> labels;
  labels.reserve(static_cast<size_t>(array.type.shape.num_elements()));
  for (const int64_t value : IntsOf(array)) {
    if (value < 0 || value > 1'000'000) {
      return Fail(StrCat(Quoted(origin), ": label ", labels.size(), " is ",
                         value, "; expected 0 to 1000000"));
    }
    labels.push_back(static_cast<int32_t>(value));
  }
  return labels;
}

// Bytes as they are, reals as f32.
ImageStore::Pixels PixelsOf(const Array& array) {
  if (array.type.dtype == DType::kU8) return ValuesOf<uint8_t>(array);
  if (array.type.dtype == DType::kF32) return ValuesOf<float>(array);
  const std::vector<double> values = RealsOf(array);
  return std::vector<float>(values.begin(), values.end());
}

// An array of images and one of labels.
Result<Part> PartOf(const Array& x, const std::string& x_origin, const Array& y,
                    const std::string& y_origin, bool labels_pixels) {
  const Shape& shape = x.type.shape;
  const DType dtype = x.type.dtype;
  if (shape.rank() < 2 || shape.rank() > 4 ||
      !(dtype == DType::kU8 || IsFloat(dtype))) {
    return Fail(StrCat(Quoted(x_origin), " holds ", x.type.ToString(),
                       "; expected images (N, C, H, W), (N, H, W) or (N, W), "
                       "of u8 or of reals"));
  }
  Part part;
  part.origin = y_origin;
  part.shape.width = shape.back();
  if (shape.rank() > 2) part.shape.height = shape[shape.rank() - 2];
  if (shape.rank() > 3) part.shape.channels = shape[1];
  STOWAGE_ASSIGN_OR_RETURN(part.labels, LabelsOf(y, y_origin, labels_pixels));
  if (labels_pixels) {
    const Shape expected = {shape[0], part.shape.height, part.shape.width};
    if (y.type.shape != expected) {
      return Fail(StrCat(Quoted(x_origin), " holds ", x.type.ToString(),
                         " and ", Quoted(y_origin), " ", y.type.ToString(),
                         "; expected labels ", expected.ToString(),
                         ", one for each pixel"));
    }
    part.labels_each = part.shape.height * part.shape.width;
  } else if (std::ssize(part.labels) != shape[0]) {
    return Fail(StrCat(Quoted(x_origin), " holds ", shape[0], " images and ",
                       Quoted(y_origin), " ", part.labels.size(), " labels"));
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckMemory(StrCat("the images of ", Quoted(x_origin)),
                  shape.num_elements() * (dtype == DType::kU8 ? 1 : 4)));
  STOWAGE_RETURN_IF_ERROR(CheckFinite(x, DType::kF32, x_origin));
  part.pixels = PixelsOf(x);
  return part;
}

// --- IDX ----------------------------------------------------------------------

// The file of that name in the folder, plain or compressed; empty where neither is.
std::string FindIdx(const std::string& folder, std::string_view name) {
  for (const std::string_view ending : {"", ".gz"}) {
    const fs::path path = fs::path(folder) / StrCat(name, ending);
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

// "train" or "t10k"; absent where the folder has neither images nor labels of it.
Result<std::optional<Part>> ReadIdx(const std::string& folder,
                                    std::string_view which) {
  const std::string images = StrCat(which, "-images-idx3-ubyte");
  const std::string labels = StrCat(which, "-labels-idx1-ubyte");
  const std::string x_path = FindIdx(folder, images);
  const std::string y_path = FindIdx(folder, labels);
  if (x_path.empty() && y_path.empty()) return std::optional<Part>();
  if (x_path.empty() || y_path.empty()) {
    return Fail(StrCat("the folder ", Quoted(folder), " has ",
                       Quoted(x_path.empty() ? labels : images), " and no ",
                       Quoted(x_path.empty() ? images : labels),
                       ", with .gz or without"),
                ErrorCode::kNotFound);
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string x_bytes, ReadFile(x_path));
  STOWAGE_ASSIGN_OR_RETURN(const Array x, ParseIdx(x_bytes, x_path));
  STOWAGE_ASSIGN_OR_RETURN(const std::string y_bytes, ReadFile(y_path));
  STOWAGE_ASSIGN_OR_RETURN(const Array y, ParseIdx(y_bytes, y_path));
  STOWAGE_ASSIGN_OR_RETURN(Part part, PartOf(x, x_path, y, y_path, false));
  return std::optional<Part>(std::move(part));
}

// --- Folders of images ------------------------------------------------------

// What is in a folder, by name; what begins with a dot is not.
Result<std::vector<fs::path>> List(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().string().starts_with('.')) {
      entries.push_back(it->path());
    }
  }
  if (error) {
    return Fail(StrCat("the folder ", Quoted(folder.string()),
                       " cannot be read: ", error.message()),
                ErrorCode::kIo);
  }
  std::ranges::sort(entries);
  return entries;
}

// Those in a folder; what else is there is added to `left_out`.
Result<std::vector<fs::path>> ListFolders(const fs::path& folder,
                                          std::vector<std::string>* left_out) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<fs::path> entries, List(folder));
  std::erase_if(entries, [&](const fs::path& entry) {
    std::error_code ignored;
    if (fs::is_directory(entry, ignored)) return false;
    left_out->push_back(entry.string());
    return true;
  });
  return entries;
}

bool IsImage(const fs::path& path) {
  const std::string ending = path.extension().string();
  return EndsWithAnyCase(ending, ".png") || EndsWithAnyCase(ending, ".jpg") ||
         EndsWithAnyCase(ending, ".jpeg");
}

// Images in a folder for each class. `classes` are the names in their order, and
// filled where they are not known yet.
Result<Part> ReadClasses(const fs::path& folder,
                         const ImageLoadOptions& options,
                         std::vector<std::string>* classes) {
  const bool first = classes->empty();
  Part part;
  part.origin = folder.string();
  ImageStore::Files files;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> folders,
                           ListFolders(folder, &part.left_out));
  for (const fs::path& of_class : folders) {
    const std::string name = of_class.filename().string();
    if (first) classes->push_back(name);
    const auto place = std::ranges::find(*classes, name);
    if (place == classes->end()) {
      return Fail(StrCat(Quoted(of_class.string()), " is of none of the ",
                         classes->size(), " classes that are trained"));
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries,
                             List(of_class));
    const size_t before = files.size();
    for (const fs::path& entry : entries) {
      (IsImage(entry) ? files : part.left_out).push_back(entry.string());
    }
    if (files.size() == before) {
      return Fail(StrCat("the class folder ", Quoted(of_class.string()),
                         " has no .png, .jpg or .jpeg among its ",
                         entries.size(), " files"));
    }
    part.labels.resize(files.size(),
                       static_cast<int32_t>(place - classes->begin()));
  }
  if (files.empty()) {
    return Fail(StrCat("the folder ", Quoted(folder.string()),
                       " has neither train-images-idx3-ubyte nor a folder of "
                       "images for each class"),
                ErrorCode::kNotFound);
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(files[0]));
  STOWAGE_ASSIGN_OR_RETURN(const Image image,
                           DecodeImage(bytes, options.channels, files[0]));
  part.shape = {
      .channels = image.channels, .height = image.height, .width = image.width};
  const Bytes one = part.shape.size();
  const bool keeps = std::ssize(files) <= options.keep / one;
  std::vector<uint8_t> kept;
  if (keeps) {
    const Bytes all = std::ssize(files) * one;
    STOWAGE_RETURN_IF_ERROR(
        CheckMemory(StrCat("the images of ", Quoted(folder.string())), all));
    kept.reserve(static_cast<size_t>(all));
  }
  for (const std::string& file : files) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<uint8_t> pixels,
                             ImageStore::Decode(file, part.shape));
    if (keeps) kept.insert(kept.end(), pixels.begin(), pixels.end());
  }
  if (keeps) {
    part.pixels = std::move(kept);
  } else {
    part.pixels = std::move(files);
  }
  return part;
}

// --- All of it ----------------------------------------------------------------

struct Parts {
  Part train;
  std::optional<Part> held_out;
};

Result<Parts> ReadNpz(const std::string& path, bool labels_pixels) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<NamedArray> arrays,
                           ParseNpz(bytes, path));
  std::string names;
  for (const NamedArray& named : arrays) {
    names += StrCat(names.empty() ? "" : ", ", Quoted(named.name));
  }
  const auto find = [&](std::string_view name) -> Result<const Array*> {
    for (const NamedArray& named : arrays) {
      if (named.name == name) return &named.array;
    }
    return Fail(StrCat(Quoted(path), " has no array ", Quoted(name),
                       "; it has ", names.empty() ? "none" : names,
                       ", expected \"x\", images, and \"y\", their labels"),
                ErrorCode::kNotFound);
  };
  STOWAGE_ASSIGN_OR_RETURN(const Array* const x, find("x"));
  STOWAGE_ASSIGN_OR_RETURN(const Array* const y, find("y"));
  STOWAGE_ASSIGN_OR_RETURN(
      Part part,
      PartOf(*x, StrCat(path, ":x"), *y, StrCat(path, ":y"), labels_pixels));
  for (const NamedArray& named : arrays) {
    if (named.name == "x" || named.name == "y") continue;
    part.left_out.push_back(StrCat(path, ":", named.name));
  }
  return Parts{std::move(part), std::nullopt};
}

Result<Parts> ReadFolder(const std::string& path,
                         const ImageLoadOptions& options) {
  if (options.labels_pixels) {
    return Fail(
        StrCat(Quoted(path),
               " is a folder, which holds a label for each image; "
               "labels of pixels are read from an .npz, \"x\" (N, C, H, "
               "W) and \"y\" (N, H, W)"));
  }
  STOWAGE_ASSIGN_OR_RETURN(std::optional<Part> train, ReadIdx(path, "train"));
  if (train) {
    STOWAGE_ASSIGN_OR_RETURN(std::optional<Part> test, ReadIdx(path, "t10k"));
    return Parts{*std::move(train), std::move(test)};
  }
  std::vector<std::string> classes;
  const fs::path folder(path);
  std::error_code ignored;
  // A class may be called so, too: then it has images, and no folders.
  const auto is_split = [&] {
    for (fs::directory_iterator entry(folder / "train", ignored), end;
         !ignored && entry != end; entry.increment(ignored)) {
      if (entry->is_directory(ignored)) return true;
    }
    return false;
  };
  if (!is_split()) {
    STOWAGE_ASSIGN_OR_RETURN(Part all, ReadClasses(folder, options, &classes));
    return Parts{std::move(all), std::nullopt};
  }
  STOWAGE_ASSIGN_OR_RETURN(Part of_train,
                           ReadClasses(folder / "train", options, &classes));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, List(folder));
  for (const fs::path& entry : entries) {
    if (entry.filename() == "train" || entry.filename() == "test") continue;
    of_train.left_out.push_back(entry.string());
  }
  if (!fs::is_directory(folder / "test", ignored)) {
    return Parts{std::move(of_train), std::nullopt};
  }
  STOWAGE_ASSIGN_OR_RETURN(Part test,
                           ReadClasses(folder / "test", options, &classes));
  return Parts{std::move(of_train), std::move(test)};
}

// Every row of the store, in an order that the seed decides.
std::vector<int64_t> Shuffled(int64_t size, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  SplitMix64 random(seed, 0);
  for (size_t i = order.size() - 1; i > 0; --i) {  // Fisher and Yates
    const int64_t other = random.Below(static_cast<int64_t>(i) + 1);
    std::swap(order[i], order[static_cast<size_t>(other)]);
  }
  return order;
}

std::shared_ptr<const ImageStore> StoreOf(Part part, int64_t classes) {
  part.shape.classes = classes;
  return std::make_shared<ImageStore>(part.shape, std::move(part.pixels),
                                      std::move(part.labels), part.labels_each);
}

uint64_t Digest(std::span<const std::byte> bytes, uint64_t before) {
  return Xxh64({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
               before);
}

// One pass over all pixels: their digest with the labels', which classes are there, and
// where pixels are bytes, mean and standard deviation of each channel of what is trained on.
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
    // A channel of one colour stays what it is.
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

// Of the words of a Philox counter that are kept for one example of one step.
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

// Cuts `to` out of `from`, so many planes of the shape, with zeros around it.
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
  return path.ends_with(".npz") || fs::is_directory(path, ignored);
}

Result<ImageData> ImageData::Load(const std::string& path,
                                  const ImageLoadOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(
      Parts parts, path.ends_with(".npz") ? ReadNpz(path, options.labels_pixels)
                                          : ReadFolder(path, options));
  Part& train = parts.train;
  const int64_t classes = *std::ranges::max_element(train.labels) + 1;
  if (classes < 2) {
    return Fail(StrCat(Quoted(train.origin), " has ", train.images(),
                       " images, all of class 0; at least 2 classes are "
                       "needed"));
  }
  if (parts.held_out) {
    const Part& test = *parts.held_out;
    if (test.shape != train.shape) {
      const auto text = [](const ImageShape& shape) {
        return StrCat("(", shape.channels, ", ", shape.height, ", ",
                      shape.width, ")");
      };
      return Fail(StrCat("in ", Quoted(path), " the images to train with are ",
                         text(train.shape), ", those held out ",
                         text(test.shape)));
    }
    for (size_t i = 0; i < test.labels.size(); ++i) {
      if (test.labels[i] >= classes) {
        return Fail(StrCat(Quoted(test.origin), ": label ", i, " is ",
                           test.labels[i], "; the images to train with are of ",
                           classes, " classes, 0 to ", classes - 1));
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
      return Fail(StrCat(Quoted(origin), " has ", store->size(),
                         " images; at least 5 are needed to hold out a "
                         "fifth"));
    }
    rows = Shuffled(store->size(), options.seed);
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
    // First, so that what lies around an image is the mean.
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
    // From there on, whatever was under way.
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
