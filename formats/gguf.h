#ifndef STOWAGE_FORMATS_GGUF_H_
#define STOWAGE_FORMATS_GGUF_H_

// Reads and writes GGUF files (ggml's docs/gguf.md), and dequantizes their tensors. A file
// is metadata, typed values by key, a table of tensors, and the tensors' bytes.
//
// Reading (version 2 or 3) loads the header alone and keeps it as bytes: values are decoded
// on access and texts are views, so a vocabulary of 100,000 tokens is 100,000 views and no
// copies. Sizes in a header are checked against the file before memory is allocated for
// them.
//
//   Result<GgufHeader> header = ReadGgufHeader(file);
//   Result<std::string_view> family = header->Text("general.architecture");
//   for (const GgufTensor& tensor : header->tensors()) { ... }
//   Dequantize(tensor.type, bytes, row);
//
// Writing (version 3) takes one tensor at a time, so that a file may be larger than memory.
//
//   GgufMetadata metadata = GgufMetadata::Of(base_header);    // or none
//   metadata.Set("general.file_type", uint32_t{15});
//   metadata.SetArray<float>("tokenizer.ggml.scores", scores);
//   Status written = WriteGguf(*OutputFile::Claim("tuned.gguf"), metadata, tensors,
//                              [&](size_t i, const OutputFile::WritePart& write) {
//                                return write(bytes_of_tensor_i);   // in parts, if large
//                              });

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"

namespace stowage {

/// The types of values, numbered as in the file.
enum class GgufKind : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64
};

/// A value of the metadata, by its position in the header.
struct GgufValue {
  GgufKind kind = GgufKind::kU8;  // for an array, of its elements
  bool is_array = false;
  uint64_t count = 1;  // elements
  Bytes begin = 0;     // of the first, in the file

  /// "array of 3 texts", "u32"
  std::string Describe() const;
};

struct GgufTensor {
  std::string name;
  WeightType type = WeightType::kF32;
  /// Row-major; the file lists the dimensions in the opposite order.
  Shape shape;
  Bytes begin = 0;  // in the file
  Bytes bytes = 0;
};

class GgufHeader {
 public:
  /// Reads to.size() bytes of the file from `offset` on.
  using ReadAt = std::function<Status(Bytes offset, std::span<std::byte> to)>;

  /// Parses the header of a file of that size, in O(n log n) of the header's length.
  /// Errors: those of `read`; kDevice if memory is insufficient; kUnsupported for another
  /// version, byte order or type of numbers; kInvalidArgument, naming position and values,
  /// for a file that is not GGUF or is truncated, counts or lengths beyond its end, an
  /// unknown type, a duplicate key or tensor, an alignment that is not a power of two, rows
  /// that are not whole blocks, tensors that overlap, are misaligned or end after the file.
  static Result<GgufHeader> Parse(Bytes file_bytes, const ReadAt& read);

  uint32_t version() const { return version_; }
  /// In the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// The metadata by key.
  const std::map<std::string, GgufValue, std::less<>>& values() const {
    return values_;
  }
  /// The value under `key`, or null.
  const GgufValue* Find(std::string_view key) const;

  // The value under `key`. Errors: kNotFound if it is absent, kInvalidArgument if it has
  // another type. Int accepts integers of any width that fit 63 bits, Real floats of any
  // width. Text and Texts return views into this header, which survive moving it.
  Result<std::string_view> Text(std::string_view key) const;
  Result<int64_t> Int(std::string_view key) const;
  Result<double> Real(std::string_view key) const;
  Result<bool> Bool(std::string_view key) const;
  Result<std::vector<std::string_view>> Texts(std::string_view key) const;
  Result<std::vector<int64_t>> Ints(std::string_view key) const;
  Result<std::vector<double>> Reals(std::string_view key) const;
  /// The bytes of a value of values(), as in the file; also a view.
  std::string_view BytesOf(const GgufValue& value) const;

 private:
  friend class GgufParser;
  Result<const GgufValue*> Get(std::string_view key, bool is_array,
                               std::initializer_list<GgufKind> kinds,
                               std::string_view expected) const;
  Result<std::vector<int64_t>> AllInts(std::string_view key,
                                       const GgufValue& value) const;

  uint32_t version_ = 0;
  std::vector<char> bytes_;  // of the file, to the end of the header at least
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
};

/// Returns whether the file has the magic of GGUF. Error kIo.
Result<bool> IsGguf(const InputFile& file);

/// The header of a file. Errors: GgufHeader::Parse's, and the file's kIo.
Result<GgufHeader> ReadGgufHeader(const InputFile& file);

/// Converts whole blocks of any type (ir/weight_type.h, math/weight_blocks.h) to floats, each
/// correctly rounded. Precondition: `bytes` are the blocks of to.size() numbers.
///
///   std::vector<float> row(576);
///   Dequantize(WeightType::kQ4_1, bytes, row);   // bytes: 18 blocks of 20 bytes
void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to);

/// Typed values by key, in the order in which they were first set.
class GgufMetadata {
 public:
  /// A copy of all values of a file.
  static GgufMetadata Of(const GgufHeader& header);

  /// Sets or replaces a value. T is a number, bool or std::string_view, and determines the
  /// kind.
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
  /// As above, for an array.
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
  /// All keys, types and values as encoded in files.
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

/// A tensor to write. Rows are whole blocks.
struct GgufTensorToWrite {
  std::string name;
  WeightType type = WeightType::kF32;
  Shape shape;

  Bytes bytes() const { return BytesOf(type, shape.num_elements()); }
};

/// Replaces the file. `write_tensor` is called for each tensor, in order, and passes its
/// bytes to its second argument. Errors, with the file unchanged: those of `write_tensor`;
/// kIo; kInvalidArgument, with the name, for a tensor of more than four dimensions or a
/// duplicate name.
Status WriteGguf(
    const OutputFile& file, const GgufMetadata& metadata,
    std::span<const GgufTensorToWrite> tensors,
    const std::function<Status(size_t tensor, const OutputFile::WritePart&)>&
        write_tensor);

/// The number of a type in GGUF files.
uint32_t GgufNumberOf(WeightType type);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GGUF_H_
