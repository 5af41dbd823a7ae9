#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "formats/gguf.h"
#include "formats/weights_file.h"
#include "tests/formats/gguf_bytes.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string TempFile(const std::string& name) {
  const fs::path folder = fs::path(std::getenv("TEST_TMPDIR"));
  return (folder / name).string();
}

// Writes tensors of so many bytes, each of which is the number of the tensor.
Status Write(const std::string& path, const GgufMetadata& metadata,
             const std::vector<GgufTensorToWrite>& tensors) {
  const auto file = OutputFile::Claim(path);
  REQUIRE(file.ok());
  return WriteGguf(*file, metadata, tensors,
                   [&](size_t i, const OutputFile::WritePart& write) -> Status {
                     const std::vector<std::byte> bytes(
                         static_cast<size_t>(tensors[i].bytes()),
                         static_cast<std::byte>(i));
                     // In two parts.
                     const auto half = bytes.size() / 2;
                     const Status first = write(std::span(bytes).first(half));
                     if (!first.ok()) return first;
                     return write(std::span(bytes).subspan(half));
                   });
}

// By ggml's own package (tests/goldens/make_gguf_goldens.py).
TEST_CASE("a file that is read and written again is the same, byte for byte") {
  const std::string golden = ReadAll("tests/goldens/gguf/all_kinds.gguf");
  const auto file = WeightsFile::Open("tests/goldens/gguf/all_kinds.gguf");
  REQUIRE(file.ok());
  const GgufHeader& header = *file->gguf();
  std::vector<GgufTensorToWrite> tensors;
  for (const GgufTensor& tensor : header.tensors()) {
    tensors.push_back({tensor.name, tensor.type, tensor.shape});
  }
  const std::string path = TempFile("again.gguf");
  const auto claimed = OutputFile::Claim(path);
  REQUIRE(claimed.ok());
  const Status written = WriteGguf(
      *claimed, GgufMetadata::Of(header), tensors,
      [&](size_t i, const OutputFile::WritePart& write) {
        std::vector<std::byte> bytes(
            static_cast<size_t>(header.tensors()[i].bytes));
        REQUIRE(file->ReadBytes(*file->Find(tensors[i].name), 0, bytes).ok());
        return write(bytes);
      });
  REQUIRE_MESSAGE(written.ok(), written.error().message);
  CHECK(ReadAll(path) == golden);
}

TEST_CASE("values of every kind are set in place of others, and removed") {
  GgufMetadata metadata;
  metadata.Set("a.u8", uint8_t{255});
  metadata.Set("a.i8", int8_t{-128});
  metadata.Set("a.u16", uint16_t{65535});
  metadata.Set("a.i16", int16_t{-32768});
  metadata.Set("a.u32", uint32_t{7});
  metadata.Set("a.i32", int32_t{-7});
  metadata.Set("a.u64", uint64_t{1} << 62);
  metadata.Set("a.i64", std::numeric_limits<int64_t>::min());
  metadata.Set("a.f32", 0.25f);
  metadata.Set("a.f64", 0.1);
  metadata.Set("a.bool", true);
  metadata.Set("a.text", "old");
  metadata.Set("a.gone", 1.5f);
  metadata.Set("a.text", std::string("n\0w", 3));
  const std::vector<std::string_view> texts = {"x", "", "yz"};
  metadata.SetArray<std::string_view>("a.texts", texts);
  metadata.SetArray<float>("a.floats", std::vector<float>{0.5});
  metadata.SetArray<int32_t>("a.none", {});
  metadata.Remove("a.gone");
  metadata.Remove("a.never");
  CHECK_FALSE(metadata.Has("a.gone"));
  CHECK(metadata.size() == 15);
  metadata.Set("a.bool", false);
  // Behind what was removed.
  metadata.SetArray<float>("a.floats", std::vector<float>{1, -2});
  const std::string path = TempFile("values.gguf");
  REQUIRE(Write(path, metadata, {}).ok());
  const auto header = testing::ParseGguf(ReadAll(path));
  REQUIRE_MESSAGE(header.ok(), header.error().message);
  CHECK(header->version() == 3);
  CHECK(header->values().size() == 15);
  CHECK(*header->Int("a.u8") == 255);
  CHECK(*header->Int("a.i8") == -128);
  CHECK(*header->Int("a.u16") == 65535);
  CHECK(*header->Int("a.i16") == -32768);
  CHECK(*header->Int("a.u32") == 7);
  CHECK(header->Find("a.u32")->kind == GgufKind::kU32);
  CHECK(*header->Int("a.i32") == -7);
  CHECK(*header->Int("a.u64") == int64_t{1} << 62);
  CHECK(*header->Int("a.i64") == std::numeric_limits<int64_t>::min());
  CHECK(*header->Real("a.f32") == 0.25);
  CHECK(*header->Real("a.f64") == 0.1);
  CHECK_FALSE(*header->Bool("a.bool"));
  CHECK(*header->Text("a.text") == std::string_view("n\0w", 3));
  CHECK(*header->Texts("a.texts") == texts);
  CHECK(*header->Reals("a.floats") == std::vector<double>{1, -2});
  CHECK(header->Ints("a.none")->empty());
}

