#include "data/token_shards.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::EmptyFolder;

template <typename T>
std::string BytesOf(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string LlmC(int32_t magic, int32_t version, int32_t tokens,
                 const std::string& body) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = tokens;
  return BytesOf(header) + body;
}

std::string Npy(const std::string& type, int64_t tokens,
                const std::string& body) {
  std::string text = "{'descr': '" + type +
                     "', 'fortran_order': False, 'shape': (" +
                     std::to_string(tokens) + ",), }";
  text.resize(117, ' ');
  text += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) +
         BytesOf(std::vector<uint16_t>{118}) + text + body;
}

std::string Put(const std::string& folder, const std::string& name,
                const std::string& bytes) {
  std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  return folder + "/" + name;
}

template <typename T>
std::vector<T> Count(int64_t size, T first = 0) {
  std::vector<T> numbers(static_cast<size_t>(size));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::vector<int32_t> All(const TokenShards& shards,
                         const std::vector<TokenShards::Part>& parts) {
  std::vector<int32_t> tokens;
  for (const TokenShards::Part& part : parts) {
    std::vector<int32_t> some(static_cast<size_t>(part.tokens));
    REQUIRE(shards.Read(part, some).ok());
    tokens.insert(tokens.end(), some.begin(), some.end());
  }
  return tokens;
}

std::string Refusal(const std::string& path) {
  const Result<TokenShards> shards = TokenShards::Open(path, 50'257);
  return shards.ok() ? std::string() : shards.error().message;
}

TEST_CASE("every format gives the same tokens") {
  const std::string folder = EmptyFolder("token_formats");
  const auto u16 = BytesOf(Count<uint16_t>(3000, 100));
  const auto u32 = BytesOf(Count<uint32_t>(3000, 100));
  const std::vector<std::string> paths = {
      Put(folder, "nanogpt.bin", u16),
      Put(folder, "llm.bin", LlmC(20240520, 1, 3000, u16)),
      Put(folder, "llama3.bin", LlmC(20240801, 7, 3000, u32)),
      Put(folder, "u2.npy", Npy("<u2", 3000, u16)),
      Put(folder, "u4.npy", Npy("<u4", 3000, u32)),
      Put(folder, "i4.npy", Npy("<i4", 3000, u32)),
      Put(folder, "i8.npy",
          Npy("<i8", 3000, BytesOf(Count<int64_t>(3000, 100)))),
  };
  for (const std::string& path : paths) {
    INFO(path);
    CHECK(TokenShards::Reads(path));
    const TokenShards shards = TokenShards::Open(path, 50'257).OrDie();
    CHECK(All(shards, shards.train()) == Count<int32_t>(2700, 100));
    CHECK(All(shards, shards.held_out()) == Count<int32_t>(300, 2800));
  }
}

TEST_CASE("of a folder, files called so are held out") {
  const std::string folder = EmptyFolder("token_folder");
  Put(folder, "fineweb_train_000002.bin", BytesOf(Count<uint16_t>(20, 40)));
  Put(folder, "fineweb_train_000001.bin", BytesOf(Count<uint16_t>(30)));
  Put(folder, "fineweb_val_000000.bin", BytesOf(Count<uint16_t>(7, 500)));
  Put(folder, "README.md", "no tokens");
  CHECK(TokenShards::Reads(folder));
  const TokenShards shards = TokenShards::Open(folder, 1000).OrDie();
  std::vector<int32_t> train = Count<int32_t>(30);
  for (const int32_t token : Count<int32_t>(20, 40)) train.push_back(token);
  CHECK(All(shards, shards.train()) == train);
  CHECK(All(shards, shards.held_out()) == Count<int32_t>(7, 500));
  CHECK(shards.Describe() ==
        "3 files of tokens (u16 without a header): 50 to train on, 7 held out");
  // "evaluate" and "interval" are other words.
  Put(folder, "interval_9.bin", BytesOf(Count<uint16_t>(5)));
  CHECK(TokenShards::Open(folder, 1000).OrDie().train().size() == 3);
}

TEST_CASE("windows do not cross files") {
  const std::vector<TokenShards::Part> parts = {
      {.file = 0, .begin = 0, .tokens = 10},
      {.file = 1, .begin = 5, .tokens = 3},
      {.file = 2, .begin = 2, .tokens = 9}};
  CHECK(TokenShards::CountPlaces(parts, 4) == 7 + 0 + 6);
  CHECK(TokenShards::Place(parts, 4, 6).begin == 6);
  CHECK(TokenShards::Place(parts, 4, 7).file == 2);
  CHECK(TokenShards::Place(parts, 4, 12).begin == 7);
  // Of 3 tokens and the next: 0, 3 and 6 of the first, 2 and 5 of the third.
  CHECK(TokenShards::CountWindows(parts, 4) == 3 + 0 + 2);
  CHECK(TokenShards::Window(parts, 4, 2).begin == 6);
  CHECK(TokenShards::Window(parts, 4, 3).begin == 2);
  CHECK(TokenShards::Window(parts, 4, 4).begin == 5);
}

TEST_CASE("damaged files of tokens are refused, with what they have") {
  const std::string folder = EmptyFolder("token_damage");
  const auto u16 = BytesOf(Count<uint16_t>(50));
  CHECK(Refusal(Put(folder, "odd.bin", u16 + "x")).find("101 bytes") !=
        std::string::npos);
  CHECK(Refusal(Put(folder, "v.bin", LlmC(20240520, 2, 50, u16)))
            .find("of version 2; expected 1") != std::string::npos);
  CHECK(Refusal(Put(folder, "n.bin", LlmC(20240520, 1, 51, u16)))
            .find("says that it has 51 tokens, and has 50") !=
        std::string::npos);
  CHECK(Refusal(Put(folder, "f.npy", Npy("<f4", 25, u16)))
            .find("\"<f4\" (25); tokens are") != std::string::npos);
  CHECK(Refusal(Put(folder, "cut.npy", Npy("<u2", 60, u16)))
            .find("60 tokens, and has 50") != std::string::npos);
  CHECK(Refusal(folder + "/none.bin") != "");
  const std::string held_out = EmptyFolder("token_held_out");
  CHECK(Refusal(held_out).find("no *.bin or *.npy") != std::string::npos);
  Put(held_out, "val.bin", u16);
  Put(held_out, "test.bin", u16);
  CHECK(Refusal(held_out).find("all 2 files") != std::string::npos);
}

TEST_CASE("a token beyond the vocabulary is an error with its place") {
  const std::string folder = EmptyFolder("token_vocabulary");
  const std::string path =
      Put(folder, "t.npy", Npy("<i4", 40, BytesOf([] {
                                 std::vector<int32_t> tokens(40, 9);
                                 tokens[20] = 10, tokens[30] = -1;
                                 return tokens;
                               }())));
  const TokenShards shards = TokenShards::Open(path, 10).OrDie();
  std::vector<int32_t> to(10);
  CHECK(shards.Read({.file = 0, .begin = 10, .tokens = 10}, to).ok());
  const Status beyond = shards.Read({.file = 0, .begin = 15, .tokens = 10}, to);
  REQUIRE(!beyond.ok());
  CHECK(beyond.error().message.find(
            "has token 10 at position 20; the model's vocabulary is 10") !=
        std::string::npos);
  CHECK(!shards.Read({.file = 0, .begin = 25, .tokens = 10}, to).ok());
}

TEST_CASE("another corpus has another digest") {
  const std::string folder = EmptyFolder("token_digest");
  const std::string path = Put(folder, "t.bin", BytesOf(Count<uint16_t>(100)));
  const uint64_t digest =
      TokenShards::Open(path, 1000).OrDie().Digest().OrDie();
  CHECK(TokenShards::Open(path, 1000).OrDie().Digest().OrDie() == digest);
  Put(folder, "t.bin", BytesOf(Count<uint16_t>(100, 1)));
  CHECK(TokenShards::Open(path, 1000).OrDie().Digest().OrDie() != digest);
}

}  // namespace
}  // namespace stowage
