// Headers of GGUF files: tensors lie in the file and apart, values can be read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/gguf.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Result<GgufHeader> header = stowage::testing::ParseGguf(file);
  if (!header.ok()) {
    Check(header.error().code != ErrorCode::kIo);
    return 0;
  }
  std::vector<GgufTensor> tensors = header->tensors();
  std::ranges::sort(tensors, {}, &GgufTensor::begin);
  std::vector<float> numbers;
  Bytes end = 0;
  for (const GgufTensor& tensor : tensors) {
    Check(tensor.begin >= end && tensor.bytes > 0);
    Check(BytesOf(tensor.type, tensor.shape.num_elements()) == tensor.bytes);
    end = tensor.begin + tensor.bytes;
    Check(end <= static_cast<Bytes>(size));
    numbers.resize(static_cast<size_t>(tensor.shape.num_elements()));
    Dequantize(tensor.type,
               std::as_bytes(
                   std::span(file).subspan(static_cast<size_t>(tensor.begin),
                                           static_cast<size_t>(tensor.bytes))),
               numbers);
  }
  for (const auto& [key, value] : header->values()) {
    const bool read = header->Text(key).ok() || header->Int(key).ok() ||
                      header->Real(key).ok() || header->Bool(key).ok() ||
                      header->Texts(key).ok() || header->Ints(key).ok() ||
                      header->Reals(key).ok();
    Check(read || value.kind == GgufKind::kBool ||
          value.kind == GgufKind::kU64);
  }
  return 0;
}
