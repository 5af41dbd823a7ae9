#ifndef STOWAGE_FORMATS_SAFETENSORS_H_
#define STOWAGE_FORMATS_SAFETENSORS_H_

// The header of a safetensors file: JSON that names every tensor's type, shape
// and byte range in the data that follows it. This reader is strict, as the
// format asks: ranges must cover the data exactly, without gaps or overlaps. A tensor
// of a type that there is not here is in the way of nobody who does not ask for it.
//
//   {"__metadata__":{"step":"300"},"w":{"dtype":"F32","shape":[2,3],
//    "data_offsets":[0,24]}}

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
  /// What the file says it is, "F8_E4M3(2, 3)", where no type here can be that: of
  /// another dtype, of no elements, of too many dimensions. Else empty; `type` is
  /// meant only then.
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

/// What a file begins with, before its data: the header's length, and the header.
std::string SafetensorsPrefix(const SafetensorsHeader& header);

/// Parses and checks a header for `data_bytes` bytes of data, in n log n of its
/// length. Errors name the position in the header, or the tensor whose range is
/// wrong.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                 Bytes data_bytes);

// A safetensors file that is open: its header, checked, and its tensors' bytes on
// demand, so that what is in a file is known before any of it is loaded.
//
//   Result<SafetensorsFile> file = SafetensorsFile::Open("w.safetensors", "weights");
//   for (const SafeTensor& tensor : file->header().tensors) { ... }
//   Status read = file->Read(tensor, bytes);

class SafetensorsFile {
 public:
  /// Opens the file and parses its header. `room` opens the messages of errors:
  /// kNotFound; kIo for what cannot be read or is no regular file;
  /// kInvalidArgument for a header that is none.
  static Result<SafetensorsFile> Open(const std::string& path,
                                      std::string_view room,
                                      FileUse use = FileUse::kNoted);

  const std::string& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  /// Of all tensors.
  Bytes data_bytes() const { return data_bytes_; }
  /// Where they begin, in the file.
  Bytes data_begin() const { return data_begin_; }

  /// The open file, for who reads it himself from here on.
  InputFile TakeFile() && { return std::move(file_); }

  /// Reads bytes of the data, from `begin` on: as many as `to` has. Errors kIo.
  Status Read(Bytes begin, std::span<std::byte> to) const;
  /// Reads a tensor of the header. Precondition: `to` has its size.
  Status Read(const SafeTensor& tensor, std::span<std::byte> to) const;

  /// An error of this file: `[room] "path" message`.
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

// Named tensors in a file that is open, whichever of the two formats holds them that
// keep nothing else: safetensors, or NumPy's NPZ, known by its first bytes. What is in
// the file is known before any of it is used. Tensors of a safetensors file are read on
// demand; an NPZ file, which may be compressed, is read whole.
//
//   Result<TensorFile> file = TensorFile::Open("w.npz", "weights");
//   for (const SafeTensor& tensor : file->tensors()) { ... }
//   Status read = file->Read(file->tensors()[0], bytes);

class TensorFile {
 public:
  /// `room` opens the messages of errors: those of SafetensorsFile::Open and ParseNpz.
  static Result<TensorFile> Open(const std::string& path,
                                 std::string_view room);

  /// In the order of the file. Places of tensors are a safetensors file's alone.
  const std::vector<SafeTensor>& tensors() const;
  bool is_npz() const { return std::holds_alternative<Npz>(file_); }

  /// Reads one of tensors(). Precondition: `to` has its size. Error kIo.
  Status Read(const SafeTensor& tensor, std::span<std::byte> to) const;

  /// An error of this file: `[room] "path" message`.
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
