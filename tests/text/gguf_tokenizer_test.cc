#include "text/gguf_tokenizer.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/formats/gguf_bytes.h"
#include "tests/text/gguf_tokenizer_bytes.h"

namespace stowage {
namespace {

GgufTokenizer Small() {
  return {.tokens = {"a", "b", "ab", "<s>"},
          .token_types = {1, 1, 1, 3},
          .merges = {"a b"},
          .pre = "gpt-2",
          .bos = 3,
          .add_bos = true};
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

  GgufTokenizer less = Small();
  less.bos.reset();
  less.add_bos.reset();
  const auto without = Read(testing::GgufTokenizerBytes(less));
  REQUIRE_MESSAGE(without.ok(), without.error().message);
  CHECK(!without->bos);
  CHECK(!without->add_bos);
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
  // A header without a tokenizer.
  const auto none = Read(testing::GgufBytes().Start(3, 0, 0).bytes());
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::kNotFound);
  CHECK(none.error().message.find("tokenizer.ggml.model") != std::string::npos);
}

}  // namespace
}  // namespace stowage
