#ifndef STOWAGE_FORMATS_SAFETENSORS_H_
#define STOWAGE_FORMATS_SAFETENSORS_H_

// Files of named tensors. SafetensorsFile is an open safetensors file: its header, JSON that
// names every tensor's type, shape and byte range, is parsed and checked, and tensors are
// read on demand. TensorFile also reads NumPy's NPZ, which may be compressed, as a whole.
//
//   Result<SafetensorsFile> file = SafetensorsFile::Open("w.safetensors", "weights");
//   for (const SafeTensor& tensor : file->header().tensors) { ... }
//   Status read = file->Read(tensor, bytes);
//
//   {"__metadata__":{"step":"300"},"w":{"dtype":"F32","shape":[2,3],
//    "data_offsets":[0,24]}}
//
// As the format requires, ranges must cover the data exactly, without gaps or overlaps. A
// tensor of an unsupported type is an error only for callers that use it.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"

namespace stowage {

struct SafeTensor {
  std::string name;
  TensorType type;
  Bytes begin = 0;  // in the data, half-open
  Bytes end = 0;
  /// For a tensor that TensorType cannot represent (another dtype, no elements, too many
  /// dimensions), its type in the file, "F8_E4M3(2, 3)"; `type` is then invalid. Else empty.
  std::string foreign = {};
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<SafeTensor> tensors;  // in the order of their bytes

  /// The metadata under `key`, or null.
  const std::string* Find(std::string_view key) const;
};

/// The header's JSON, padded with spaces to a multiple of 8 bytes. Precondition: no
/// tensor is foreign.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header);

/// The start of a file, before its data: the header's length, and the header.
std::string SafetensorsPrefix(const SafetensorsHeader& header);

/// Parses and checks a header for `data_bytes` bytes of data, in O(n log n) of its length.
/// Errors name the position in the header, or the tensor with a wrong range.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                 Bytes data_bytes);

/// A safetensors file that is open for reading.
class SafetensorsFile {
 public:
  /// Opens the file and parses its header. `package` is the prefix of errors: those of
  /// InputFile::Open, and kInvalidArgument for an invalid header.
  static Result<SafetensorsFile> Open(const std::string& path,
                                      std::string_view package,
                                      FileUse use = FileUse::kNoted);

  const std::string& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  /// The size of all tensors.
  Bytes data_bytes() const { return data_bytes_; }
  /// The offset of the tensors in the file.
  Bytes data_begin() const { return data_begin_; }

  /// The open file.
  InputFile TakeFile() && { return std::move(file_); }

  /// Reads to.size() bytes of the data from `begin` on. Error kIo.
  Status Read(Bytes begin, std::span<std::byte> to) const;
  /// Reads a tensor of the header. Precondition: `to` has its size.
  Status Read(const SafeTensor& tensor, std::span<std::byte> to) const;

  /// An error of this file: `[package] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const {
    return file_.Fail(message, code);
  }

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}
  Status ReadHeader();

  InputFile file_;
  Bytes data_begin_ = 0;  // in the file
  Bytes data_bytes_ = 0;
  SafetensorsHeader header_;
};

/// A safetensors file or an NPZ, by its first bytes.
class TensorFile {
 public:
  /// `package` is the prefix of errors: those of SafetensorsFile::Open and ParseNpz.
  static Result<TensorFile> Open(const std::string& path,
                                 std::string_view package);

  /// In the order of the file. `begin` and `end` are valid for a safetensors file.
  const std::vector<SafeTensor>& tensors() const;
  bool is_npz() const { return std::holds_alternative<Npz>(file_); }

  /// Reads one of tensors(). Precondition: `to` has its size. Error kIo.
  Status Read(const SafeTensor& tensor, std::span<std::byte> to) const;

  /// An error of this file: `[package] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  struct Npz {
    InputFile file;
    std::vector<NamedArray> arrays;
    std::vector<SafeTensor> tensors;  // one for each array
  };

  explicit TensorFile(std::variant<SafetensorsFile, Npz> file)
      : file_(std::move(file)) {}

  std::variant<SafetensorsFile, Npz> file_;
};

}  // namespace stowage

#endif  // STOWAGE_FORMATS_SAFETENSORS_H_
