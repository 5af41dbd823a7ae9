#ifndef STOWAGE_FORMATS_SAFETENSORS_H_
#define STOWAGE_FORMATS_SAFETENSORS_H_

// Reads files of named tensors. SafetensorsFile is an open safetensors file. Open parses and checks
// the header, which is JSON with the type, shape and byte range of every tensor. Tensors are read
// on demand. TensorFile also reads NPZ files, which may be compressed (formats/npy.h). An NPZ file
// is read into memory as a whole.
//
//   Result<SafetensorsFile> file = SafetensorsFile::Open("w.safetensors", "weights");
//   for (const SafeTensor& tensor : file->header().tensors) { ... }
//   Status read = file->Read(tensor, bytes);
//
//   {"__metadata__":{"step":"300"},"w":{"dtype":"F32","shape":[2,3],
//    "data_offsets":[0,24]}}
//
// As the format requires, the ranges of the tensors must cover the data exactly, without gaps or
// overlaps. A tensor of an unsupported type is listed (SafeTensor::foreign), so that only callers
// that need it must report an error.

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
  Bytes begin = 0;  // half-open range of bytes in the data
  Bytes end = 0;
  /// The type in the file, such as "F8_E4M3(2, 3)", if TensorType cannot represent it, because the
  /// tensor has an unsupported dtype, no elements or too many dimensions. `type` is then invalid.
  /// "" for other tensors.
  std::string foreign = {};
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<SafeTensor> tensors;  // in the order of their bytes

  /// Returns the metadata under `key`, or null.
  const std::string* Find(std::string_view key) const;
};

/// Returns the JSON of `header`, padded with spaces to a multiple of 8 bytes. Requires that no
/// tensor is foreign.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header);

/// Returns the bytes of a file that precede its data: the length of the header, and the header.
std::string SafetensorsPrefix(const SafetensorsHeader& header);

/// Parses and checks the header of a file with `data_bytes` bytes of data. O(n log n) in the length
/// of the header. Returns kInvalidArgument, with the position in the header or the name of the
/// tensor, if the JSON is not a valid header, or if the ranges do not cover the data exactly.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                 Bytes data_bytes);

/// A safetensors file that is open for reading.
class SafetensorsFile {
 public:
  /// Opens the file and parses its header. `package` is the tag of error messages (Fail). `use` is
  /// passed to InputFile::Open (base/files.h). Propagates errors of InputFile::Open, and returns
  /// kInvalidArgument for an invalid header.
  static Result<SafetensorsFile> Open(const std::string& path,
                                      std::string_view package,
                                      FileUse use = FileUse::kNoted);

  const std::string& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  /// Returns the total size of the tensors.
  Bytes data_bytes() const { return data_bytes_; }
  /// Returns the offset of the tensors in the file.
  Bytes data_begin() const { return data_begin_; }

  /// Moves the open file out of this object.
  InputFile TakeFile() && { return std::move(file_); }

  /// Reads to.size() bytes of the data, starting at `begin`. Returns kIo if reading fails.
  Status Read(Bytes begin, std::span<std::byte> to) const;
  /// Reads `tensor`, an element of header().tensors. `to` must have the size of the tensor.
  Status Read(const SafeTensor& tensor, std::span<std::byte> to) const;

  /// Returns an error about this file: `[package] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const {
    return file_.Fail(message, code);
  }

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}
  Status ReadHeader();

  InputFile file_;
  Bytes data_begin_ = 0;  // offset in the file
  Bytes data_bytes_ = 0;
  SafetensorsHeader header_;
};

/// A safetensors or an NPZ file, recognized by its first bytes.
class TensorFile {
 public:
  /// Opens the file. `package` is the tag of error messages (Fail). Propagates errors of
  /// SafetensorsFile::Open and ParseNpz.
  static Result<TensorFile> Open(const std::string& path,
                                 std::string_view package);

  /// Returns the tensors in the order of the file. `begin` and `end` are valid only for
  /// safetensors.
  const std::vector<SafeTensor>& tensors() const;
  bool is_npz() const { return std::holds_alternative<Npz>(file_); }

  /// Reads `tensor`, which must be an element of tensors(). `to` must have the size of the tensor.
  /// Returns kIo if reading fails.
  Status Read(const SafeTensor& tensor, std::span<std::byte> to) const;

  /// Returns an error about this file: `[package] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  struct Npz {
    InputFile file;
    std::vector<NamedArray> arrays;
    std::vector<SafeTensor> tensors;  // one per array
  };

  explicit TensorFile(std::variant<SafetensorsFile, Npz> file)
      : file_(std::move(file)) {}

  std::variant<SafetensorsFile, Npz> file_;
};

}  // namespace stowage

#endif  // STOWAGE_FORMATS_SAFETENSORS_H_
