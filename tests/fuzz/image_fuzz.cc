// Images of both kinds, in colour and in grey.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/image.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const int64_t channels : {1, 3}) {
    const Result<Image> image = DecodeImage(bytes, channels, "fuzz");
    if (!image.ok()) continue;
    Check(image->channels == channels);
    Check(std::ssize(image->pixels) == channels * image->height * image->width);
  }
  return 0;
}
