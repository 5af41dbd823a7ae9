#ifndef STOWAGE_FORMATS_TENSOR_FILE_H_
#define STOWAGE_FORMATS_TENSOR_FILE_H_

// Named tensors in a file that is open, whichever of the two formats holds them that
// keep nothing else: safetensors, or NumPy's NPZ, known by its first bytes. What is in
// the file is known before any of it is used. Tensors of a safetensors file are read on
// demand; an NPZ file, which may be compressed, is read whole.
//
//   Result<TensorFile> file = TensorFile::Open("w.npz", "weights");
//   for (const SafeTensor& tensor : file->tensors()) { ... }
//   Status read = file->Read(file->tensors()[0], bytes);

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/input_file.h"
#include "base/result.h"
#include "formats/array.h"
#include "formats/safetensors.h"
#include "formats/safetensors_file.h"

namespace stowage {

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

#endif  // STOWAGE_FORMATS_TENSOR_FILE_H_
