#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_data.h"
#include "tests/formats/hex.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::EmptyFolder;

namespace fs = std::filesystem;

// By Pillow: [[0, 128], [200, 255]], all black, and 2 x 3 pixels.
constexpr std::string_view kGreyPng =
    "89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f8000000"
    "0e49444154789c6360686038f11f000495024811a8f6e30000000049454e44ae426082";
constexpr std::string_view kBlackPng =
    "89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f8000000"
    "0e49444154789c636060606060000000060001728299ea0000000049454e44ae426082";
constexpr std::string_view kPng =
    "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d000000"
    "1849444154789c63f8cfc0c0f09f8181e13f2397881c040000313303ef9ed3a823000000"
    "0049454e44ae426082";

void WriteFile(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// Five of class "black" and five of class "grey", which is the image above.
void WriteClasses(const std::string& folder) {
  for (int i = 0; i < 5; ++i) {
    const std::string name = std::to_string(i) + ".png";
    WriteFile(fs::path(folder) / "grey" / name, testing::FromHex(kGreyPng));
    WriteFile(fs::path(folder) / "black" / name, testing::FromHex(kBlackPng));
  }
}

std::string Refuse(const std::string& path) {
  const Result<ImageData> data = ImageData::Load(path, {});
  REQUIRE_FALSE(data.ok());
  return data.error().message;
}

TEST_CASE("a folder for each class, by name, in memory or from the files") {
  const std::string folder = EmptyFolder("classes");
  WriteClasses(folder);
  WriteFile(folder + "/grey/.hidden", "");
  WriteFile(folder + "/grey/notes.txt", "");
  for (const Bytes keep : {1'000'000, 0}) {
    INFO("bytes that may be kept: " << keep);
    const auto data = ImageData::Load(folder, {.seed = 1, .keep = keep});
    REQUIRE_MESSAGE(data.ok(), data.error().message);
    CHECK(data->shape == ImageShape{1, 2, 2, 2});
    CHECK(data->train.size() == 8);
    CHECK(data->held_out.size() == 2);
    CHECK(data->left_out ==
          std::vector<std::string>{folder + "/grey/notes.txt"});
    std::vector<float> x(4);
    for (int64_t i = 0; i < 8; ++i) {
      REQUIRE(data->train.Read(i, x).ok());
      const bool grey = data->train.labels(i)[0] == 1;
      CHECK(x == (grey ? std::vector<float>{0, 128.0f / 255, 200.0f / 255, 1}
                       : std::vector<float>{0, 0, 0, 0}));
    }
  }
}

TEST_CASE("a class may be called train") {
  const std::string folder = EmptyFolder("class_train");
  WriteClasses(folder);
  fs::rename(folder + "/grey", folder + "/train");
  const auto data = ImageData::Load(folder, {.seed = 1});
  REQUIRE_MESSAGE(data.ok(), data.error().message);
  CHECK(data->shape == ImageShape{1, 2, 2, 2});
  CHECK(data->train.size() + data->held_out.size() == 10);
}

TEST_CASE("train/ is trained with and test/ held out; a file gone is named") {
  const std::string folder = EmptyFolder("parts");
  WriteClasses(folder + "/train");
  WriteClasses(folder + "/test");
  WriteClasses(folder + "/val");
  WriteFile(folder + "/test/list.csv", "");
  const auto data = ImageData::Load(folder, {.channels = 3, .keep = 0});
  REQUIRE_MESSAGE(data.ok(), data.error().message);
  CHECK(data->shape == ImageShape{3, 2, 2, 2});
  CHECK(data->train.size() == 10);
  CHECK(data->held_out.size() == 10);
  CHECK(data->mean.size() == 3);
  CHECK(data->left_out ==
        std::vector<std::string>{folder + "/val", folder + "/test/list.csv"});
  fs::remove_all(folder + "/train");
  ImageReader reader(*data, {.batch = 4});
  const auto batch = reader.Get(1);
  REQUIRE_FALSE(batch.ok());
  CHECK(batch.error().message.starts_with("[data] there is no file \"" +
                                          folder + "/train/"));
}

TEST_CASE("bad images, empty classes and sizes that disagree are named") {
  const std::string folder = EmptyFolder("bad");
  WriteClasses(folder);
  const std::string cut = folder + "/grey/2.png";
  WriteFile(cut, testing::FromHex(kGreyPng).substr(0, 40));
  CHECK(Refuse(folder).starts_with(
      "[png] \"" + cut + "\", of 40 bytes, ends early or is damaged: "));
  WriteFile(cut, testing::FromHex(kPng));
  CHECK(Refuse(folder) == "[data] \"" + cut +
                              "\" is 2 x 3 pixels; the first image is 2 x "
                              "2, and all must agree");
  WriteFile(cut, "GIF");
  CHECK(Refuse(folder) == "[image] \"" + cut +
                              "\", of 3 bytes, begins neither as a PNG nor as "
                              "a JPEG");
  fs::remove(cut);
  WriteFile(folder + "/none/readme.txt", "");
  CHECK(Refuse(folder) == "[data] the class folder \"" + folder +
                              "/none\" has no .png, .jpg or .jpeg among its 1 "
                              "files");
  fs::remove_all(folder + "/none");
  WriteClasses(folder + "/parts/train");
  WriteClasses(folder + "/parts/test");
  WriteFile(folder + "/parts/test/white/0.png", testing::FromHex(kGreyPng));
  CHECK(Refuse(folder + "/parts") ==
        "[data] \"" + folder +
            "/parts/test/white\" is of none of the 2 classes that are trained");
}

}  // namespace
}  // namespace stowage
