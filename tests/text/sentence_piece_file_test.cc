#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/result.h"
#include "text/sentence_piece.h"
#include "text/text.h"

namespace stowage {
namespace {

using Ids = std::vector<int32_t>;

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(0x80 | (value & 0x7F));
  }
  return bytes + static_cast<char>(value);
}

std::string Number(int field, uint64_t value) {
  return Varint(static_cast<uint64_t>(field) << 3) + Varint(value);
}

std::string Text(int field, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(bytes.size()) +
         bytes;
}

std::string Piece(const std::string& text, float score, int type) {
  std::string bytes = Text(1, text) + "\x15";  // field 2, 32 bits
  for (int i = 0; i < 4; ++i) {
    bytes += static_cast<char>(std::bit_cast<uint32_t>(score) >> (8 * i));
  }
  return Text(
      1, bytes + (type == 1 ? "" : Number(3, static_cast<uint64_t>(type))));
}

std::string Pieces() {
  return Piece("<unk>", 0, 2) + Piece("<s>", 0, 3) + Piece("</s>", 0, 3) +
         Piece("▁", -3, 1) + Piece("a", -2, 1) + Piece("b", -2, 1) +
         Piece("ab", -1, 1);
}

std::string ErrorOf(const std::string& bytes, ErrorCode code) {
  const auto model = ParseSentencePieceModel(bytes);
  REQUIRE(!model.ok());
  CHECK(model.error().code == code);
  return model.error().message;
}

TEST_CASE("what a file does not say is as SentencePiece has it") {
  const SentencePieceModel model = ParseSentencePieceModel(Pieces()).value();
  CHECK(model.pieces.size() == 7);
  CHECK(model.pieces[6] == "ab");
  CHECK(model.scores[6] == -1);
  CHECK(model.types == std::vector<int32_t>{2, 3, 3, 1, 1, 1, 1});
  CHECK(model.is_unigram);
  CHECK(!model.byte_fallback);
  CHECK(model.rules.add_space);
  CHECK(model.rules.collapse_spaces);
  CHECK(model.rules.escape_spaces);
  CHECK(model.unknown_text == " ⁇ ");
}

TEST_CASE("what a file says is read, and what is beside it skipped") {
  const std::string skipped = Number(99, 7) + Text(98, "x") + "\x3d" + "1234" +
                              "\x39" + "12345678";  // 32 and 64 bits of field 7
  const std::string trainer =
      Number(3, 2) + Number(35, 1) + Number(41, 2) + Text(44, "?") + skipped;
  const std::string rules =
      Text(2, "map") + Number(3, 0) + Number(4, 0) + Number(5, 0);
  const SentencePieceModel model =
      ParseSentencePieceModel(skipped + Pieces() + Text(2, trainer) +
                              Text(3, rules))
          .value();
  CHECK(!model.is_unigram);
  CHECK(model.byte_fallback);
  CHECK(model.bos == 2);
  CHECK(model.unknown_text == "?");
  CHECK(model.rules.charsmap == "map");
  CHECK(!model.rules.add_space);
  CHECK(!model.rules.collapse_spaces);
  CHECK(!model.rules.escape_spaces);
}

TEST_CASE("a file that is none, or ends too early, is refused") {
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
  CHECK(ErrorOf("", kInvalid) ==
        "[sentencepiece] the file has no pieces; expected a model of "
        "SentencePiece's");
  CHECK(ErrorOf("{\"model\": 1}", kInvalid) ==
        "[sentencepiece] byte 0 of a message begins no field");
  const std::string whole = Pieces();
  CHECK(ErrorOf(whole.substr(0, whole.size() - 1), kInvalid) ==
        "[sentencepiece] field 1 has 9 bytes, and 8 are left");
  CHECK(ErrorOf(std::string("\x08\xff"), kInvalid) ==
        "[sentencepiece] byte 2 of a message ends in a number");
  CHECK(ErrorOf(std::string(11, '\xff'), kInvalid) ==
        "[sentencepiece] byte 10 of a message ends in a number");
  CHECK(ErrorOf("\x15"
                "12",
                kInvalid) ==
        "[sentencepiece] byte 1 of a message ends in a number");
}

TEST_CASE("models that are not known are named") {
  constexpr ErrorCode kUnknown = ErrorCode::kUnsupported;
  CHECK(ErrorOf(Pieces() + Text(2, Number(3, 3)), kUnknown) ==
        "[sentencepiece] model_type is 3, which is not known; expected 1, "
        "unigram, or 2, byte pair encoding");
  CHECK(ErrorOf(Pieces() + Text(2, Number(24, 1)), kUnknown) ==
        "[sentencepiece] treat_whitespace_as_suffix is set, which is not "
        "known");
  CHECK(ErrorOf(Pieces() + Text(5, Text(2, "map")), kUnknown) ==
        "[sentencepiece] denormalizer_spec has a charsmap of 3 bytes, which is "
        "not known");
  const auto parts =
      PartsOf(ParseSentencePieceModel(Pieces() + Piece("x", 0, 5)).value());
  REQUIRE(!parts.ok());
  CHECK(parts.error().message ==
        "[text] the piece 7, \"x\", is unused, which is not known");
}

TEST_CASE(
    "a folder's model is read, with what its settings put around a text") {
  namespace fs = std::filesystem;
  const char* const root = std::getenv("TEST_TMPDIR");
  const fs::path folder = fs::path(root == nullptr ? "/tmp" : root) / "pieces";
  fs::create_directories(folder);
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  };
  const auto encode = [&] {
    const Result<Tokenizer> tokenizer = ReadTokenizer(folder.string());
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
    return *tokenizer->Encode("<s>ab");
  };
  write("spiece.model", Pieces());
  CHECK(encode() == Ids{1, 3, 6});
  write("tokenizer_config.json", R"({"add_bos_token": true})");
  CHECK(encode() == Ids{1, 1, 3, 6});
  write("tokenizer_config.json", R"({"add_eos_token": true})");
  CHECK(encode() == Ids{1, 3, 6, 2});
  // Which comes before spiece.model.
  write("tokenizer.model", "nothing");
  const auto error = ReadTokenizer((folder / "model.safetensors").string());
  REQUIRE(!error.ok());
  CHECK(error.error().message.find("tokenizer.model\" has no tokenizer that is "
                                   "read: [sentencepiece] byte ") !=
        std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace stowage
