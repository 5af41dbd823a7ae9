#include "formats/weights_file.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/safetensors.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::EmptyFolder;

namespace fs = std::filesystem;

void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A safetensors file whose bytes count from 0.
void WriteSafetensors(const std::string& path,
                      std::vector<std::pair<std::string, TensorType>> tensors) {
  SafetensorsHeader header;
  std::string data;
  for (auto& [name, type] : tensors) {
    const auto begin = static_cast<Bytes>(data.size());
    header.tensors.push_back({name, type, begin, begin + type.bytes()});
    while (static_cast<Bytes>(data.size()) < begin + type.bytes()) {
      data += static_cast<char>(data.size() % 100);
    }
  }
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  WriteFile(path, file + text + data);
}

std::string Refusal(const std::string& path) {
  const auto file = WeightsFile::Open(path);
  REQUIRE_FALSE(file.ok());
  return file.error().message;
}

TEST_CASE("a GGUF file's tensors are read as they lie and as floats") {
  const std::string path = "tests/goldens/gguf/all_kinds.gguf";
  const auto file = WeightsFile::Open(path);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  REQUIRE(file->gguf() != nullptr);
  CHECK(*file->gguf()->Int("kind.u8") == 200);
  CHECK(file->config() == nullptr);
  CHECK(file->tensors().size() == 19);
  CHECK(file->Find("tensor.q9") == nullptr);

  const WeightTensor* const deep = file->Find("tensor.deep");
  REQUIRE(deep != nullptr);
  CHECK(deep->Describe() == "F32(2, 3, 4)");
  std::vector<float> part(3);
  REQUIRE(file->ReadFloats(*deep, 20, part).ok());
  CHECK(part == std::vector<float>{20, 21, 22});

  const WeightTensor* const q = file->Find("tensor.q8_0");
  REQUIRE(q != nullptr);
  CHECK(q->Describe() == "Q8_0(2, 32)");
  std::vector<std::byte> bytes(34);
  REQUIRE(file->ReadBytes(*q, 34, bytes).ok());
  // The script counts bytes from 0: row 1 is 34, 35, ...; its scale 0x2322 as f16.
  CHECK(bytes[0] == std::byte{34});
  CHECK(bytes[33] == std::byte{67});
  std::vector<float> row(32);
  REQUIRE(file->ReadFloats(*q, 32, row).ok());
  const float scale = (1 + 0x322 / 1024.0f) * 0x1p-7f;
  CHECK(row[0] == scale * 36);
  CHECK(row[31] == scale * 67);
}

