// Sizes as users type them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Bytes> bytes = ParseBytes(text);
  if (!bytes.ok()) return 0;
  Check(*bytes >= 0);
  Check(ParseBytes(std::to_string(*bytes)).value() == *bytes);
  Check(!FormatBytes(*bytes).empty());
  return 0;
}
