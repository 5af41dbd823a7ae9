// tokenizer.json: what is taken makes a tokenizer or an error, and the tokenizer
// encodes and decodes.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tests/fuzz/check.h"
#include "tests/fuzz/use_tokenizer.h"
#include "text/text_template.h"
#include "text/tokenizer_file.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const Result<TextTemplate> joins = TextTemplate::Parse(json);
  Check(joins.ok() || joins.error().code == ErrorCode::kInvalidArgument ||
        joins.error().code == ErrorCode::kUnsupported);
  Result<TokenizerParts> parts = ParseTokenizerParts(json);
  if (!parts.ok()) {
    Check(parts.error().code == ErrorCode::kInvalidArgument ||
          parts.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  stowage::testing::UseTokenizer(*std::move(parts));
  return 0;
}
