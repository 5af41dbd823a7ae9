#ifndef STOWAGE_ONNX_VARINT_H_
#define STOWAGE_ONNX_VARINT_H_

// Numbers as protobuf writes them: seven bits a byte, the lowest first, and a bit that
// says whether more follow. A list of them is kept as the file has it, since a number of
// one byte there takes eight in memory, and is read when it is wanted.
//
//   std::string_view list = tensor.int64_data();
//   while (const std::optional<uint64_t> number = TakeVarint(&list)) ...

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stowage::onnx {

/// Takes a number off the front; absent where there is no whole one, of ten bytes at
/// most, and then takes nothing.
inline std::optional<uint64_t> TakeVarint(std::string_view* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes->size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>((*bytes)[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte & 0x80) continue;
    bytes->remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

/// How many numbers a list holds; absent where it is not whole numbers alone.
inline std::optional<int64_t> CountVarints(std::string_view list) {
  int64_t count = 0;
  for (; !list.empty(); ++count) {
    if (!TakeVarint(&list)) return std::nullopt;
  }
  return count;
}

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_VARINT_H_
