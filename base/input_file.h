#ifndef STOWAGE_BASE_INPUT_FILE_H_
#define STOWAGE_BASE_INPUT_FILE_H_

// A file that is open for reading at any place, so that what is in a large one is
// known before any of it is loaded, and no more of it is loaded than is asked for.
//
//   Result<InputFile> file = InputFile::Open("model.gguf", "weights");
//   Status read = file->ReadAt(4096, bytes);

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/run_files.h"

namespace stowage {

class InputFile {
 public:
  /// Opens the file. `room` opens the messages of errors: kNotFound; kIo for what
  /// cannot be read or is no regular file.
  static Result<InputFile> Open(const std::string& path, std::string_view room,
                                FileUse use = FileUse::kNoted);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  /// As it was when the file was opened.
  Bytes size() const { return size_; }

  /// Reads as many bytes as `to` has, from `offset` on. Error kIo, also where the
  /// file ends before. Any number of threads may read at a time.
  Status ReadAt(Bytes offset, std::span<std::byte> to) const;

  /// An error of this file: `[room] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  InputFile() = default;

  std::string path_, room_;
  int fd_ = -1;
  Bytes size_ = 0;
};

// A whole file as a string.

/// The bytes of the file at `path`. Errors: kNotFound when there is none, kIo
/// when it is no regular file, has more than 2^31 - 1 bytes or reading fails,
/// kDevice when there is no memory for it.
Result<std::string> ReadFile(const std::string& path,
                             FileUse use = FileUse::kNoted);

}  // namespace stowage

#endif  // STOWAGE_BASE_INPUT_FILE_H_
