#include "formats/gguf.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/formats/gguf_bytes.h"

namespace stowage {
namespace {

using testing::GgufBytes;
using testing::ParseGguf;

// By ggml's own package (tests/goldens/make_gguf_goldens.py).
std::string AllKinds() {
  std::ifstream file("tests/goldens/gguf/all_kinds.gguf", std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Refusal(std::string_view file) {
  const auto header = ParseGguf(file);
  REQUIRE_FALSE(header.ok());
  return header.error().message;
}

TEST_CASE("values of every kind are those that ggml's package wrote") {
  for (const char version : {2, 3}) {
    std::string file = AllKinds();
    REQUIRE(file[4] == 3);
    file[4] = version;  // they differ in nothing else
    auto parsed = ParseGguf(file);
    REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
    const std::string_view before = *parsed->Text("kind.text");
    const GgufHeader header = *std::move(parsed);
    CHECK(before.data() == header.Text("kind.text")->data());
    CHECK(header.version() == static_cast<uint32_t>(version));
    CHECK(header.values().size() == 17);
    CHECK(*header.Text("general.architecture") == "llama");
    CHECK(*header.Int("kind.u8") == 200);
    CHECK(*header.Int("kind.i8") == -100);
    CHECK(*header.Int("kind.u16") == 60000);
    CHECK(*header.Int("kind.i16") == -30000);
    CHECK(*header.Int("kind.u32") == 4'000'000'000);
    CHECK(*header.Int("kind.i32") == -2'000'000'000);
    CHECK(*header.Int("kind.i64") == -(int64_t{1} << 62));
    CHECK(*header.Real("kind.f32") == static_cast<double>(0.1f));
    CHECK(*header.Real("kind.f64") == 0.1);
    CHECK(*header.Bool("kind.bool"));
    CHECK(*header.Text("kind.text") == "na\u00efve");
    CHECK(*header.Texts("array.texts") ==
          std::vector<std::string_view>{"a", "", "\u00e7\u00e9", "dd"});
    CHECK(*header.Ints("array.ints") == std::vector<int64_t>{3, -1, 4});
    CHECK(*header.Reals("array.reals") == std::vector<double>{0.5, -2.25});
    CHECK(header.Find("array.bools")->Describe() == "array of 2 bool");

    CHECK(header.Int("kind.u64").error().message ==
          "[gguf] the value \"kind.u64\" has 9223372036854775813, which 63 "
          "bits cannot hold");
    CHECK(header.Text("kind.u8").error().message ==
          "[gguf] the value \"kind.u8\" is u8; expected a text");
    CHECK(header.Ints("array.texts").error().message ==
          "[gguf] the value \"array.texts\" is array of 4 text; expected an "
          "array of integers");
    CHECK(header.Int("kind.u7").error().message ==
          "[gguf] there is no value \"kind.u7\"");
    CHECK(header.Int("kind.u7").error().code == ErrorCode::kNotFound);
  }
}

TEST_CASE(
    "the table of tensors has shapes in our order and places in the file") {
  struct Row {
    std::string_view name;
    WeightType type;
    Shape shape;
    Bytes begin, bytes;
  };
  // As gguf.GGUFReader has them.
  const Row rows[] = {
      {"tensor.f32", WeightType::kF32, {2, 32}, 1568, 256},
      {"tensor.f16", WeightType::kF16, {2, 32}, 1824, 128},
      {"tensor.bf16", WeightType::kBF16, {2, 32}, 1952, 128},
      {"tensor.q4_0", WeightType::kQ4_0, {2, 32}, 2080, 36},
      {"tensor.q4_1", WeightType::kQ4_1, {2, 32}, 2144, 40},
      {"tensor.q5_0", WeightType::kQ5_0, {2, 32}, 2208, 44},
      {"tensor.q5_1", WeightType::kQ5_1, {2, 32}, 2272, 48},
      {"tensor.q8_0", WeightType::kQ8_0, {2, 32}, 2336, 68},
      {"tensor.q4_k", WeightType::kQ4_K, {2, 256}, 2432, 288},
      {"tensor.q5_k", WeightType::kQ5_K, {2, 256}, 2720, 352},
      {"tensor.q6_k", WeightType::kQ6_K, {2, 256}, 3072, 420},
      {"tensor.q2_k", WeightType::kQ2_K, {2, 256}, 3520, 168},
      {"tensor.q3_k", WeightType::kQ3_K, {2, 256}, 3712, 220},
      {"tensor.iq4_nl", WeightType::kIQ4_NL, {2, 32}, 3936, 36},
      {"tensor.iq4_xs", WeightType::kIQ4_XS, {2, 256}, 4000, 272},
      {"tensor.tq1_0", WeightType::kTQ1_0, {2, 256}, 4288, 108},
      {"tensor.tq2_0", WeightType::kTQ2_0, {2, 256}, 4416, 132},
      {"tensor.mxfp4", WeightType::kMXFP4, {2, 32}, 4576, 34},
      {"tensor.deep", WeightType::kF32, {2, 3, 4}, 4640, 96}};
  const auto header = ParseGguf(AllKinds());
  REQUIRE_MESSAGE(header.ok(), header.error().message);
  REQUIRE(header->tensors().size() == std::size(rows));
  for (size_t i = 0; i < std::size(rows); ++i) {
    const GgufTensor& tensor = header->tensors()[i];
    INFO(tensor.name);
    CHECK(tensor.name == rows[i].name);
    CHECK(tensor.type == rows[i].type);
    CHECK(tensor.shape == rows[i].shape);
    CHECK(tensor.begin == rows[i].begin);
    CHECK(tensor.bytes == rows[i].bytes);
  }
}

TEST_CASE(
    "a file that is cut anywhere is refused, and nothing beyond it is read") {
  const std::string file = AllKinds();
  for (size_t size = 0; size < file.size(); ++size) {
    INFO(size);
    const auto header = ParseGguf(std::string_view(file).substr(0, size));
    // The last tensor ends where the file does, so that there is nothing to spare.
    REQUIRE_FALSE(header.ok());
    CHECK(header.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("no mutation of a header makes the parser misbehave") {
  const std::string good = AllKinds();
  for (size_t at = 0; at < 1184; ++at) {
    for (const int change : {1, 0x80, 0xFF}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      const auto header = ParseGguf(bad);
      if (!header.ok()) continue;
      for (const GgufTensor& tensor : header->tensors()) {
        CHECK(tensor.begin + tensor.bytes <= static_cast<Bytes>(bad.size()));
      }
    }
  }
}

TEST_CASE("what cannot be is refused with the values that are there") {
  constexpr uint64_t kHuge = uint64_t{1} << 60;
  const auto one = [](std::initializer_list<uint64_t> dims, uint32_t type,
                      uint64_t offset, size_t data) {
    return GgufBytes()
        .Start(3, 1, 0)
        .Tensor("w", dims, type, offset)
        .Data(data)
        .bytes();
  };
  const auto two = [](std::string_view second, uint64_t offset) {
    return GgufBytes()
        .Start(3, 2, 0)
        .Tensor("w", {8, 2}, 0, 0)
        .Tensor(second, {8}, 0, offset)
        .Data(96)
        .bytes();
  };
  REQUIRE(ParseGguf(one({8}, 0, 0, 32)).ok());
  REQUIRE(ParseGguf(two("v", 64)).ok());
  const std::string tail = "; it is truncated or damaged";
  const std::pair<std::string, std::string> rows[] = {
      {"",
       "[gguf] byte 0: the mark of 4 bytes goes beyond the end of the "
       "file, which has 0" +
           tail},
      {std::string(40, 'x'),
       "[gguf] the first four bytes are not GGUF; it is another kind of file"},
      {GgufBytes().Start(1, 0, 0).bytes(),
       "[gguf] the file is of version 1; versions 2 and 3 are read; convert it "
       "anew"},
      {GgufBytes().Start(3u << 24, 0, 0).bytes(),
       "[gguf] the file is big-endian; only little-endian ones are read; "
       "convert it anew"},
      {GgufBytes().Start(3, kHuge, 0).bytes(),
       "[gguf] byte 24: there would be 1152921504606846976 tensors of at least "
       "24 bytes each, and 0 bytes are left; the file is truncated or damaged"},
      {GgufBytes().Start(3, 0, kHuge).bytes(),
       "[gguf] byte 24: there would be 1152921504606846976 values of the "
       "metadata of at least 13 bytes each, and 0 bytes are left; the file is "
       "truncated or damaged"},
      {GgufBytes().Start(3, 0, 1).U64(kHuge).Data(64).bytes(),
       "[gguf] byte 32: a key has a length of 1152921504606846976; there are "
       "64 bytes left"},
      {GgufBytes().Start(3, 0, 1).U64(70000).Data(100000).bytes(),
       "[gguf] byte 32: a key has a length of 70000; there are 100000 bytes "
       "left, and it may have 65535"},
      {GgufBytes().Start(3, 0, 1).Text("k").U32(13).Data(8).bytes(),
       "[gguf] byte 37: the value of \"k\" is of type 13; types are 0 to 12"},
      {GgufBytes().Start(3, 0, 1).Text("k").U32(9).U32(9).Data(8).bytes(),
       "[gguf] byte 41: the value of \"k\" is an array of arrays, which no "
       "reader takes"},
      {GgufBytes().Start(3, 0, 1).Text("k").U32(9).U32(8).U64(kHuge).bytes(),
       "[gguf] byte 49: there would be 1152921504606846976 elements of \"k\" "
       "of "
       "at least 8 bytes each, and 0 bytes are left; the file is truncated or "
       "damaged"},
      {GgufBytes().Start(3, 0, 1).Text("k").U32(8).U64(kHuge).bytes(),
       "[gguf] byte 45: a text has a length of 1152921504606846976; there are "
       "0 bytes left"},
      {GgufBytes()
           .Start(3, 0, 2)
           .Text("k")
           .U32(4)
           .U32(1)
           .Text("k")
           .U32(4)
           .U32(1)
           .bytes(),
       "[gguf] byte 58: two values have the key \"k\""},
      {GgufBytes()
           .Start(3, 0, 1)
           .Text("general.alignment")
           .U32(4)
           .U32(0)
           .bytes(),
       "[gguf] byte 57: \"general.alignment\" is 0; expected a power of two"},
      {GgufBytes()
           .Start(3, 0, 1)
           .Text("general.alignment")
           .U32(4)
           .U32(24)
           .bytes(),
       "[gguf] byte 57: \"general.alignment\" is 24; expected a power of two"},
      {GgufBytes()
           .Start(3, 0, 1)
           .Text("general.alignment")
           .U32(10)
           .U64(32)
           .bytes(),
       "[gguf] byte 61: \"general.alignment\" is u64; expected u32"},
      {one({1, 1, 1, 1, 1}, 0, 0, 32),
       "[gguf] byte 37: tensor \"w\" has 5 dimensions; at most 4 are possible"},
      {one({0}, 0, 0, 32),
       "[gguf] byte 45: tensor \"w\" has a dimension of 0; all are at least 1, "
       "and 63 bits hold their product"},
      {one({kHuge, 8}, 0, 0, 32),
       "[gguf] byte 53: tensor \"w\" has a dimension of 8; all are at least 1, "
       "and 63 bits hold their product"},
      {one({8}, 15, 0, 32),
       "[gguf] byte 49: tensor \"w\" is of type 15 (Q8_K); those that are read "
       "are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, "
       "Q2_K, Q3_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, MXFP4"},
      {one({8}, 1000, 0, 32),
       "[gguf] byte 49: tensor \"w\" is of type 1000; those that are read are "
       "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, "
       "Q2_K, Q3_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, MXFP4"},
      {one({48, 2}, 2, 0, 64),
       "[gguf] byte 57: tensor \"w\" is Q4_0(2, 48); its rows must be whole "
       "blocks of 32 numbers"},
      {one({kHuge}, 0, 0, 32),
       "[gguf] byte 57: tensor \"w\", F32(1152921504606846976), at offset 0 "
       "cannot be in a file of 96 bytes" +
           tail},
      {one({8}, 0, kHuge, 32),
       "[gguf] byte 57: tensor \"w\", F32(8), at offset 1152921504606846976 "
       "cannot be in a file of 96 bytes" +
           tail},
      {one({8}, 0, 8, 64),
       "[gguf] byte 57: tensor \"w\" begins at offset 8, which is no multiple "
       "of the alignment, 32"},
      {one({8}, 0, 32, 32),
       "[gguf] byte 57: tensor \"w\" is bytes 96 to 128 of a file of 96" +
           tail},
      {two("w", 64), "[gguf] byte 98: two tensors are called \"w\""},
      {two("v", 32),
       "[gguf] byte 98: tensor \"w\", bytes 128 to 192, overlaps \"v\", which "
       "begins at 160"},
  };
  for (const auto& row : rows) CHECK(Refusal(row.first) == row.second);
}

TEST_CASE("tensors begin at the alignment that the file states") {
  const std::string file = GgufBytes()
                               .Start(3, 1, 1)
                               .Text("general.alignment")
                               .U32(4)
                               .U32(128)
                               .Tensor("w", {2}, 0, 128)
                               .Data(136, 128)
                               .bytes();
  const auto header = ParseGguf(file);
  REQUIRE_MESSAGE(header.ok(), header.error().message);
  CHECK(header->tensors()[0].begin == 256);
  CHECK(ParseGguf(std::string_view(file).substr(0, file.size() - 1))
            .error()
            .code == ErrorCode::kInvalidArgument);
}

// With a look at every other name for each, this takes minutes.
TEST_CASE("a large vocabulary and many tensors are read in a moment") {
  constexpr uint64_t kMany = 300'000;
  GgufBytes file;
  file.Start(3, kMany, 1).Text("tokens").U32(9).U32(8).U64(kMany);
  for (uint64_t i = 0; i < kMany; ++i) file.Text(StrCat("token", i));
  for (uint64_t i = 0; i < kMany; ++i) {
    file.Tensor(StrCat("t", i), {1}, 0, i * 32);
  }
  file.Data(kMany * 32);
  const auto header = ParseGguf(file.bytes());
  REQUIRE_MESSAGE(header.ok(), header.error().message);
  CHECK(header->tensors().size() == kMany);
  const auto tokens = header->Texts("tokens");
  REQUIRE(tokens.ok());
  CHECK(tokens->back() == "token299999");
}

}  // namespace
}  // namespace stowage
