#ifndef STOWAGE_TESTS_FORMATS_GGUF_BYTES_H_
#define STOWAGE_TESTS_FORMATS_GGUF_BYTES_H_

// Builds the bytes of a GGUF file field by field, for tests of valid and invalid files.
//
//   const std::string file = GgufBytes().Start(3, 0, 1).Text("a").U32(4).U32(7).bytes();

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "formats/gguf.h"

namespace stowage::testing {

class GgufBytes {
 public:
  GgufBytes& U8(uint8_t value) { return Number(value); }
  GgufBytes& U32(uint32_t value) { return Number(value); }
  GgufBytes& U64(uint64_t value) { return Number(value); }
  GgufBytes& Text(std::string_view text) {
    U64(text.size());
    bytes_ += text;
    return *this;
  }
  /// Appends the header: the magic number, the version, and the numbers of
  /// tensors and metadata values.
  GgufBytes& Start(uint32_t version, uint64_t tensors, uint64_t values) {
    bytes_ += "GGUF";
    return U32(version).U64(tensors).U64(values);
  }
  /// Appends an entry of the tensor table. `dims` are in the file's order.
  GgufBytes& Tensor(std::string_view name, std::initializer_list<uint64_t> dims,
                    uint32_t type, uint64_t offset) {
    Text(name).U32(static_cast<uint32_t>(dims.size()));
    for (const uint64_t size : dims) U64(size);
    return U32(type).U64(offset);
  }
  /// Pads with zeros to a multiple of `alignment`, and appends `count` zeros.
  GgufBytes& Data(size_t count, size_t alignment = 32) {
    const size_t end = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(end + count, '\0');
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  GgufBytes& Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }

  std::string bytes_;
};

/// Parses a file in memory.
inline Result<GgufHeader> ParseGguf(std::string_view file) {
  return GgufHeader::Parse(
      static_cast<Bytes>(file.size()),
      [file](Bytes offset, std::span<std::byte> to) -> Status {
        if (offset < 0 || static_cast<size_t>(offset) > file.size() ||
            to.size() > file.size() - static_cast<size_t>(offset)) {
          return Error{ErrorCode::kIo, "a read beyond the file's end"};
        }
        std::memcpy(to.data(), file.data() + offset, to.size());
        return {};
      });
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_FORMATS_GGUF_BYTES_H_
