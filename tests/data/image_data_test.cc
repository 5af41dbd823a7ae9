#include "data/image_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::EmptyFolder;

namespace fs = std::filesystem;

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string Idx(const std::vector<int>& dims, const std::string& body) {
  std::string bytes = std::string("\0\0\x08", 3);
  bytes += static_cast<char>(dims.size());
  for (const int dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(dim >> shift & 0xFF);
    }
  }
  return bytes + body;
}

// Images of 2 x 3, image i of the bytes 6 i to 6 i + 5, of class i % 2.
std::string Images(int count) {
  std::string body;
  for (int i = 0; i < 6 * count; ++i) body += static_cast<char>(i);
  return Idx({count, 2, 3}, body);
}
std::string Labels(int count) {
  std::string body;
  for (int i = 0; i < count; ++i) body += static_cast<char>(i % 2);
  return Idx({count}, body);
}

std::string Refuse(const std::string& path) {
  const Result<ImageData> data = ImageData::Load(path, {.seed = 1});
  REQUIRE_FALSE(data.ok());
  return data.error().message;
}

std::vector<float> Image(const ImageSet& set, int64_t i) {
  std::vector<float> x(6);
  REQUIRE(set.Read(i, x).ok());
  return x;
}

ImageData Small(const std::string& name) {
  const std::string folder = EmptyFolder(name);
  WriteFile(folder + "/train-images-idx3-ubyte", Images(8));
  WriteFile(folder + "/train-labels-idx1-ubyte", Labels(8));
  WriteFile(folder + "/t10k-images-idx3-ubyte", Images(3));
  WriteFile(folder + "/t10k-labels-idx1-ubyte", Labels(3));
  Result<ImageData> data = ImageData::Load(folder, {.seed = 1});
  REQUIRE_MESSAGE(data.ok(), data.error().message);
  return *std::move(data);
}

TEST_CASE(
    "a folder of IDX files is trained with one pair, judged by the other") {
  const ImageData data = Small("idx");
  CHECK(data.shape == ImageShape{1, 2, 3, 2});
  CHECK(data.train.size() == 8);
  CHECK(data.held_out.size() == 3);
  CHECK(Image(data.train, 7)[5] == 47.0f / 255);
  CHECK(data.train.labels(7)[0] == 1);
  CHECK(Image(data.held_out, 2)[0] == 12.0f / 255);
  // Of the bytes 0 to 47: the mean 23.5, the variance (48^2 - 1) / 12.
  CHECK(data.mean[0] == doctest::Approx(23.5 / 255));
  CHECK(data.deviation[0] ==
        doctest::Approx(std::sqrt((48.0 * 48 - 1) / 12) / 255));
  std::vector<float> x(12);
  std::vector<int32_t> y(2);
  REQUIRE(ReadImages(data, 2, x, y).ok());
  CHECK(y == std::vector<int32_t>{0, 0});  // the third, then the first again
  CHECK(x[0] == doctest::Approx((12 - 23.5) / std::sqrt(2303.0 / 12)));
  CHECK(x[6] == doctest::Approx((0 - 23.5) / std::sqrt(2303.0 / 12)));
}

TEST_CASE("where nothing is held out, a fifth is, which the seed chooses") {
  const std::string folder = EmptyFolder("fifth");
  WriteFile(folder + "/train-images-idx3-ubyte", Images(10));
  WriteFile(folder + "/train-labels-idx1-ubyte", Labels(10));
  std::set<std::vector<float>> seen;
  std::set<std::vector<float>> held_out;
  for (const uint64_t seed : {1, 2, 3}) {
    const auto data = ImageData::Load(folder, {.seed = seed});
    REQUIRE_MESSAGE(data.ok(), data.error().message);
    REQUIRE(data->train.size() == 8);
    REQUIRE(data->held_out.size() == 2);
    std::set<std::vector<float>> all;
    for (int64_t i = 0; i < 8; ++i) all.insert(Image(data->train, i));
    for (int64_t i = 0; i < 2; ++i) all.insert(Image(data->held_out, i));
    CHECK(all.size() == 10);
    held_out.insert(Image(data->held_out, 0));
  }
  CHECK(held_out.size() > 1);
}

