#ifndef STOWAGE_FORMATS_GGUF_H_
#define STOWAGE_FORMATS_GGUF_H_

// The header of a GGUF file, version 2 or 3: metadata, which is typed values by key,
// and a table of tensors, whose bytes follow it in the file. Only the header is loaded,
// a window at a time until its end is known, and kept as it is: values are decoded when
// they are asked for, and texts are views into it. So a vocabulary of 100,000 tokens is
// 100,000 views, and no copies.
//
//   Result<GgufHeader> header = ReadGgufHeader(file);
//   Result<std::string_view> family = header->Text("general.architecture");
//   for (const GgufTensor& tensor : header->tensors()) { ... }
//
// Nothing that a header states is believed before the file is seen to be large enough
// for it: reading takes no more than a few times the bytes that are there. The format is
// described in ggml's docs/gguf.md; layouts of numbers in formats/gguf.h.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"

namespace stowage {

/// Types of values, by their numbers in the file.
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

/// A value of the metadata, as it lies in the header.
struct GgufValue {
  GgufKind kind = GgufKind::kU8;  // of an array, that of its elements
  bool is_array = false;
  uint64_t count = 1;  // elements
  Bytes begin = 0;     // of the first, in the file

  /// "array of 3 texts", "u32"
  std::string Describe() const;
};

struct GgufTensor {
  std::string name;
  WeightType type = WeightType::kF32;
  /// Row-major, the last dimension the one whose neighbours lie side by side, as
  /// everywhere here; the file names its dimensions in the opposite order.
  Shape shape;
  Bytes begin = 0;  // in the file
  Bytes bytes = 0;
};

class GgufHeader {
 public:
  /// Reads bytes of the file from `offset` on, as many as `to` has.
  using ReadAt = std::function<Status(Bytes offset, std::span<std::byte> to)>;

  /// Parses the header of a file of so many bytes, in n log n of its length. Errors:
  /// `read`'s, kDevice where there is no memory for it, kUnsupported for another version,
  /// byte order or type of numbers, and kInvalidArgument, saying where and naming the
  /// values, for a file that is none or ends too early, counts or lengths beyond its
  /// end, a type that there is not, a key or a tensor that comes twice, an alignment that
  /// is no power of two, rows that are no whole blocks, tensors that overlap, begin off
  /// the alignment or end after the file.
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

  // The value under `key`. Errors: kNotFound where there is none, kInvalidArgument where
  // it is something else; integers of any width are Int, where 63 bits hold them, and
  // floats of any width are Real. What Text and Texts return points into this header,
  // and stays where it is when the header is moved.
  Result<std::string_view> Text(std::string_view key) const;
  Result<int64_t> Int(std::string_view key) const;
  Result<double> Real(std::string_view key) const;
  Result<bool> Bool(std::string_view key) const;
  Result<std::vector<std::string_view>> Texts(std::string_view key) const;
  Result<std::vector<int64_t>> Ints(std::string_view key) const;
  Result<std::vector<double>> Reals(std::string_view key) const;
  /// The bytes of a value of values(), as they lie in the file; a view, too.
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

/// Whether the file begins as GGUF files do. Error kIo.
Result<bool> IsGguf(const InputFile& file);

/// The header of a file. Errors: GgufHeader::Parse's, and the file's kIo.
Result<GgufHeader> ReadGgufHeader(const InputFile& file);

// Numbers of a file of weights, whatever its type, as floats.
//
//   std::vector<float> row(576);
//   Dequantize(WeightType::kQ4_1, bytes, row);   // bytes: 18 blocks of 20 bytes
//
// The types are in ir/weight_type.h, what their blocks say in math/weight_blocks.h.

/// The numbers of whole blocks as floats. Every one is the float nearest to what the
/// block says. Precondition: `bytes` are those of as many numbers as `to` has.
void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_GGUF_H_
