#ifndef STOWAGE_FORMATS_GGUF_H_
#define STOWAGE_FORMATS_GGUF_H_

// Reads and writes GGUF files (ggml's docs/gguf.md), and dequantizes their tensors. A file consists
// of metadata, which maps keys to typed values, a table of tensors, and the bytes of the tensors.
//
// ReadGgufHeader reads versions 2 and 3. It loads only the bytes of the header. Values are decoded
// when they are accessed, and strings are views, so a vocabulary of 100,000 tokens is read without
// copies of its strings. The sizes in a header are checked against the size of the file before
// memory is allocated.
//
//   Result<GgufHeader> header = ReadGgufHeader(file);
//   Result<std::string_view> family = header->Text("general.architecture");
//   for (const GgufTensor& tensor : header->tensors()) { ... }
//   Dequantize(tensor.type, bytes, row);
//
// WriteGguf writes version 3. Tensors are written one at a time, so a file may be larger than
// memory.
//
//   GgufMetadata metadata = GgufMetadata::Of(base_header);    // or start empty
//   metadata.Set("general.file_type", uint32_t{15});
//   metadata.SetArray<float>("tokenizer.ggml.scores", scores);
//   Status written = WriteGguf(*OutputFile::Claim("tuned.gguf"), metadata, tensors,
//                              [&](size_t i, const OutputFile::WritePart& write) {
//                                return write(bytes_of_tensor_i);   // several calls if large
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

/// The types of values, with their numbers in files.
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

/// A value of the metadata, described by its type and its position in the file.
struct GgufValue {
  GgufKind kind = GgufKind::kU8;  // type of the elements if an array
  bool is_array = false;
  uint64_t count = 1;  // elements
  Bytes begin = 0;     // offset of the first element in the file

  /// Returns a description such as "array of 3 text" or "u32".
  std::string Describe() const;
};

struct GgufTensor {
  std::string name;
  WeightType type = WeightType::kF32;
  /// The row-major shape. The file lists the dimensions in the opposite order.
  Shape shape;
  Bytes begin = 0;  // offset in the file
  Bytes bytes = 0;
};

class GgufHeader {
 public:
  /// Reads to.size() bytes of the file, starting at `offset`.
  using ReadAt = std::function<Status(Bytes offset, std::span<std::byte> to)>;

  /// Parses the header of a file of `file_bytes` bytes, which `read` reads. O(n log n) in the
  /// length of the header. Propagates errors of `read`. Returns kDevice if memory is insufficient.
  /// Returns kUnsupported for another version, byte order or tensor type. Returns kInvalidArgument,
  /// with the position and the values, if
  ///  - the file is not GGUF or is truncated, or a count or length exceeds its size;
  ///  - a type is unknown, an array has arrays as elements, a key or a tensor name is repeated, or
  ///    a tensor has more than four dimensions or an empty one;
  ///  - the alignment is not a power of two;
  ///  - the rows of a tensor are not whole blocks;
  ///  - tensors overlap, are misaligned, or end after the end of the file.
  static Result<GgufHeader> Parse(Bytes file_bytes, const ReadAt& read);

  uint32_t version() const { return version_; }
  /// Returns the tensors in the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// Returns the metadata, sorted by key.
  const std::map<std::string, GgufValue, std::less<>>& values() const {
    return values_;
  }
  /// Returns the value under `key`, or null.
  const GgufValue* Find(std::string_view key) const;

  // The following functions return the value under `key`. They return kNotFound if it is absent,
  // and kInvalidArgument if it has another type. Int and Ints accept integer types of any width and
  // return kInvalidArgument for values that do not fit 63 bits. Real and Reals accept floats of any
  // width. Text and Texts return views into this header, which remain valid when the header is
  // moved.
  Result<std::string_view> Text(std::string_view key) const;
  Result<int64_t> Int(std::string_view key) const;
  Result<double> Real(std::string_view key) const;
  Result<bool> Bool(std::string_view key) const;
  Result<std::vector<std::string_view>> Texts(std::string_view key) const;
  Result<std::vector<int64_t>> Ints(std::string_view key) const;
  Result<std::vector<double>> Reals(std::string_view key) const;
  /// Returns a view of the bytes of `value`, an element of values(), as stored in the file.
  std::string_view BytesOf(const GgufValue& value) const;

