#include "runtime/safetensors.h"

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
      {R"({"w":{"dtype":"F31"}})",
       "[safetensors] header byte 19: unknown dtype \"F31\""},
      {R"({"w":{"colour":1}})",
       "[safetensors] header byte 15: unknown key \"colour\""},
      {R"({"w":{"shape":[-1]}})",
       "[safetensors] header byte 15: expected a non-negative integer of 64 "
       "bits"},
      {R"({"w":{"shape":[99999999999999999999]}})",
       "[safetensors] header byte 15: expected a non-negative integer of 64 "
       "bits"},
      {R"({"w":{}})",
       "[safetensors] header byte 7: tensor \"w\" lacks a dtype, a shape of "
       "positive dimensions or two data_offsets"},
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
        CHECK(tensor.type.bytes() == tensor.end - tensor.begin);
        covered += tensor.end - tensor.begin;
      }
      CHECK(covered == 16);
    }
  }
}

}  // namespace
}  // namespace stowage
