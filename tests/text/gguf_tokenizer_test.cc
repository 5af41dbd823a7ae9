#include "text/gguf_tokenizer.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

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

std::string Said(const GgufTokenizer& gguf, const std::string& model = "gpt2") {
  const auto read = Read(testing::GgufTokenizerBytes(gguf, model));
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
  CHECK(Said(Small(), "llama") ==
        "[text] tokenizer.ggml.model is \"llama\"; expected \"gpt2\", "
        "byte-level byte pair encoding");
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
  CHECK(said(testing::GgufTokenizerBytes(Small(), "llama"))
            .starts_with(start + "[text] tokenizer.ggml.model is"));
  CHECK(said(whole.substr(0, 40)).starts_with(start + "[gguf] byte "));
  GgufTokenizer other = Small();
  other.pre = "deepseek";
  CHECK(said(testing::GgufTokenizerBytes(other)) ==
        start +
            "[text] the pre-tokenizer \"deepseek\" is not known; expected "
            "gpt-2, llama-bpe, qwen2 or smollm");
}

}  // namespace
}  // namespace stowage
