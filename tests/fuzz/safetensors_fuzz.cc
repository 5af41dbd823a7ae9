// Headers of checkpoints, after a byte that says how much data follows.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "formats/safetensors.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.empty()) return 0;
  const Bytes data_bytes = 4 * static_cast<Bytes>(data[0]);
  const Result<SafetensorsHeader> header =
      ParseSafetensorsHeader(text.substr(1), data_bytes);
  if (!header.ok()) return 0;
  Bytes end = 0;
  bool writable = true;
  for (const SafeTensor& tensor : header->tensors) {
    Check(tensor.begin == end && tensor.end >= tensor.begin);
    if (!tensor.foreign.empty()) writable = false;
    end = tensor.end;
  }
  Check(end == data_bytes);
  if (!writable) return 0;
  Check(ParseSafetensorsHeader(FormatSafetensorsHeader(*header), data_bytes)
            .ok());
  return 0;
}
