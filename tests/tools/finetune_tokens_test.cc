// stowage finetune with files of tokens in place of a text.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Outcome Tune(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"finetune",
                                        "--weights",
                                        "tests/goldens/pretrained/qwen2.gguf",
                                        "--tokenizer",
                                        LettersTokenizer(),
                                        "--threads",
                                        "2",
                                        "--seq",
                                        "16",
                                        "--batch",
                                        "2",
                                        "--steps",
                                        "3",
                                        "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunStowage(arguments);
}

// As nanoGPT writes them, and as llm.c does.
std::string Ids(const std::vector<uint16_t>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * 2};
}
std::string Shard(const std::vector<uint16_t>& ids) {
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<int32_t>(ids.size());
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) +
         Ids(ids);
}

// Of words that LettersTokenizer has a token a letter for: each letter's place, the space
// 52 and the full stop 53.
struct Words {
  std::string text;
  std::vector<uint16_t> ids;
};
Words SomeWords() {
  Words words;
  for (int i = 0; i < 77; ++i) {
    for (const char c :
         StrCat("a cab", i % 2 == 0 ? " did" : " ran far", ".")) {
      words.text += c;
      words.ids.push_back(c == ' '   ? 52
                          : c == '.' ? 53
                                     : static_cast<uint16_t>(c - 'a'));
    }
  }
  return words;
}

std::vector<double> Losses(const Outcome& run) {
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  std::vector<double> losses;
  for (const Json& line : JsonLines(run.out)) {
    if (line.contains("loss")) losses.push_back(line["loss"]);
    if (line.contains("base_validation_loss")) {
      losses.push_back(line["base_validation_loss"]);
      losses.push_back(line["validation_loss"]);
    }
  }
  REQUIRE(losses.size() == 5);
  return losses;
}

TEST_CASE("files of a text's tokens give the losses of the text") {
  const Words words = SomeWords();
  const std::vector<double> expected =
      Losses(Tune({"--data", WriteTemp("words.txt", words.text)}));
  const Outcome run = Tune({"--data", WriteTemp("words.bin", Ids(words.ids))});
  CHECK(Losses(run) == expected);
  CHECK(Contains(run.err,
                 StrCat("1 file of tokens (u16 without a header): ",
                        words.ids.size() - words.ids.size() / 10,
                        " to train on, ", words.ids.size() / 10, " held out")));
  CHECK(Losses(Tune({"--data", WriteTemp("shard.bin", Shard(words.ids))})) ==
        expected);
}

TEST_CASE("of a folder's files those that are called so are held out") {
  const Words words = SomeWords();
  const std::string folder = TempPath("corpus");
  std::filesystem::create_directories(folder);
  WriteTemp("corpus/words_train_0.bin", Shard(words.ids));
  WriteTemp("corpus/words_train_1.bin", Shard(words.ids));
  WriteTemp("corpus/words_val.bin", Shard(words.ids));
  const Outcome run = Tune({"--data", folder});
  Losses(run);
  CHECK(Contains(
      run.err, StrCat("3 files of tokens (llm.c's u16): ", 2 * words.ids.size(),
                      " to train on, ", words.ids.size(), " held out")));
}

TEST_CASE("samples go on from what is held out") {
  const Words words = SomeWords();
  const Outcome run = RunStowage(
      {"finetune", "--weights", "tests/goldens/pretrained/qwen2.gguf",
       "--tokenizer", LettersTokenizer(), "--data",
       WriteTemp("words.bin", Ids(words.ids)), "--seq", "32", "--steps", "1",
       "--sample", "4"});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::string held_out =
      words.text.substr(words.text.size() - words.text.size() / 10, 16);
  CHECK(Contains(run.out, held_out));
}

TEST_CASE("a token that the model does not have is refused by its place") {
  Words words = SomeWords();
  words.ids.assign(words.ids.size(), 64);  // of 64
  const Outcome run = Tune({"--data", WriteTemp("beyond.bin", Ids(words.ids))});
  CHECK(run.exit_code == 2);
  CHECK(Contains(run.err, "beyond.bin\""));
  CHECK(Contains(run.err, "64"));
}

TEST_CASE("what is for examples is refused beside files of tokens") {
  const std::string data = WriteTemp("words.bin", Ids(SomeWords().ids));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--pack"},
        {"--too-long", "drop"},
        {"--lengths", "8"},
        {"--objective", "dpo"}}) {
    CAPTURE(wrong.front());
    std::vector<std::string> arguments = {"--data", data};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    const Outcome run = Tune(arguments);
    CHECK(run.exit_code == 2);
    CHECK(Contains(run.err, StrCat("\"", data, "\" has tokens alone")));
  }
  const Outcome few = Tune({"--data", WriteTemp("few.bin", Ids({1, 2, 3}))});
  CHECK(few.exit_code == 2);
  CHECK(Contains(few.err, "has a window of 16 tokens and the next one"));
}

}  // namespace
}  // namespace stowage::testing
