#include "formats/weights_file.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
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

constexpr std::string_view kShards[] = {"split-00001-of-00003.gguf",
                                        "split-00002-of-00003.gguf",
                                        "split-00003-of-00003.gguf"};

// A folder with the shards of tests/goldens/make_gguf_goldens.py.
std::string FolderOfShards(const std::string& name) {
  const std::string folder = EmptyFolder(name);
  for (const std::string_view shard : kShards) {
    fs::copy_file(StrCat("tests/goldens/gguf/", shard),
                  StrCat(folder, "/", shard));
  }
  return folder;
}

// Writes a u16 in place of the first one under a key of a GGUF file.
void SetU16(const std::string& path, std::string_view key, char value) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const size_t at = bytes.find(key);
  REQUIRE(at != std::string::npos);
  bytes[at + key.size() + 4] = value;  // behind the value's type
  WriteFile(path, bytes);
}

TEST_CASE("a split GGUF file has the tensors of all its shards") {
  const auto file =
      WeightsFile::Open(StrCat("tests/goldens/gguf/", kShards[0]));
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  CHECK(*file->gguf()->Text("general.architecture") == "llama");
  // As the script wrote them: ten times the place, and counted from there.
  const std::pair<std::string_view, float> tensors[] = {
      {"a", 10}, {"b", 0}, {"c", 30}, {"d", 20}, {"e", 40}};
  REQUIRE(file->tensors().size() == std::size(tensors));
  for (const auto& written : tensors) {
    INFO(std::string(written.first));
    const WeightTensor* const tensor = file->Find(written.first);
    const float first = written.second;
    REQUIRE(tensor != nullptr);
    std::vector<float> numbers(4);
    REQUIRE(file->ReadFloats(*tensor, 0, numbers).ok());
    CHECK(numbers ==
          std::vector<float>{first, first + 1, first + 2, first + 3});
  }
  CHECK(file->Content()->starts_with("736 bytes of weights"));
}

TEST_CASE("shards that are missing, foreign or misnamed are refused by name") {
  std::string folder = FolderOfShards("shards");
  const auto path = [&](size_t shard) {
    return StrCat(folder, "/", kShards[shard - 1]);
  };
  const auto message = [&](size_t shard, const std::string& rest) {
    return StrCat("[weights] ", Quoted(path(shard)), " ", rest);
  };
  CHECK(
      Refusal(path(2)) ==
      message(2, StrCat("is shard 2 of 3; open the first, ", Quoted(path(1)))));

  fs::remove(path(3));
  CHECK(Refusal(path(1)) ==
        message(1, StrCat("is the first of 3 shards, and ", Quoted(path(3)),
                          " is not there")));
  CHECK(WeightsFile::Open(path(1)).error().code == ErrorCode::kNotFound);

  fs::copy_file(path(2), path(3));
  CHECK(Refusal(path(1)) ==
        message(1, StrCat("has a foreign shard ", Quoted(path(3)),
                          ", which is 2 of 3; expected 3 of 3")));
  // Tensors of another file: the third shard with those of the second.
  SetU16(path(3), "split.no", 2);
  CHECK(Refusal(path(1)) ==
        message(1,
                "has 6 tensors in its 3 shards, and split.tensors.count is "
                "5; a shard is of another file"));

  WriteFile(path(3), std::string("GGUF\3\0\0\0", 8));
  CHECK(Refusal(path(1)).find(Quoted(path(3))) != std::string::npos);

  folder = FolderOfShards("numbers");
  SetU16(path(1), "split.no", 3);
  CHECK(Refusal(path(1)) ==
        message(1,
                "has no place among shards: split.no is 3 and split.count "
                "3; shards are numbered from 0"));

  folder = FolderOfShards("names");
  fs::rename(path(1), folder + "/model.gguf");
  CHECK(Refusal(folder + "/model.gguf") ==
        StrCat("[weights] ", Quoted(folder + "/model.gguf"),
               " is the first of 3 shards; its name must end in "
               "\"-00001-of-00003.gguf\""));
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