TEST_CASE("an .npz has images x of bytes or reals, and labels y") {
  const std::string path = EmptyFolder("npz") + "/a.npz";
  std::string reals(5 * 2 * sizeof(float), '\0');
  for (int i = 0; i < 10; ++i) {
    const float value = 0.5f * static_cast<float>(i);
    std::memcpy(reals.data() + static_cast<size_t>(i) * sizeof(float), &value,
                sizeof(value));
  }
  const NamedArray x{"x", {{DType::kF32, {5, 2}}, reals}};
  const NamedArray y{"y", {{DType::kU8, {5}}, std::string("\0\1\2\0\1", 5)}};
  WriteFile(path, *NpzBytes(std::vector{x, y}));
  const auto data = ImageData::Load(path, {.seed = 1});
  REQUIRE_MESSAGE(data.ok(), data.error().message);
  CHECK(data->shape == ImageShape{1, 1, 2, 3});
  CHECK(data->train.size() == 4);
  // Reals are taken as they are.
  CHECK(data->mean == std::vector<float>{0});
  CHECK(data->deviation == std::vector<float>{1});
  std::vector<float> held_out(2);
  std::vector<int32_t> label(1);
  REQUIRE(ReadImages(*data, 0, held_out, label).ok());
  const auto row = static_cast<int>(held_out[0]);
  CHECK(held_out[1] == held_out[0] + 0.5f);
  CHECK(label[0] == row % 3);

  WriteFile(path, *NpzBytes(std::vector{x}));
  CHECK(Refuse(path) == "[data] \"" + path +
                            "\" has no array \"y\"; it has \"x\", expected "
                            "\"x\", images, and \"y\", their labels");
}

TEST_CASE("images that are not finite are refused with their place") {
  const std::string path = EmptyFolder("not_finite") + "/a.npz";
  const NamedArray y{"y", {{DType::kU8, {5}}, std::string("\0\1\2\0\1", 5)}};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    std::vector<double> reals(10, 0.5);
    reals[7] = dtype == DType::kF32 ? std::nan("") : 1e300;
    const NamedArray x{"x", ArrayOf(dtype, {5, 2}, reals)};
    WriteFile(path, *NpzBytes(std::vector{x, y}));
    CHECK(Refuse(path).starts_with("[data] \"" + path + ":x\" [3, 1] is " +
                                   (dtype == DType::kF32 ? "nan" : "1e+300")));
  }
}

// Five images of 2 x 3 reals, of which image n is n, n + 0.1, ... and the label
// of a pixel is its tenths.
std::vector<NamedArray> LabelledPixels() {
  std::string reals, labels;
  for (int n = 0; n < 5; ++n) {
    for (int pixel = 0; pixel < 6; ++pixel) {
      const float value =
          static_cast<float>(n) + 0.1f * static_cast<float>(pixel);
      reals.append(reinterpret_cast<const char*>(&value), sizeof(value));
      labels.push_back(static_cast<char>(pixel));
    }
  }
  return {{"x", {{DType::kF32, {5, 1, 2, 3}}, reals}},
          {"y", {{DType::kU8, {5, 2, 3}}, labels}}};
}

