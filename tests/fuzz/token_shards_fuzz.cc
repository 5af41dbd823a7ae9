// Files of tokens: what one says that it has can be read.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/token_shards.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/folder.h"

using namespace stowage;
using stowage::testing::Check;
using stowage::testing::Folder;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kVocabulary = 1000;
  static Folder folder;
  if (size == 0) return 0;
  // The first byte says what the file is called.
  const std::string name = data[0] % 2 == 1 ? "t.npy" : "t.bin";
  folder.Write(name, {reinterpret_cast<const char*>(data) + 1, size - 1});
  const Result<TokenShards> shards =
      TokenShards::Open(folder.path() + "/" + name, kVocabulary);
  if (!shards.ok()) return 0;
  for (const auto* const parts : {&shards->train(), &shards->held_out()}) {
    for (const TokenShards::Part& part : *parts) {
      Check(part.begin >= 0 && part.tokens >= 0);
      std::vector<int32_t> tokens(static_cast<size_t>(part.tokens));
      const Status read = shards->Read(part, tokens);
      if (!read.ok()) {
        Check(read.error().code == ErrorCode::kInvalidArgument);
        continue;
      }
      for (const int32_t token : tokens) {
        Check(token >= 0 && token < kVocabulary);
      }
    }
  }
  return 0;
}
