#include "data/text_data.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace stowage {
namespace {

bool Mentions(const Error& error, std::string_view text) {
  return error.message.find(text) != std::string::npos;
}

Error RefuseText(std::string_view text, int64_t seq = 4) {
  const auto data = TextData::FromText(text, "t.txt", seq);
  REQUIRE_FALSE(data.ok());
  return data.error();
}

/// A text whose token i is i % 90 + 1.
TextData Counting(size_t length, int64_t seq) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += static_cast<char>(' ' + i % 90);
  auto data = TextData::FromText(text, "counting", seq);
  REQUIRE(data.ok());
  return *data;
}

TEST_CASE("the tokens are newline and the printable characters in order") {
  CHECK(EncodeText("\n !~") == std::vector<int32_t>{0, 1, 2, 95});
  CHECK(DecodeText(std::vector<int32_t>{34, 35, 0}) == "AB\n");
  std::string all = "\n";
  for (char c = ' '; c <= '~'; ++c) all += c;
  CHECK(all.size() == static_cast<size_t>(kTextCharacters));
  CHECK(DecodeText(EncodeText(all)) == all);
}

TEST_CASE("text is normalized to printable ASCII") {
  const auto normalized = [](std::string_view text) {
    const auto result = NormalizeText(text);
    REQUIRE(result.ok());
    return *result;
  };
  CHECK(normalized("plain text\n") == "plain text\n");
  CHECK(normalized("“It’s ‘so’”") == "\"It's 'so'\"");
  CHECK(normalized("a – b—c…") == "a - b-c...");
  CHECK(normalized("a\r\nb\rc\n") == "a\nb\nc\n");
  CHECK(normalized("a\tb\xC2\xA0"
                   "c") == "a b c");
  CHECK(normalized("naïve \xF0\x9F\x98\x80") == "na?ve ?");
  CHECK(normalized("\xEF\xBB\xBFtext") == "text");
  CHECK(normalized("\x07\x7f") == "??");
  CHECK(normalized("") == "");
}

TEST_CASE("characters that no other spells are counted") {
  int64_t replaced = -1;
  REQUIRE(NormalizeText("“It’s” plain? – yes…\n", &replaced).ok());
  CHECK(replaced == 0);
  REQUIRE(NormalizeText("naïve \xF0\x9F\x98\x80 why?", &replaced).ok());
  CHECK(replaced == 2);
  std::string text;
  for (int i = 0; i < 100; ++i) text += "ещё раз\n";
  const auto data = TextData::FromText(text, "t.txt", 8);
  REQUIRE(data.ok());
  CHECK(data->replaced() == 600);
}

TEST_CASE("bytes that are not UTF-8 text are refused with their place") {
  const auto refuse = [](std::string_view text) {
    const auto result = NormalizeText(text);
    REQUIRE_FALSE(result.ok());
    return result.error();
  };
  const Error nul = refuse(std::string_view("ab\ncd\0e", 7));
  CHECK(Mentions(nul, "a NUL byte at line 2, column 3"));
  for (const char* bad : {
           "x\x80",              // a continuation byte first
           "x\xC3",              // cut short
           "x\xC3(",             // continued by something else
           "x\xC0\xAF",          // longer than need be
           "x\xE0\x9F\xBF",      // likewise
           "x\xF0\x8F\xBF\xBF",  // likewise
           "x\xED\xA0\x80",      // a surrogate
           "x\xF4\x90\x80\x80",  // past U+10FFFF
           "x\xFF",              // no such lead byte
       }) {
    CHECK(Mentions(refuse(bad), "not UTF-8 at line 1, column 2"));
  }
}

TEST_CASE("a text that is empty, binary or short is refused") {
  CHECK(Mentions(RefuseText(""), "[data] \"t.txt\" is empty"));
  const Error binary = RefuseText(std::string(100, '\0'));
  CHECK(Mentions(binary, "[data] \"t.txt\": not a text: a NUL byte"));
  // The last tenth of 49 characters is 4, no more than a window.
  const Error brief = RefuseText(std::string(49, 'a'));
  CHECK(Mentions(brief, "has 49 characters"));
  CHECK(Mentions(brief, "a window of 4"));
  CHECK(Mentions(RefuseText("text", 0), "windows of 0"));
  CHECK(TextData::FromText(std::string(50, 'a'), "t.txt", 4).ok());
}

