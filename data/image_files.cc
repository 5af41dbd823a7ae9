#include "data/image_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/array.h"
#include "formats/image.h"
#include "formats/npy.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

void ToFloats(std::span<const uint8_t> bytes, std::span<float> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(bytes[i]) / 255;
  }
}

Error Fail(std::string_view message,
           ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[data] ", message)};
}

// Labels of images (N), or of pixels (N, H, W).
Result<std::vector<int32_t>> LabelsOf(const Array& array,
                                      const std::string& origin, bool pixels) {
  if (array.type.shape.rank() != (pixels ? 3 : 1) ||
      IsFloat(array.type.dtype) || array.type.dtype == DType::kBool) {
    return InvalidArgumentError("[data] ", Quoted(origin), " holds ",
                                array.type.ToString(),
                                "; expected a label, an integer, for each ",
                                pixels ? "pixel, (N, H, W)" : "image");
  }
  std::vector<int32_t> labels;
  labels.reserve(static_cast<size_t>(array.type.shape.num_elements()));
  for (const int64_t value : IntsOf(array)) {
    if (value < 0 || value > 1'000'000) {
      return InvalidArgumentError("[data] ", Quoted(origin), ": label ",
                                  labels.size(), " is ", value,
                                  "; expected 0 to 1000000");
    }
    labels.push_back(static_cast<int32_t>(value));
  }
  return labels;
}

// Bytes unchanged, floats as f32.
ImageStore::Pixels PixelsOf(const Array& array) {
  if (array.type.dtype == DType::kU8) return ValuesOf<uint8_t>(array);
  if (array.type.dtype == DType::kF32) return ValuesOf<float>(array);
  const std::vector<double> values = RealsOf(array);
  return std::vector<float>(values.begin(), values.end());
}

// The part of an array of images and one of labels.
Result<ImagePart> PartOf(const Array& x, const std::string& x_origin,
                         const Array& y, const std::string& y_origin,
                         bool labels_pixels) {
  const Shape& shape = x.type.shape;
  const DType dtype = x.type.dtype;
  if (shape.rank() < 2 || shape.rank() > 4 ||
      !(dtype == DType::kU8 || IsFloat(dtype))) {
    return InvalidArgumentError(
        "[data] ", Quoted(x_origin), " holds ", x.type.ToString(),
        "; expected images (N, C, H, W), (N, H, W) or (N, W), "
        "of u8 or of reals");
  }
  ImagePart part;
  part.origin = y_origin;
  part.shape.width = shape.back();
  if (shape.rank() > 2) part.shape.height = shape[shape.rank() - 2];
  if (shape.rank() > 3) part.shape.channels = shape[1];
  STOWAGE_ASSIGN_OR_RETURN(part.labels, LabelsOf(y, y_origin, labels_pixels));
  if (labels_pixels) {
    const Shape expected = {shape[0], part.shape.height, part.shape.width};
    if (y.type.shape != expected) {
      return InvalidArgumentError("[data] ", Quoted(x_origin), " holds ",
                                  x.type.ToString(), " and ", Quoted(y_origin),
                                  " ", y.type.ToString(), "; expected labels ",
                                  expected.ToString(), ", one for each pixel");
    }
    part.labels_each = part.shape.height * part.shape.width;
  } else if (std::ssize(part.labels) != shape[0]) {
    return InvalidArgumentError("[data] ", Quoted(x_origin), " holds ",
                                shape[0], " images and ", Quoted(y_origin), " ",
                                part.labels.size(), " labels");
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckMemory(StrCat("the images of ", Quoted(x_origin)),
                  shape.num_elements() * (dtype == DType::kU8 ? 1 : 4)));
  STOWAGE_RETURN_IF_ERROR(CheckFinite(x, DType::kF32, x_origin));
  part.pixels = PixelsOf(x);
  return part;
}