 private:
  friend class GgufParser;
  Result<const GgufValue*> Get(std::string_view key, bool is_array,
                               std::initializer_list<GgufKind> kinds,
                               std::string_view expected) const;
  Result<std::vector<int64_t>> AllInts(std::string_view key,
                                       const GgufValue& value) const;

  uint32_t version_ = 0;
  std::vector<char> bytes_;  // from the file, at least to the header's end
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
};

/// Returns whether the file begins with the magic number of GGUF. Returns kIo if reading fails.
Result<bool> IsGguf(const InputFile& file);

/// Returns the header of `file`. Propagates errors of GgufHeader::Parse. Returns kIo if reading
/// fails.
Result<GgufHeader> ReadGgufHeader(const InputFile& file);

/// Converts whole blocks of any type (ir/weight_type.h, math/weight_blocks.h) to floats, which are
/// correctly rounded. `bytes` must be exactly the blocks of to.size() numbers.
///
///   std::vector<float> row(576);
///   Dequantize(WeightType::kQ4_1, bytes, row);   // bytes: 18 blocks of 20 bytes
void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to);

/// The metadata of a file to write: typed values by key, in the order in which the keys were first
/// set.
class GgufMetadata {
 public:
  /// Returns a copy of all values of a file, in the order of the file.
  static GgufMetadata Of(const GgufHeader& header);

  /// Sets or replaces a value. T must be a number, bool or std::string_view, and determines the
  /// type of the value in the file.
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
  /// Sets or replaces an array.
  template <typename T>
  void SetArray(std::string_view key, std::span<const T> values) {
    std::string bytes;
    for (const T& value : values) bytes += BytesOfOne(value);
    Put(key, KindOf<T>(), /*is_array=*/true, values.size(), std::move(bytes));
  }

  /// Sets all values of `other`.
  void SetAll(const GgufMetadata& other);

  bool Has(std::string_view key) const { return places_.contains(key); }
  /// Removes the value under `key`, if any. Linear.
  void Remove(std::string_view key);

  size_t size() const { return entries_.size(); }
  /// Returns the value of "general.alignment", or 32, the default.
  Bytes alignment() const;
  /// Returns the encoding of all keys, types and values in a file.
  std::string Format() const;

 private:
  struct Entry {
    std::string key;
    GgufKind kind = GgufKind::kU8;
    bool is_array = false;
    uint64_t count = 1;
    std::string bytes;  // encoded values
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

/// A tensor to write. Its rows must be whole blocks.
struct GgufTensorToWrite {
  std::string name;
  WeightType type = WeightType::kF32;
  Shape shape;

  Bytes bytes() const { return BytesOf(type, shape.num_elements()); }
};

/// Replaces `file` by a GGUF file with these values and tensors. Calls `write_tensor` for each
/// tensor, in order, with its index in `tensors` and a function to which it must pass all bytes of
/// the tensor, in one or more calls. Propagates errors of `write_tensor`. Returns kIo if writing
/// fails, and kInvalidArgument, naming the tensor, for a tensor with more than four dimensions or a
/// repeated name. On an error, the file is unchanged.
Status WriteGguf(
    const OutputFile& file, const GgufMetadata& metadata,
    std::span<const GgufTensorToWrite> tensors,
    const std::function<Status(size_t tensor, const OutputFile::WritePart&)>&
        write_tensor);

/// Returns the number that GGUF files use for a tensor type.
uint32_t GgufNumberOf(WeightType type);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GGUF_H_
