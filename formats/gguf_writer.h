#ifndef STOWAGE_FORMATS_GGUF_WRITER_H_
#define STOWAGE_FORMATS_GGUF_WRITER_H_

// Writes GGUF files, version 3: metadata by key, then tensors, one at a time, so that a file
// may be larger than memory.
//
//   GgufMetadata metadata = GgufMetadata::Of(base_header);    // or none
//   metadata.Set("general.file_type", uint32_t{15});
//   metadata.SetArray<float>("tokenizer.ggml.scores", scores);
//   Status written = WriteGguf(*OutputFile::Claim("tuned.gguf"), metadata, tensors,
//                              [&](size_t i, const OutputFile::WritePart& write) {
//                                return write(bytes_of_tensor_i);   // in parts, if large
//                              });
//
// formats/gguf.h reads them. The format is described in ggml's docs/gguf.md.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"
#include "formats/gguf.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"

namespace stowage {

/// Typed values by key, in the order in which they were first set.
class GgufMetadata {
 public:
  /// A copy of all values of a file.
  static GgufMetadata Of(const GgufHeader& header);

  /// Sets a value in place of one that there may be. The kind is that of T: a number, a bool
  /// or a std::string_view.
  template <typename T>
  void Set(std::string_view key, T value) {
    Put(key, KindOf<T>(), /*is_array=*/false, 1, BytesOfOne(value));
  }
  void Set(std::string_view key, const char* value) {
    Set(key, std::string_view(value));
  }
  void Set(std::string_view key, const std::string& value) {
    Set(key, std::string_view(value));
  }
  /// The same with an array.
  template <typename T>
  void SetArray(std::string_view key, std::span<const T> values) {
    std::string bytes;
    for (const T& value : values) bytes += BytesOfOne(value);
    Put(key, KindOf<T>(), /*is_array=*/true, values.size(), std::move(bytes));
  }

  /// Sets all values that `other` has.
  void SetAll(const GgufMetadata& other);

  bool Has(std::string_view key) const { return places_.contains(key); }
  /// Removes a value, if there is one. Linear.
  void Remove(std::string_view key);

  size_t size() const { return entries_.size(); }
  /// "general.alignment", or 32, the default.
  Bytes alignment() const;
  /// All keys, types and values as files have them.
  std::string Format() const;

 private:
  struct Entry {
    std::string key;
    GgufKind kind = GgufKind::kU8;
    bool is_array = false;
    uint64_t count = 1;
    std::string bytes;  // of the values
  };

  template <typename T>
  static constexpr GgufKind KindOf() {
    if constexpr (std::is_same_v<T, bool>) return GgufKind::kBool;
    if constexpr (std::is_same_v<T, uint8_t>) return GgufKind::kU8;
    if constexpr (std::is_same_v<T, int8_t>) return GgufKind::kI8;
    if constexpr (std::is_same_v<T, uint16_t>) return GgufKind::kU16;
    if constexpr (std::is_same_v<T, int16_t>) return GgufKind::kI16;
    if constexpr (std::is_same_v<T, uint32_t>) return GgufKind::kU32;
    if constexpr (std::is_same_v<T, int32_t>) return GgufKind::kI32;
    if constexpr (std::is_same_v<T, uint64_t>) return GgufKind::kU64;
    if constexpr (std::is_same_v<T, int64_t>) return GgufKind::kI64;
    if constexpr (std::is_same_v<T, float>) return GgufKind::kF32;
    if constexpr (std::is_same_v<T, double>) return GgufKind::kF64;
    return GgufKind::kText;
  }
  template <typename T>
  static std::string BytesOfOne(const T& value) {
    if constexpr (KindOf<T>() == GgufKind::kText) {
      const std::string_view text = value;
      return BytesOfOne(uint64_t{text.size()}) + std::string(text);
    } else {
      return {reinterpret_cast<const char*>(&value), sizeof(value)};
    }
  }
  void Put(std::string_view key, GgufKind kind, bool is_array, uint64_t count,
           std::string bytes);

  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> places_;
};

/// A tensor that is written: whole blocks a row.
struct GgufTensorToWrite {
  std::string name;
  WeightType type = WeightType::kF32;
  Shape shape;

  Bytes bytes() const { return BytesOf(type, shape.num_elements()); }
};

/// Replaces the file. `write_tensor` is called for each tensor, in order, and hands on its
/// bytes. Errors: `write_tensor`'s and kIo, with the file untouched; kInvalidArgument, with
/// the name, for a tensor of more than four dimensions or of a name of another tensor.
Status WriteGguf(
    const OutputFile& file, const GgufMetadata& metadata,
    std::span<const GgufTensorToWrite> tensors,
    const std::function<Status(size_t tensor, const OutputFile::WritePart&)>&
        write_tensor);

/// The number of a type in GGUF files.
uint32_t GgufNumberOf(WeightType type);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GGUF_WRITER_H_
