#ifndef STOWAGE_FORMATS_SAFETENSORS_FILE_H_
#define STOWAGE_FORMATS_SAFETENSORS_FILE_H_

// A safetensors file that is open: its header, checked, and its tensors' bytes on
// demand, so that what is in a file is known before any of it is loaded.
//
//   Result<SafetensorsFile> file = SafetensorsFile::Open("w.safetensors", "weights");
//   for (const SafeTensor& tensor : file->header().tensors) { ... }
//   Status read = file->Read(tensor, bytes);

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/input_file.h"
#include "base/result.h"
#include "formats/safetensors.h"

namespace stowage {

class SafetensorsFile {
 public:
  /// Opens the file and parses its header. `room` opens the messages of errors:
  /// kNotFound; kIo for what cannot be read or is no regular file;
  /// kInvalidArgument for a header that is none.
  static Result<SafetensorsFile> Open(const std::string& path,
                                      std::string_view room);

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

}  // namespace stowage

#endif  // STOWAGE_FORMATS_SAFETENSORS_FILE_H_
