#ifndef STOWAGE_TESTS_FUZZ_SAFETENSORS_BYTES_H_
#define STOWAGE_TESTS_FUZZ_SAFETENSORS_BYTES_H_

// A safetensors file of zeros.
//
//   folder.Write("model.safetensors", SafetensorsBytes({{"w", {2, 3}}}));

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors.h"
#include "ir/dtype.h"
#include "ir/shape.h"

namespace stowage::testing {

using NamesAndShapes = std::vector<std::pair<std::string, Shape>>;

inline std::string SafetensorsBytes(const NamesAndShapes& tensors) {
  SafetensorsHeader header;
  Bytes end = 0;
  for (const auto& [name, shape] : tensors) {
    const TensorType type = {DType::kF32, shape};
    header.tensors.push_back(
        {.name = name, .type = type, .begin = end, .end = end + type.bytes()});
    end += type.bytes();
  }
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += text;
  file.append(static_cast<size_t>(end), '\0');
  return file;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_FUZZ_SAFETENSORS_BYTES_H_