TEST_CASE("an .npz may have a label for each pixel, flipped with its image") {
  const std::string path = EmptyFolder("pixels") + "/a.npz";
  WriteFile(path, *NpzBytes(LabelledPixels()));
  const auto data = ImageData::Load(path, {.labels_pixels = true});
  REQUIRE_MESSAGE(data.ok(), data.error().message);
  CHECK(data->shape == ImageShape{1, 2, 3, 6});
  CHECK(data->labels == 6);
  CHECK(data->train.size() == 4);
  CHECK(data->held_out.size() == 1);
  constexpr size_t kImages = 16;
  std::vector<float> scratch(6), x(kImages * 6);
  std::vector<int32_t> y(kImages * 6);
  REQUIRE(DrawImages(*data, {.flip = true}, 1, 3, scratch, x, y).ok());
  int flipped = 0;
  for (size_t i = 0; i < kImages; ++i) flipped += y[i * 6] == 2;
  CHECK(flipped > 0);
  CHECK(flipped < static_cast<int>(kImages));
  REQUIRE(
      ReadImages(*data, 0, std::span(x).first(6), std::span(y).first(6)).ok());
  for (size_t k = 0; k < x.size(); ++k) {
    CHECK(x[k] - std::floor(x[k] + 0.05f) ==
          doctest::Approx(0.1 * y[k]).epsilon(1e-4));
  }
}

TEST_CASE("labels of pixels that do not fit their images are refused") {
  const std::string folder = EmptyFolder("wrong-pixels");
  const std::string path = folder + "/a.npz";
  const auto refuse = [](const std::string& of) {
    const auto data = ImageData::Load(of, {.labels_pixels = true});
    REQUIRE_FALSE(data.ok());
    return data.error().message;
  };
  std::vector<NamedArray> arrays = LabelledPixels();
  arrays[1].array.type.shape = {5, 3, 2};
  WriteFile(path, *NpzBytes(arrays));
  CHECK(refuse(path) == "[data] \"" + path +
                            ":x\" holds f32(5, 1, 2, 3) and \"" + path +
                            ":y\" u8(5, 3, 2); expected labels (5, 2, 3), one "
                            "for each pixel");
  arrays[1].array.type.shape = {30};
  WriteFile(path, *NpzBytes(arrays));
  CHECK(refuse(path) == "[data] \"" + path +
                            ":y\" holds u8(30); expected a label, an integer, "
                            "for each pixel, (N, H, W)");
  CHECK(refuse(folder) ==
        "[data] \"" + folder +
            "\" is a folder, which holds a label for each image; labels of "
            "pixels are read from an .npz, \"x\" (N, C, H, W) and \"y\" (N, H, "
            "W)");
}

TEST_CASE("files that contradict each other are refused with their values") {
  const std::string folder = EmptyFolder("wrong");
  const std::string images = folder + "/train-images-idx3-ubyte";
  const std::string labels = folder + "/train-labels-idx1-ubyte";
  CHECK(Refuse(folder) ==
        "[data] the folder \"" + folder +
            "\" has neither train-images-idx3-ubyte nor a folder of images "
            "for each class");
  WriteFile(images, Images(6));
  CHECK(Refuse(folder) ==
        "[data] the folder \"" + folder +
            "\" has \"train-images-idx3-ubyte\" and no "
            "\"train-labels-idx1-ubyte\", with .gz or without");
  WriteFile(labels, Labels(5));
  CHECK(Refuse(folder) == "[data] \"" + images + "\" holds 6 images and \"" +
                              labels + "\" 5 labels");
  WriteFile(labels, Idx({6}, std::string(6, '\0')));
  CHECK(Refuse(folder) == "[data] \"" + labels +
                              "\" has 6 images, all of class 0; at least 2 "
                              "classes are needed");
  WriteFile(labels, Labels(6).substr(0, 13));
  CHECK(Refuse(folder) ==
        "[idx] \"" + labels + "\" has 5 bytes after its header; u8(6) takes 6");
  WriteFile(labels, Images(6));
  CHECK(Refuse(folder) == "[data] \"" + labels +
                              "\" holds u8(6, 2, 3); expected a label, an "
                              "integer, for each image");
  WriteFile(labels, Labels(6));
  WriteFile(folder + "/t10k-images-idx3-ubyte", Images(2));
  WriteFile(folder + "/t10k-labels-idx1-ubyte", Idx({2}, "\1\2"));
  CHECK(Refuse(folder) == "[data] \"" + folder +
                              "/t10k-labels-idx1-ubyte\": label 1 is 2; the "
                              "images to train with are of 2 classes, 0 to 1");
  WriteFile(folder + "/t10k-labels-idx1-ubyte", Labels(2));
  WriteFile(folder + "/t10k-images-idx3-ubyte",
            Idx({2, 3, 2}, std::string(12, 'a')));
  CHECK(Refuse(folder) == "[data] in \"" + folder +
                              "\" the images to train with are (1, 2, 3), "
                              "those held out (1, 3, 2)");
}

