#ifndef STOWAGE_TESTS_ONNX_WIRE_H_
#define STOWAGE_TESTS_ONNX_WIRE_H_

// What protobuf writes, for tests that make files of it by hand.
//
//   const std::string graph = Within(7, nodes);  // field 7 of a model
//   tensor.set_int64_data(Packed({1, 2, 300}));

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stowage {

/// A number: seven bits a byte, the lowest first, and a bit that says whether more
/// follow.
inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>((value & 0x7f) | 0x80);
  }
  return bytes + static_cast<char>(value);
}

/// What stands before the so many bytes of a field.
inline std::string Header(int field, uint64_t length) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(length);
}

/// The field with these bytes.
inline std::string Within(int field, const std::string& bytes) {
  return Header(field, bytes.size()) + bytes;
}

/// A list of floats or doubles.
template <typename T>
std::string PackedReals(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(T));
}

/// A list of numbers.
inline std::string Packed(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t number : numbers) {
    bytes += Varint(static_cast<uint64_t>(number));
  }
  return bytes;
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_WIRE_H_