TEST_CASE("floats beyond one window are those that a single read gives") {
  const std::string folder = EmptyFolder("long");
  WriteSafetensors(folder + "/w.safetensors",
                   {{"w", {DType::kBF16, {100'003}}}});
  const auto file = WeightsFile::Open(folder + "/w.safetensors");
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  std::vector<float> numbers(100'003);
  REQUIRE(file->ReadFloats(file->tensors()[0], 0, numbers).ok());
  std::vector<std::byte> bytes(200'006);
  REQUIRE(file->ReadBytes(file->tensors()[0], 0, bytes).ok());
  int wrong = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t bits = 0;  // a bf16 is the upper half of a float
    std::memcpy(reinterpret_cast<char*>(&bits) + 2, &bytes[2 * i], 2);
    if (std::memcmp(&bits, &numbers[i], 4) != 0) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a folder is one file, or the files that its index names") {
  const std::string folder = EmptyFolder("folder");
  CHECK(Refusal(folder) ==
        StrCat("[data] there is no file ", Quoted(folder + "/config.json")));
  WriteFile(folder + "/config.json", R"({"hidden_size": 32})");
  CHECK(Refusal(folder) ==
        StrCat("[weights] ", Quoted(folder),
               " has neither model.safetensors.index.json nor "
               "model.safetensors; other formats in folders are not read"));
  WriteSafetensors(folder + "/model.safetensors",
                   {{"b", {DType::kF32, {2}}}, {"a", {DType::kI64, {3}}}});
  for (const char* name : {"", "/model.safetensors"}) {
    const auto file = WeightsFile::Open(folder + name);
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    REQUIRE(file->tensors().size() == 2);
    CHECK(file->tensors()[0].Describe() == "i64(3)");
    CHECK(file->tensors()[1].name == "b");
    CHECK(file->gguf() == nullptr);
    REQUIRE(file->config() != nullptr);
    CHECK(*file->config()->Int("hidden_size") == 32);
  }

  const std::string shards = EmptyFolder("shards");
  WriteFile(shards + "/config.json", "{}");
  WriteSafetensors(shards + "/one.safetensors",
                   {{"m.a", {DType::kF32, {2}}}, {"m.c", {DType::kF32, {2}}}});
  WriteSafetensors(shards + "/two.safetensors", {{"m.b", {DType::kU8, {3}}}});
  const auto index = [&](std::string_view map) {
    WriteFile(shards + "/model.safetensors.index.json",
              StrCat(R"({"metadata": {"total_size": 19}, "weight_map": {)", map,
                     "}}"));
  };
  index(R"("m.a": "one.safetensors", "m.b": "two.safetensors",)"
        R"( "m.c": "one.safetensors")");
  const auto file = WeightsFile::Open(shards);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  REQUIRE(file->tensors().size() == 3);
  std::byte bytes[3];
  REQUIRE(file->ReadBytes(*file->Find("m.b"), 0, bytes).ok());
  CHECK(bytes[2] == std::byte{2});
  const auto by_index =
      WeightsFile::Open(shards + "/model.safetensors.index.json");
  REQUIRE_MESSAGE(by_index.ok(), by_index.error().message);
  CHECK(by_index->tensors().size() == 3);
  CHECK(by_index->config() != nullptr);
  CHECK(Refusal(shards + "/config.json")
            .find("is JSON, which holds no weights; expected a .safetensors") !=
        std::string::npos);

  const std::string open = StrCat("[weights] ", Quoted(shards), " has ");
  index(R"("m.a": "one.safetensors", "m.b": "two.safetensors")");
  CHECK(Refusal(shards) == open +
                               "\"one.safetensors\" with \"m.c\", of which "
                               "the index does not say that it is there");
  index(R"("m.a": "one.safetensors", "m.b": "two.safetensors",)"
        R"( "m.c": "two.safetensors")");
  CHECK(Refusal(shards) == open +
                               "\"one.safetensors\" with \"m.c\", of which "
                               "the index does not say that it is there");
  index(R"("m.a": "one.safetensors", "m.c": "one.safetensors",)"
        R"( "m.d": "two.safetensors")");
  CHECK(Refusal(shards) == open +
                               "\"two.safetensors\" without \"m.d\", which "
                               "the index says is there");
  index(R"("m.a": "../one.safetensors")");
  CHECK(Refusal(shards) ==
        open +
            "an index that puts \"m.a\" in \"../one.safetensors\"; expected "
            "the name of a file in the folder");
  index(R"("m.a": "three.safetensors")");
  CHECK(Refusal(shards) == StrCat("[weights] ",
                                  Quoted(shards + "/three.safetensors"),
                                  " cannot be opened: No such file or "
                                  "directory"));
  index("");
  CHECK(Refusal(shards) == open +
                               "a model.safetensors.index.json without a "
                               "\"weight_map\" of names to files");
  WriteFile(shards + "/model.safetensors.index.json", "{");
  CHECK(Refusal(shards).starts_with(
      open +
      "a damaged model.safetensors.index.json: [json] the text is no JSON, "
      "at byte "));
}

TEST_CASE("a damaged GGUF file is refused by its name") {
  const std::string folder = EmptyFolder("damaged");
  WriteFile(folder + "/w.gguf", std::string("GGUF\3\0\0\0", 8));
  CHECK(Refusal(folder + "/w.gguf") ==
        StrCat("[weights] ", Quoted(folder + "/w.gguf"),
               " cannot be taken: [gguf] byte 8: the number of tensors of 8 "
               "bytes goes beyond the end of the file, which has 8; it is "
               "truncated or damaged"));
  CHECK(WeightsFile::Open(folder + "/none").error().code ==
        ErrorCode::kNotFound);
}

}  // namespace
}  // namespace stowage
