// Tokenizers in the headers of GGUF files, whole files at first; where such a file has
// none, its lines as tokens, merges and all, which need no lengths.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tests/formats/gguf_bytes.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/use_tokenizer.h"
#include "text/gguf_tokenizer.h"

using namespace stowage;
using stowage::testing::Check;

namespace {

// A line for each part: the pre-tokenizer's name, then "m" and a merge, or a digit,
// which is a token's type, and the token. "b" is the token that a text begins with. With
// the name "pieces" tokens have scores, in their order, and merges none; with "unigram",
// "c" is a charsmap besides.
GgufTokenizer FromLines(std::string_view text) {
  GgufTokenizer gguf;
  const auto next = [&] {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  gguf.pre = next();
  if (gguf.pre == "pieces") gguf.model = "llama";
  if (gguf.pre == "unigram") gguf.model = "t5";
  while (!text.empty()) {
    const std::string line = next();
    if (line.empty()) continue;
    if (line[0] == 'm') {
      gguf.merges.push_back(line.substr(1));
    } else if (line[0] == 'c') {
      gguf.charsmap = line.substr(1);
    } else if (line[0] == 'b') {
      gguf.bos = static_cast<int32_t>(line.size()) - 2;
    } else {
      gguf.token_types.push_back(line[0] - '0');
      gguf.tokens.push_back(line.substr(1));
      gguf.scores.push_back(-static_cast<double>(gguf.scores.size() / 2));
    }
  }
  return gguf;
}

void Use(GgufTokenizer gguf) {
  Result<TokenizerParts> parts = PartsOf(std::move(gguf));
  if (parts.ok()) stowage::testing::UseTokenizer(*std::move(parts));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Result<GgufHeader> header = stowage::testing::ParseGguf(file);
  if (!header.ok()) {
    Use(FromLines(file));
    return 0;
  }
  Result<GgufTokenizer> gguf = GgufTokenizerOf(*header);
  if (!gguf.ok()) {
    Check(gguf.error().code != ErrorCode::kIo);
    return 0;
  }
  Use(*std::move(gguf));
  return 0;
}
