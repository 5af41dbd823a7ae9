#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

constexpr char kTokenizer[] = "tests/goldens/tokens/qwen.json";

Outcome Tokens(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"tokens", "--tokenizer", kTokenizer};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunStowage(all);
}

// Ids of bytes are those of the alphabet's characters in order: "!" is 0, "a" is 64.
TEST_CASE(
    "encode prints ids, count their number, and decode gives the text back") {
  const std::string text = "a!<|im_end|>!\n";
  const std::string file = WriteTemp("text", text);
  const Outcome encoded = Tokens({"encode", file});
  CHECK(encoded.exit_code == 0);
  CHECK(encoded.err.empty());
  CHECK(encoded.out == "64 0 558 0 198\n");
  CHECK(Tokens({"encode", file, "--json"}).out == "[64,0,558,0,198]\n");
  CHECK(Tokens({"count", file}).out == "5\n");
  CHECK(Tokens({"count", file, "--json"}).out ==
        "{\"tokens\":5,\"bytes\":14}\n");
  for (const std::string& ids :
       {encoded.out, std::string("[64,0,558,0,198]\n")}) {
    CHECK(Tokens({"decode", WriteTemp("ids", ids)}).out == text);
  }
}

TEST_CASE("special tokens may be text, and are left out of text") {
  const std::string file = WriteTemp("text", "a<|im_end|>!");
  CHECK(Tokens({"count", file}).out == "3\n");
  const Outcome plain = Tokens({"encode", file, "--plain"});
  CHECK(plain.out.find("558") == std::string::npos);
  CHECK(Tokens({"decode", WriteTemp("ids", plain.out)}).out == "a<|im_end|>!");
  CHECK(Tokens({"decode", WriteTemp("ids", "64 558 0"), "--plain"}).out ==
        "a!");
}

TEST_CASE("a folder with a tokenizer.json is as good as the file") {
  const std::string folder = TempPath("model");
  std::filesystem::create_directories(folder);
  WriteTemp("model/tokenizer.json", ReadAll(kTokenizer));
  const std::string text = WriteTemp("text", "a!<|im_end|>!\n");
  CHECK(RunStowage({"tokens", "--weights", folder, "count", text}).out ==
        "5\n");
}

TEST_CASE("bytes that no token stands for are counted on stderr") {
  const std::string tokenizer = WriteTemp("few.json", R"({"version": "1.0",
      "added_tokens": [], "normalizer": null, "post_processor": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
                "merges": ["a b"]}})");
  const std::string text = WriteTemp("cafe", "ab\xc3\xa9");
  for (const char* const verb : {"encode", "count"}) {
    const Outcome outcome =
        RunStowage({"tokens", "--tokenizer", tokenizer, verb, text});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == (verb == std::string("encode") ? "2\n" : "1\n"));
    CHECK(outcome.err == StrCat("[data] the tokenizer has no token for 2 bytes "
                                "of \"",
                                text, "\", which are left out\n"));
  }
}

TEST_CASE("what is wrong is told, and ends with 2") {
  const std::string text = WriteTemp("text", "a");
  const auto error = [](const Outcome& outcome) {
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(
      error(Tokens({"decode", WriteTemp("ids", "64 x1 0")})) ==
      "stowage: [tokens] number 1 is \"x1\"; expected ids, whole numbers with "
      "white space or commas between them\n");
  CHECK(
      error(Tokens({"decode", WriteTemp("ids", "64 561")})) ==
      "stowage: [text] number 1 is 561, which is no token; expected ids from 0 "
      "to 560\n");
  CHECK(error(RunStowage({"tokens", "--tokenizer", text, "count", text}))
            .find("[tokenizer.json] the file is no JSON, at byte ") !=
        std::string::npos);
  const std::string wide = WriteTemp("wide", std::string("\xFF\xFEh\0", 4));
  for (const char* const verb : {"count", "encode"}) {
    CHECK(error(Tokens({verb, wide})).find("it begins as UTF-16 does") !=
          std::string::npos);
  }
  CHECK(!error(RunStowage({"tokens", "--tokenizer", "none", "count", text}))
             .empty());
  CHECK(!error(Tokens({})).empty());
  CHECK(!error(RunStowage({"tokens", "count", text})).empty());
}

}  // namespace
}  // namespace stowage::testing