// The file of that name in the folder, plain or compressed; "" if there is neither.
std::string FindIdx(const std::string& folder, std::string_view name) {
  for (const std::string_view ending : {"", ".gz"}) {
    const fs::path path = fs::path(folder) / StrCat(name, ending);
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

// Reads IDX files of "train" or "t10k"; absent if the folder has neither images nor labels.
Result<std::optional<ImagePart>> ReadIdx(const std::string& folder,
                                         std::string_view which) {
  const std::string images = StrCat(which, "-images-idx3-ubyte");
  const std::string labels = StrCat(which, "-labels-idx1-ubyte");
  const std::string x_path = FindIdx(folder, images);
  const std::string y_path = FindIdx(folder, labels);
  if (x_path.empty() && y_path.empty()) return std::optional<ImagePart>();
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
  STOWAGE_ASSIGN_OR_RETURN(ImagePart part, PartOf(x, x_path, y, y_path, false));
  return std::optional<ImagePart>(std::move(part));
}

// The entries of a folder, sorted by name, without names that begin with a dot.
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

// The folders in a folder; other entries are added to `left_out`.
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

// Reads a folder of images for each class. Sets `classes`, the names of the classes, if it is
// empty.
Result<ImagePart> ReadClasses(const fs::path& folder,
                              const ImageLoadOptions& options,
                              std::vector<std::string>* classes) {
  const bool first = classes->empty();
  ImagePart part;
  part.origin = folder.string();
  ImageStore::Files files;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> folders,
                           ListFolders(folder, &part.left_out));
  for (const fs::path& of_class : folders) {
    const std::string name = of_class.filename().string();
    if (first) classes->push_back(name);
    const auto place = std::ranges::find(*classes, name);
    if (place == classes->end()) {
      return InvalidArgumentError("[data] ", Quoted(of_class.string()),
                                  " is of none of the ", classes->size(),
                                  " classes that are trained");
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries,
                             List(of_class));
    const size_t before = files.size();
    for (const fs::path& entry : entries) {
      (IsImage(entry) ? files : part.left_out).push_back(entry.string());
    }
    if (files.size() == before) {
      return InvalidArgumentError(
          "[data] ", "the class folder ", Quoted(of_class.string()),
          " has no .png, .jpg or .jpeg among its ", entries.size(), " files");
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

Result<ImageParts> ReadNpz(const std::string& path, bool labels_pixels) {
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
      ImagePart part,
      PartOf(*x, StrCat(path, ":x"), *y, StrCat(path, ":y"), labels_pixels));
  for (const NamedArray& named : arrays) {
    if (named.name == "x" || named.name == "y") continue;
    part.left_out.push_back(StrCat(path, ":", named.name));
  }
  return ImageParts{std::move(part), std::nullopt};
}

Result<ImageParts> ReadFolder(const std::string& path,
                              const ImageLoadOptions& options) {
  if (options.labels_pixels) {
    return Fail(
        StrCat(Quoted(path),
               " is a folder, which holds a label for each image; "
               "labels of pixels are read from an .npz, \"x\" (N, C, H, "
               "W) and \"y\" (N, H, W)"));
  }
  STOWAGE_ASSIGN_OR_RETURN(std::optional<ImagePart> train,
                           ReadIdx(path, "train"));
  if (train) {
    STOWAGE_ASSIGN_OR_RETURN(std::optional<ImagePart> test,
                             ReadIdx(path, "t10k"));
    return ImageParts{*std::move(train), std::move(test)};
  }
  std::vector<std::string> classes;
  const fs::path folder(path);
  std::error_code ignored;
  // A class may be named "train": it then contains images, not folders.
  const auto is_split = [&] {
    for (fs::directory_iterator entry(folder / "train", ignored), end;
         !ignored && entry != end; entry.increment(ignored)) {
      if (entry->is_directory(ignored)) return true;
    }
    return false;
  };
  if (!is_split()) {
    STOWAGE_ASSIGN_OR_RETURN(ImagePart all,
                             ReadClasses(folder, options, &classes));
    return ImageParts{std::move(all), std::nullopt};
  }
  STOWAGE_ASSIGN_OR_RETURN(ImagePart of_train,
                           ReadClasses(folder / "train", options, &classes));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, List(folder));
  for (const fs::path& entry : entries) {
    if (entry.filename() == "train" || entry.filename() == "test") continue;
    of_train.left_out.push_back(entry.string());
  }
  if (!fs::is_directory(folder / "test", ignored)) {
    return ImageParts{std::move(of_train), std::nullopt};
  }
  STOWAGE_ASSIGN_OR_RETURN(ImagePart test,
                           ReadClasses(folder / "test", options, &classes));
  return ImageParts{std::move(of_train), std::move(test)};
}

}  // namespace

Status ImageStore::Read(int64_t i, std::span<float> x) const {
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

Result<std::vector<uint8_t>> ImageStore::Decode(const std::string& file,
                                                const ImageShape& shape) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file));
  STOWAGE_ASSIGN_OR_RETURN(Image image,
                           DecodeImage(bytes, shape.channels, file));
  if (image.height != shape.height || image.width != shape.width) {
    return InvalidArgumentError("[data] ", Quoted(file), " is ", image.height,
                                " x ", image.width,
                                " pixels; the first image is ", shape.height,
                                " x ", shape.width, ", and all must agree");
  }
  return std::move(image.pixels);
}

Result<ImageParts> ReadImageFiles(const std::string& path,
                                  const ImageLoadOptions& options) {
  return path.ends_with(".npz") ? ReadNpz(path, options.labels_pixels)
                                : ReadFolder(path, options);
}

}  // namespace stowage
