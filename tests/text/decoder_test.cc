#include "text/decoder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/errors.h"

namespace stowage::text {
namespace {

using Kind = DecoderKind;

std::string Join(const std::vector<DecoderStep>& steps,
                 std::vector<std::string> tokens) {
  REQUIRE(CheckDecoder(steps).ok());
  return Decode(steps, std::move(tokens)).value();
}

TEST_CASE("Llama's steps give spaces, bytes, and no first space") {
  const std::vector<DecoderStep> llama = {
      {.kind = Kind::kReplace, .pattern = "▁", .content = " "},
      {.kind = Kind::kByteFallback},
      {.kind = Kind::kFuse},
      {.kind = Kind::kStrip, .pattern = " ", .left = 1}};
  CHECK(Join(llama, {"▁a", "▁▁b"}) == "a  b");
  CHECK(Join(llama, {"▁", "<0xE6>", "<0x97>", "<0xa5>", "!"}) == "日!");
  CHECK(Join(llama, {"<0xG1>", "<0x1>"}) == "<0xG1><0x1>");
  CHECK(Join(llama, {}) == "");
  // Bytes in a row are one token to the steps behind.
  CHECK(Join({{.kind = Kind::kByteFallback},
              {.kind = Kind::kStrip, .pattern = " ", .left = 1}},
             {"<0x20>", "<0x20>", "a"}) == " a");
}

TEST_CASE("a Metaspace has no space of the first token") {
  CHECK(Join({{.kind = Kind::kMetaspace, .pattern = "▁", .first = true}},
             {"▁a▁", "▁b"}) == "a b");
  CHECK(Join({{.kind = Kind::kMetaspace, .pattern = "▁"}}, {"▁a", "▁b"}) ==
        " a b");
}

TEST_CASE("pieces of words are joined, and clean before punctuation") {
  const DecoderStep word = {
      .kind = Kind::kWordPiece, .pattern = "##", .cleanup = true};
  CHECK(Join({word}, {"em", "##bed", ",", "do", "##n", "'", "t", "!"}) ==
        "embed, don ' t!");
  CHECK(Join({{.kind = Kind::kWordPiece, .pattern = "##"}},
             {"##a", "##b", "."}) == "##ab .");
}

TEST_CASE("suffixes of words are spaces, but for the last") {
  CHECK(Join({{.kind = Kind::kSuffix, .pattern = "</w>"}},
             {"a", "b</w>", "c</w>"}) == "ab c");
  CHECK(Join({{.kind = Kind::kSpaces}}, {"a", "b"}) == "a b");
  CHECK(Join({{.kind = Kind::kStrip, .pattern = " ", .left = 1, .right = 9}},
             {"  a  ", " "}) == " a");
}

TEST_CASE("SentencePiece drops the space that it puts before a text") {
  const auto decode = [](bool first, bool cleanup,
                         std::vector<std::string> tokens) {
    return Join(
        {{.kind = Kind::kToken, .pattern = "<unk>", .content = " ? "},
         {.kind = Kind::kSentencePiece, .first = first, .cleanup = cleanup}},
        std::move(tokens));
  };
  CHECK(decode(true, false, {"▁a", "▁▁b", "<unk>"}) == "a  b ? ");
  CHECK(decode(false, false, {"▁a", "▁b"}) == " a b");
  CHECK(decode(true, false, {"▁", "▁a"}) == " a");
  CHECK(decode(true, true, {"▁", "▁a", "▁"}) == "a ");
  CHECK(decode(true, false, {"a", "▁b"}) == "a b");
}

TEST_CASE("decoders that cannot be, or go on and on, are refused") {
  CHECK(CheckDecoder({{.kind = Kind::kReplace}}).error().message ==
        "[text] a decoder replaces the empty text; expected a text of at "
        "least a character");
  CHECK(CheckDecoder(std::vector<DecoderStep>(65)).error().message ==
        "[text] the decoder has 65 steps; at most 64 are read");
  const std::vector<DecoderStep> twice(
      40, {.kind = Kind::kReplace, .pattern = "a", .content = "aa"});
  const auto text = Decode(twice, {"aa"});
  REQUIRE(!text.ok());
  CHECK(text.error().code == ErrorCode::kInvalidArgument);
  CHECK(text.error().message ==
        "[text] 1 tokens become a text of more than 262656 bytes; expected at "
        "most 256 times their own");
}

}  // namespace
}  // namespace stowage::text
