#include "text/gguf_tokenizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/text/gguf_tokenizer_bytes.h"
#include "text/tokenizer_file.h"

namespace stowage {
namespace {

GgufTokenizer Small() {
  return {.tokens = {"a", "b", "ab", "<s>"},
          .token_types = {1, 1, 1, 3},
          .merges = {"a b"},
          .pre = "gpt-2",
          .bos = 3,
          .add_bos = true,
          .eos = 1,
          .add_eos = true};
}

Result<GgufTokenizer> Read(const std::string& file) {
  const auto header = testing::ParseGguf(file);
  REQUIRE_MESSAGE(header.ok(), header.error().message);
  return GgufTokenizerOf(*header);
}

GgufTokenizer OfModel(const std::string& model) {
  GgufTokenizer gguf = Small();
  gguf.model = model;
  return gguf;
}

std::string Said(const GgufTokenizer& gguf) {
  const auto read = Read(testing::GgufTokenizerBytes(gguf));
  return read.ok() ? "" : read.error().message;
}

TEST_CASE("a header's tokenizer is what was written") {
  const GgufTokenizer written = Small();
  const auto read = Read(testing::GgufTokenizerBytes(written));
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  CHECK(read->tokens == written.tokens);
  CHECK(read->token_types == written.token_types);
  CHECK(read->merges == written.merges);
  CHECK(read->pre == written.pre);
  CHECK(read->bos == written.bos);
  CHECK(read->add_bos == written.add_bos);
  CHECK(read->eos == written.eos);
  CHECK(read->add_eos);

  GgufTokenizer less = Small();
  less.bos.reset();
  less.add_bos.reset();
  less.add_eos = false;
  const auto without = Read(testing::GgufTokenizerBytes(less));
  REQUIRE_MESSAGE(without.ok(), without.error().message);
  CHECK(!without->bos);
  CHECK(!without->add_bos);
  CHECK(!without->eos);  // not looked at
  CHECK(!without->add_eos);
}

TEST_CASE("what a header's tokenizer is not is told") {
  CHECK(
      Said(OfModel("rwkv")) ==
      "[text] tokenizer.ggml.model is \"rwkv\"; expected \"gpt2\", "
      "byte-level byte pair encoding, or \"llama\" or \"t5\", SentencePiece's");
  GgufTokenizer wrong = Small();
  wrong.bos = -1;
  CHECK(Said(wrong) ==
        "[text] tokenizer.ggml.bos_token_id has -1; expected 0 to 2147483647");
  wrong = Small();
  wrong.token_types[1] = -2;
  CHECK(Said(wrong) ==
        "[text] tokenizer.ggml.token_type has -2; expected 0 to 2147483647");
}

TEST_CASE("what a header lacks of a tokenizer is told, and what it is for") {
  const std::string whole = testing::GgufTokenizerBytes(Small());
  for (const auto& [key, what] :
       {std::pair("model", "which says what kind of tokenizer it is"),
        std::pair("pre", "which says how a text is cut into words"),
        std::pair("tokens", "the list of the vocabulary"),
        std::pair("merges",
                  "the list of merges that byte pair encoding joins bytes by"),
        std::pair("token_type", "which says what tokens are special")}) {
    const std::string name = StrCat("tokenizer.ggml.", key);
    std::string file = whole;
    file[file.find(name) + name.size() - 1] ^= 1;  // another key
    const auto read = Read(file);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::kNotFound);
    CHECK(read.error().message ==
          StrCat("[text] there is no \"", name, "\", ", what,
                 "; take a tokenizer.json of the same model instead"));
  }
}

// "ab" is merged before "bc", and "x" has no piece but in "xy".
GgufTokenizer Pieces() {
  return {.tokens = {"<unk>", "<s>", "<0x78>", "▁", "a", "b", "c", "ab", "bc",
                     "y", "xy", "▁a", "[PAD]", "<|u|>"},
          .token_types = {2, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 4},
          .bos = 1,
          .model = "llama",
          .scores = {0, 0, 0, -9, -9, -9, -9, -1, -2, -9, -3, -4, 0, 0}};
}

TEST_CASE("a file of pieces merges them by scores, and falls back to bytes") {
  const GgufTokenizer read =
      Read(testing::GgufTokenizerBytes(Pieces())).value();
  CHECK(read.scores == Pieces().scores);
  CHECK(read.add_space);
  const Tokenizer tokenizer = Tokenizer::Create(PartsOf(read).value()).value();
  using Ids = std::vector<int32_t>;
  CHECK(*tokenizer.Encode("abc") == Ids{1, 3, 7, 6});
  CHECK(*tokenizer.Encode("xyx") == Ids{1, 3, 10, 2});
  CHECK(*tokenizer.Encode("q[PAD]a") == Ids{1, 3, 0, 4});
  CHECK(*tokenizer.Encode("a<|u|>a") == Ids{1, 11, 13, 11});
  CHECK(*tokenizer.Encode("<s>a") == Ids{1, 1, 11});
  CHECK(*tokenizer.Encode("<s>a", {.special = false}) == Ids{1, 3, 0, 4});
  CHECK(*tokenizer.Decode(Ids{11, 11, 2, 10}) == "a axxy");
}

TEST_CASE("a unigram file of pieces takes those of the largest sum") {
  GgufTokenizer gguf = Pieces();
  gguf.model = "t5";
  gguf.add_space = false;
  gguf.collapse_spaces = true;
  gguf.eos = 1;
  gguf.add_eos = true;
  const GgufTokenizer read = Read(testing::GgufTokenizerBytes(gguf)).value();
  CHECK(!read.add_space);
  CHECK(read.collapse_spaces);
  const Tokenizer tokenizer = Tokenizer::Create(PartsOf(read).value()).value();
  using Ids = std::vector<int32_t>;
  // "a" and "bc" have -11, "ab" and "c" -10.
  CHECK(*tokenizer.Encode("abc") == Ids{7, 6, 1});
  CHECK(*tokenizer.Encode("  a   xy ") == Ids{4, 3, 10, 1});
  CHECK(*tokenizer.Encode("x<|u|>") == Ids{2, 13, 1});

  gguf.charsmap = "abc";  // which is none
  const auto parts =
      PartsOf(Read(testing::GgufTokenizerBytes(gguf)).value()).value();
  CHECK(Tokenizer::Create(parts).error().message ==
        "[text] a precompiled charsmap of 3 bytes has an array of 0; expected "
        "whole units of 4 bytes, and as many as there are");
}

TEST_CASE("a damaged file of pieces is refused by name") {
  const auto error = [](const std::function<void(GgufTokenizer&)>& change) {
    GgufTokenizer gguf = Pieces();
    change(gguf);
    Result<TokenizerParts> parts = PartsOf(gguf);
    if (!parts.ok()) return parts.error().message;
    return Tokenizer::Create(*std::move(parts)).error().message;
  };
  CHECK(error([](auto& g) { g.scores.pop_back(); }) ==
        "[text] there are 13 scores for 14 tokens; expected one for each");
  CHECK(error([](auto& g) { g.token_types[3] = 7; }) ==
        "[text] the piece 3, \"▁\", is of type 7, which is not known; expected "
        "1 to 6");
  CHECK(error([](auto& g) { g.scores[4] = std::nan(""); }) ==
        "[text] the score of token 4 is nan; expected a finite number");
  CHECK(error([](auto& g) { g.tokens[4] = "y"; }) ==
        "[text] tokens 4 and 9 are both \"y\"; expected each once");
  CHECK(error([](auto& g) { g.tokens[4] = std::string(600, 'y'); }) ==
        "[text] the token 4 has 600 bytes; at most 512 are read where merges "
        "go by scores");
  CHECK(error([](auto& g) { g.bos.reset(); }) ==
        "[text] a text begins with the token bos, and there is no id of it; "
        "expected bos_token_id");
}

TEST_CASE("what a GGUF file's tokenizer is not is told with the file's name") {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(folder == nullptr ? "/tmp" : folder, "/tokens.gguf");
  const auto said = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto tokenizer = ReadTokenizer(path);
    return tokenizer.ok() ? "" : tokenizer.error().message;
  };
  const std::string start =
      StrCat("[text] \"", path, "\" has no tokenizer that is read: ");
  const std::string whole = testing::GgufTokenizerBytes(Small());
  CHECK(said(testing::GgufTokenizerBytes(OfModel("rwkv")))
            .starts_with(start + "[text] tokenizer.ggml.model is"));
  CHECK(said(whole.substr(0, 40)).starts_with(start + "[gguf] byte "));
  GgufTokenizer other = Small();
  other.pre = "deepseek";
  CHECK(said(testing::GgufTokenizerBytes(other)) ==
        start +
            "[text] the pre-tokenizer \"deepseek\" is not known; expected "
            "dbrx, gpt-2, gpt-4o, llama-bpe, olmo, qwen2, refact, smaug-bpe, "
            "smollm or tekken");
}

}  // namespace
}  // namespace stowage