TEST_CASE("a file that is missing or no file is refused") {
  const auto missing = TextData::Load("no/such/file.txt", 4);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(Mentions(missing.error(), "\"no/such/file.txt\""));
  const auto directory =
      TextData::Load(std::filesystem::temp_directory_path().string(), 4);
  REQUIRE_FALSE(directory.ok());
  CHECK(directory.error().code == ErrorCode::kIo);
}

TEST_CASE("a file is read as its bytes are") {
  const auto path =
      std::filesystem::temp_directory_path() / "stowage_text_data_test.txt";
  std::ofstream(path, std::ios::binary) << std::string(60, 'x') << "\r\n";
  const auto data = TextData::Load(path.string(), 4);
  std::filesystem::remove(path);
  REQUIRE(data.ok());
  CHECK(DecodeText(data->tokens()) == std::string(60, 'x') + "\n");
}

TEST_CASE("the last tenth is held out") {
  const TextData data = Counting(1005, 8);
  CHECK(data.held_out().size() == 100);
  CHECK(data.train().size() == 905);
  CHECK(data.train().front() == 1);
  CHECK(data.held_out().front() == 905 % 90 + 1);
  CHECK(data.held_out().back() == 1004 % 90 + 1);
}

TEST_CASE("the novel that comes with the project loads whole") {
  const auto data = TextData::Load("examples/data/pride_and_prejudice.txt", 64);
  REQUIRE(data.ok());
  CHECK(data->tokens().size() == 684768);
  CHECK(DecodeText(data->tokens().first(19)) == "PRIDE AND PREJUDICE");
}

TEST_CASE("a batch is a function of seed and step, its targets one later") {
  const TextData data = Counting(2000, 8);
  constexpr int64_t kBatch = 6, kSeq = 8;
  std::vector<int32_t> tokens(kBatch * kSeq), targets(kBatch * kSeq);
  const auto sample = [&](uint64_t seed, uint64_t step) {
    SampleTextBatch(data.train(), kBatch, kSeq, seed, step, tokens, targets);
    for (size_t i = 0; i < tokens.size(); ++i) {
      // Neighbours in the counting text differ by one, or wrap.
      CHECK(targets[i] == tokens[i] % 90 + 1);
      if (i % kSeq > 0) CHECK(tokens[i] == targets[i - 1]);
    }
    return tokens;
  };
  const auto first = sample(1, 1);
  CHECK(sample(1, 1) == first);
  CHECK(sample(1, 2) != first);
  CHECK(sample(2, 1) != first);
}

TEST_CASE("sampled windows reach both ends of the train part, not past it") {
  const TextData data = Counting(90, 4);  // 81 to train on, tokens 1 to 81
  std::vector<int32_t> tokens(4), targets(4);
  bool at_start = false, at_end = false;
  for (uint64_t step = 0; step < 5000; ++step) {
    SampleTextBatch(data.train(), 1, 4, 7, step, tokens, targets);
    at_start |= tokens[0] == 1;
    at_end |= targets[3] == 81;
    CHECK(targets[3] <= 81);
  }
  CHECK(at_start);
  CHECK(at_end);
}

TEST_CASE("evaluation reads side-by-side windows in order") {
  const TextData data = Counting(1100, 8);
  const auto part = data.held_out();  // 110 tokens: 13 windows of 8
  REQUIRE(CountTextBatches(part, 4, 8) == 3);
  std::vector<int32_t> tokens(4 * 8), targets(4 * 8);
  std::vector<int32_t> seen;
  for (int64_t i = 0; i < 3; ++i) {
    ReadTextBatch(part, 4, 8, i, tokens, targets);
    seen.insert(seen.end(), tokens.begin(), tokens.end());
    for (size_t j = 0; j < tokens.size(); ++j) {
      CHECK(targets[j] == tokens[j] % 90 + 1);
    }
  }
  CHECK(seen == std::vector<int32_t>(part.begin(), part.begin() + 96));
}

TEST_CASE("evaluation starts again where windows are too few for a batch") {
  const TextData data = Counting(200, 8);
  const auto part = data.held_out();  // 20 tokens: 2 windows of 8
  REQUIRE(CountTextBatches(part, 3, 8) == 1);
  std::vector<int32_t> tokens(3 * 8), targets(3 * 8);
  ReadTextBatch(part, 3, 8, 0, tokens, targets);
  CHECK(tokens[0] == part[0]);
  CHECK(tokens[8] == part[8]);
  CHECK(tokens[16] == part[0]);
}

}  // namespace
}  // namespace stowage
