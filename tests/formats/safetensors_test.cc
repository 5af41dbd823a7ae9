#include "formats/safetensors.h"

#include <doctest/doctest.h>

#include "base/strings.h"

namespace stowage {
namespace {

TEST_CASE("what is formatted parses back") {
  const SafetensorsHeader header{
      .metadata = {{"note", "quotes \" and \\ and \n"}},
      .tensors = {{"a.\"b\"", {DType::kBF16, {2, 3}}, 0, 12},
                  {"scalar", {DType::kI64, {}}, 12, 20},
                  {"rest", {DType::kI16, {3}}, 20, 26}}};
  const std::string text = FormatSafetensorsHeader(header);
  CHECK(text.size() % 8 == 0);
  CHECK(text.find(R"("rest":{"dtype":"I16","shape":[3])") != std::string::npos);
  const auto parsed = ParseSafetensorsHeader(text, 26);
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(parsed->metadata == header.metadata);
  REQUIRE(parsed->tensors.size() == 3);
  CHECK(parsed->tensors[0].name == "a.\"b\"");
  CHECK(parsed->tensors[0].type == header.tensors[0].type);
  CHECK(parsed->tensors[1].type == header.tensors[1].type);
  CHECK(parsed->tensors[1].begin == 12);
  CHECK(parsed->tensors[2].type == header.tensors[2].type);
}

TEST_CASE("bad headers are errors that say where") {
  struct Row {
    std::string_view text;
    std::string_view message;
  };
  const std::string_view w =
      R"("w":{"dtype":"F32","shape":[2],"data_offsets":)";
  const Row rows[] = {
      {"", "[safetensors] header byte 0: expected '{'"},
      {"{", "[safetensors] header byte 1: expected '\"'"},
      {"{} x", "[safetensors] header byte 3: text after the header's object"},
      {R"({"__metadata__":{},"__metadata__":{}})",
       "[safetensors] header byte 34: \"__metadata__\" comes twice"},
      {R"({"__metadata__":{"a":"b","a":"c"}})",
       "[safetensors] header byte 29: the metadata has the key \"a\" twice"},
      {R"({"w":{"colour":1}})",
       "[safetensors] header byte 15: unknown key \"colour\""},
      {R"({"w":{"shape":[1],"shape":[2]}})",
       "[safetensors] header byte 26: tensor \"w\" has the key \"shape\" "
       "twice"},
      {R"({"w":{"dtype":"F32","data_offsets":[0,4]}})",
       "[safetensors] header byte 41: tensor \"w\" lacks a dtype, a shape "
       "whose "
       "elements 64 bits can count or two data_offsets"},
      {R"({"w":{"shape":[-1]}})",
       "[safetensors] header byte 15: expected a non-negative integer of 64 "
       "bits"},
      {R"({"w":{"shape":[99999999999999999999]}})",
       "[safetensors] header byte 15: expected a non-negative integer of 64 "
       "bits"},
      {R"({"w":{}})",
       "[safetensors] header byte 7: tensor \"w\" lacks a dtype, a shape whose "
       "elements 64 bits can count or two data_offsets"},
      {R"({"w":{"dtype":"U16","shape":[4294967296,4294967296],)"
       R"("data_offsets":[0,8]}})",
       "[safetensors] header byte 73: tensor \"w\" lacks a dtype, a shape "
       "whose "
       "elements 64 bits can count or two data_offsets"},
      {R"({"w":{"dtype":"U16","shape":[4],"data_offsets":[8,0]}})",
       "[safetensors] header byte 53: tensor \"w\" is U16(4) but its range is "
       "[8, 0)"},
      {R"({"w":{"dtype":"F32","shape":[2,0],"data_offsets":[0,8]}})",
       "[safetensors] header byte 55: tensor \"w\" is F32(2, 0) but its range "
       "is [0, 8)"},
      {"{\"\\q\":1}",
       "[safetensors] header byte 4: an escape other than those of ASCII"},
  };
  for (const Row& row : rows) {
    INFO(std::string(row.text));
    const auto parsed = ParseSafetensorsHeader(row.text, 8);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().message == row.message);
  }
  const auto refusal = [](const std::string& text, Bytes bytes) {
    const auto parsed = ParseSafetensorsHeader(text, bytes);
    REQUIRE_FALSE(parsed.ok());
    return parsed.error().message;
  };
  CHECK(refusal(StrCat("{", w, "[0,4]}}"), 8)
            .find("is f32(2) but its range is [0, 4)") != std::string::npos);
  CHECK(refusal(StrCat("{", w, "[4,12]}}"), 12) ==
        "[safetensors] tensor \"w\" starts at byte 4, expected 0; ranges must "
        "follow without gap or overlap");
  CHECK(
      refusal(StrCat("{", w, "[0,8]}}"), 9) ==
      "[safetensors] the tensors cover 8 bytes of 9; the file is truncated or "
      "has bytes too many");
  CHECK(refusal(StrCat("{", w, "[0,8]},", w, "[8,16]}}"), 16)
            .find("two tensors are called \"w\"") != std::string::npos);
}

TEST_CASE("what has no type here is told as the file has it, in its place") {
  const std::string text =
      R"({"f8":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[8,14]},)"
      R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("none":{"dtype":"F32","shape":[4,0],"data_offsets":[8,8]},)"
      R"("deep":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,2],)"
      R"("data_offsets":[14,16]}})";
  const auto parsed = ParseSafetensorsHeader(text, 16);
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  REQUIRE(parsed->tensors.size() == 4);
  CHECK(parsed->tensors[0].name == "w");
  CHECK(parsed->tensors[0].foreign.empty());
  CHECK(parsed->tensors[1].name == "none");
  CHECK(parsed->tensors[1].foreign == "F32(4, 0)");
  CHECK(parsed->tensors[2].name == "f8");
  CHECK(parsed->tensors[2].foreign == "F8_E4M3(2, 3)");
  CHECK(parsed->tensors[2].begin == 8);
  CHECK(parsed->tensors[2].end == 14);
  CHECK(parsed->tensors[3].foreign == "U8(1, 1, 1, 1, 1, 1, 1, 1, 2)");
}

// With a look at every other name for each, this takes a quarter of an hour.
TEST_CASE("a header of very many names is read in a moment") {
  constexpr int kNames = 1'000'000;
  std::string text = "{";
  for (int i = 0; i < kNames; ++i) {
    text += StrCat("\"tensor.", i,
                   R"(":{"dtype":"U8","shape":[1],"data_offsets":[)", i, ",",
                   i + 1, "]},");
  }
  text += StrCat(R"("tensor.7":{"dtype":"U8","shape":[1],"data_offsets":[)",
                 kNames, ",", kNames + 1, "]}}");
  const auto twice = ParseSafetensorsHeader(text, kNames + 1);
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().message.find("two tensors are called \"tensor.7\"") !=
        std::string::npos);
}

TEST_CASE("no mutation of a header makes the parser misbehave") {
  const std::string good = FormatSafetensorsHeader(
      {.metadata = {{"step", "3"}},
       .tensors = {{"w", {DType::kF32, {2, 2}}, 0, 16}}});
  for (size_t at = 0; at < good.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bad = good;
      bad[at] = static_cast<char>(byte);
      const auto parsed = ParseSafetensorsHeader(bad, 16);
      if (!parsed.ok()) continue;
      // Whatever still parses describes the 16 bytes exactly.
      Bytes covered = 0;
      for (const SafeTensor& tensor : parsed->tensors) {
        if (tensor.foreign.empty()) {
          CHECK(tensor.type.bytes() == tensor.end - tensor.begin);
        }
        covered += tensor.end - tensor.begin;
      }
      CHECK(covered == 16);
    }
  }
}

}  // namespace
}  // namespace stowage
