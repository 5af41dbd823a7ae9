#include "text/word_piece.h"

#include <doctest/doctest.h>

#include "base/errors.h"

namespace stowage::text {
namespace {

using Ids = std::vector<int32_t>;

Ids Encoded(std::string_view word, const WordPieceOptions& options) {
  const std::vector<std::string> tokens = {
      "[UNK]", "em", "e", "##bed", "##b", "##ding", "##s", "日", "##本", "##"};
  Ids ids;
  WordPiece::Create(tokens, options).value().Encode(word, &ids);
  return ids;
}

TEST_CASE("a word is the longest tokens that go on, or unknown as a whole") {
  CHECK(Encoded("embeddings", {.unknown = 0}) == Ids{1, 3, 5, 6});
  CHECK(Encoded("ebs", {.unknown = 0}) == Ids{2, 4, 6});
  CHECK(Encoded("日本", {.unknown = 0}) == Ids{7, 8});
  CHECK(Encoded("embeddin", {.unknown = 0}) == Ids{0});
  CHECK(Encoded("embeddin", {}) == Ids{});
  CHECK(Encoded("bed", {.unknown = 0}) == Ids{0});
  // A text that is written as a token with its prefix.
  CHECK(Encoded("##bed", {.unknown = 0}) == Ids{3});
  CHECK(Encoded("em", {.unknown = 0, .apart = {1}}) == Ids{0});
  CHECK(Encoded("", {.unknown = 0}) == Ids{});
}

TEST_CASE("a word of too many characters is unknown") {
  CHECK(Encoded("日本", {.unknown = 0, .max_characters = 2}) == Ids{7, 8});
  CHECK(Encoded("日本", {.unknown = 0, .max_characters = 1}) == Ids{0});
}

TEST_CASE("a long token is refused") {
  const auto pieces = WordPiece::Create({"a", std::string(513, 'a')}, {});
  REQUIRE(!pieces.ok());
  CHECK(pieces.error().code == ErrorCode::kUnsupported);
  CHECK(pieces.error().message ==
        "[text] the token 1 has 513 bytes; at most 512 are read of WordPiece");
}

}  // namespace
}  // namespace stowage::text