TEST_CASE("tensors stand at the alignment that the metadata says") {
  for (const uint32_t alignment : {32u, 64u, 8u}) {
    INFO(alignment);
    GgufMetadata metadata;
    if (alignment != 32) metadata.Set("general.alignment", alignment);
    const std::string path = TempFile("aligned.gguf");
    REQUIRE(Write(path, metadata,
                  {{"a", WeightType::kF32, Shape{3}},
                   {"b", WeightType::kQ4_0, Shape{1, 32}},
                   {"c", WeightType::kF16, Shape{5, 1, 2}}})
                .ok());
    const std::string bytes = ReadAll(path);
    CHECK(bytes.size() % alignment == 0);
    const auto header = testing::ParseGguf(bytes);
    REQUIRE_MESSAGE(header.ok(), header.error().message);
    REQUIRE(header->tensors().size() == 3);
    CHECK(header->tensors()[2].shape == Shape{5, 1, 2});
    Bytes end = header->tensors()[0].begin;
    for (size_t i = 0; i < 3; ++i) {
      const GgufTensor& tensor = header->tensors()[i];
      // Without gaps, as ggml demands it.
      CHECK(tensor.begin == end);
      end += (tensor.bytes + alignment - 1) / alignment * alignment;
      for (Bytes at = 0; at < tensor.bytes; ++at) {
        REQUIRE(bytes[static_cast<size_t>(tensor.begin + at)] ==
                static_cast<char>(i));
      }
    }
    CHECK(end == static_cast<Bytes>(bytes.size()));
  }
}

TEST_CASE("what cannot be written is refused by its name, the file untouched") {
  const std::string path = TempFile("kept.gguf");
  std::ofstream(path) << "before";
  const Status twice = Write(
      path, {},
      {{"w", WeightType::kF32, Shape{1}}, {"w", WeightType::kF32, Shape{1}}});
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().message == "[gguf] two tensors are called \"w\"");
  const Status deep =
      Write(path, {}, {{"w", WeightType::kF32, Shape{1, 1, 1, 1, 2}}});
  REQUIRE_FALSE(deep.ok());
  CHECK(deep.error().message ==
        "[gguf] tensor \"w\" is (1, 1, 1, 1, 2); at most 4 dimensions are "
        "possible");
  const auto file = OutputFile::Claim(path);
  REQUIRE(file.ok());
  const std::vector<GgufTensorToWrite> tensors = {
      {"w", WeightType::kF32, Shape{1}}};
  const Status failed =
      WriteGguf(*file, {}, tensors, [](size_t, const OutputFile::WritePart&) {
        return Status(Error{ErrorCode::kNotFinite, "[test] nan"});
      });
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message == "[test] nan");
  CHECK(ReadAll(path) == "before");
}

}  // namespace
}  // namespace stowage