TEST_CASE("a draw is a crop of a padded image, flipped every second time") {
  const ImageData data = Small("draws");
  const Augmentation augmentation{.pad = 1, .flip = true};
  std::vector<float> scratch(6), x(64 * 6);
  std::vector<int32_t> y(64);
  std::set<std::vector<int>> drawn;
  int flipped = 0;
  for (int64_t step = 1; step <= 20; ++step) {
    REQUIRE(DrawImages(data, augmentation, 7, step, scratch, x, y).ok());
    for (size_t i = 0; i < y.size(); ++i) {
      // Which image, shift and side make it, by trying all.
      int matches = 0;
      for (int row = 0; row < 8; ++row) {
        for (int shift = 0; shift < 18; ++shift) {
          const int down = shift / 2 % 3 - 1, right = shift / 6 - 1;
          const bool flip = shift % 2 == 1;
          bool same = y[i] == row % 2;
          for (int at = 0; at < 6 && same; ++at) {
            const int r = at / 3 + down;
            const int c = (flip ? 2 - at % 3 : at % 3) + right;
            const bool inside = r >= 0 && r < 2 && c >= 0 && c < 3;
            const double value =
                inside ? (6 * row + 3 * r + c - 23.5) / std::sqrt(2303.0 / 12)
                       : 0.0;
            same = std::abs(x[i * 6 + static_cast<size_t>(at)] - value) < 1e-4;
          }
          if (!same) continue;
          ++matches;
          drawn.insert({row, shift});
          flipped += flip;
        }
      }
      REQUIRE(matches == 1);
    }
  }
  // 1,280 draws of 144 kinds; each is missed with a chance of e^-8.9.
  CHECK(drawn.size() >= 142);
  CHECK(flipped > 580);
  CHECK(flipped < 700);
}

TEST_CASE("a draw depends on the seed and the step alone") {
  const ImageData data = Small("seeds");
  const auto draw = [&](uint64_t seed, int64_t step) {
    std::vector<float> scratch(6), x(16 * 6);
    std::vector<int32_t> y(16);
    REQUIRE(DrawImages(data, {.pad = 1}, seed, step, scratch, x, y).ok());
    return x;
  };
  CHECK(draw(1, 5) == draw(1, 5));
  CHECK(draw(1, 5) != draw(1, 6));
  CHECK(draw(1, 5) != draw(2, 5));
}

TEST_CASE("a reader gives what a draw gives, in whatever order it is asked") {
  const ImageData data = Small("reader");
  const Augmentation augmentation{.pad = 1, .flip = true};
  ImageReader reader(data,
                     {.batch = 5, .seed = 3, .augmentation = augmentation});
  std::vector<float> scratch(6), x(5 * 6);
  std::vector<int32_t> y(5);
  std::vector<int64_t> steps = {10, 10, 11, 3, 4, 4, 6, 5, 100};
  for (int64_t step = 101; step < 300; ++step) steps.push_back(step);
  for (const int64_t step : steps) {
    INFO("step " << step);
    REQUIRE(DrawImages(data, augmentation, 3, step, scratch, x, y).ok());
    const Result<ImageBatch> batch = reader.Get(step);
    REQUIRE(batch.ok());
    REQUIRE(std::ranges::equal(batch->x, x));
    REQUIRE(std::ranges::equal(batch->y, y));
  }
}

}  // namespace
}  // namespace stowage
