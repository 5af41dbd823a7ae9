// SentencePiece's files: what is taken makes a tokenizer or an error, and the tokenizer
// encodes and decodes.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tests/fuzz/check.h"
#include "tests/fuzz/use_tokenizer.h"
#include "text/sentence_piece_file.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Result<SentencePieceModel> model = ParseSentencePieceModel(bytes);
  if (!model.ok()) {
    Check(model.error().code == ErrorCode::kInvalidArgument ||
          model.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  Result<TokenizerParts> parts = PartsOf(*std::move(model));
  if (parts.ok()) stowage::testing::UseTokenizer(*std::move(parts));
  return 0;
}
