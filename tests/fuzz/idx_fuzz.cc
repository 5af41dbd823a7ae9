// IDX files, compressed ones too.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/npy.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result<Array> array = ParseIdx(bytes, "fuzz");
  if (!array.ok()) return 0;
  Check(array->bytes.size() == static_cast<size_t>(array->type.bytes()));
  return 0;
}
