#ifndef STOWAGE_BASE_FILES_H_
#define STOWAGE_BASE_FILES_H_

// Opens the files that a run reads, and replaces the files that it writes. An InputFile can be
// read at any offset, so a large file can be inspected without loading it. An OutputFile is
// claimed before the work begins and is replaced atomically. After a crash, the path holds
// either the complete old content or the complete new content.
//
//   Result<InputFile> input = InputFile::Open("model.gguf", "weights");
//   Status read = input->ReadAt(4096, bytes);
//
//   Result<OutputFile> output = OutputFile::Claim("model.safetensors");
//   if (!output.ok()) return output.error();     // before an hour of training
//   Status saved = output->Replace({header, data});
//
// A program that has called KeepInputs() never overwrites its own inputs. Claiming a file that
// it has opened is an error, and so is opening a file that it has claimed. The file may be named
// in any way: an option, a symbolic link, the external data of an ONNX file, or a shard of
// published weights. Hard links count as different files. The `stowage` command calls
// KeepInputs(). The library does not, since a program may read a file and replace it later.
// All functions in this header may be called from several threads.

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Turns on the record of files that InputFile and ReadFile open and that OutputFile claims.
void KeepInputs();

/// Whether a file is entered in the record of KeepInputs(). kOwn is for a file that the run
/// both reads and writes, such as a log that is continued.
enum class FileUse { kNoted, kOwn };

/// A file that is open for reading.
class InputFile {
 public:
  /// Opens the file at `path`. Error messages begin with `[package]`. Returns kNotFound if the
  /// file does not exist, kIo if it cannot be read or is not a regular file, and
  /// kInvalidArgument if the record of KeepInputs() lists it as an output.
  static Result<InputFile> Open(const std::string& path,
                                std::string_view package,
                                FileUse use = FileUse::kNoted);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  /// Returns the size that the file had when it was opened.
  Bytes size() const { return size_; }

  /// Reads to.size() bytes, starting at `offset`. Returns kIo if reading fails or the file ends
  /// too early. May be called from several threads simultaneously.
  Status ReadAt(Bytes offset, std::span<std::byte> to) const;

  /// Returns an error about this file: `[package] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  InputFile() = default;

  std::string path_, package_;
  int fd_ = -1;
  Bytes size_ = 0;
};

/// Returns the content of the file at `path`. Returns kNotFound if the file does not exist, and
/// kIo if it is not a regular file, has more than 2^31 - 1 bytes or cannot be read. Returns
/// kDevice if memory is insufficient, and kInvalidArgument as InputFile::Open does.
Result<std::string> ReadFile(const std::string& path,
                             FileUse use = FileUse::kNoted);

/// A file that is replaced as a whole, by one run at a time.
///
/// Claim() follows symbolic links and checks the requirements of writing: the folder accepts
/// new files, an existing file is regular and writable, and no other run has claimed it. The
/// claim holds a lock (flock) on an empty file in the same folder, such as
/// ".model.safetensors.lock", which the destructor removes. If the process is killed, the lock
/// is released, but the lock file and perhaps a partial new file remain. The next claim removes
/// both. On a file system without locks, Claim() succeeds and is_locked() is false.
///
/// Replace() writes a temporary file in the same folder, gives it the mode of the old file,
/// flushes it, renames it over the old file and flushes the folder.
class OutputFile {
 public:
  /// Claims `path` for the lifetime of the returned object. Returns kIo if the folder is missing
  /// or accepts no files, if `path` is a folder, a device, a pipe or a file that is not writable,
  /// or if this or another process has claimed it. Propagates errors of NoteOutput.
  static Result<OutputFile> Claim(const std::string& path,
                                  FileUse use = FileUse::kNoted);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  /// Replaces the content with the concatenation of `parts`. Returns kIo if that fails. The old
  /// file is then unchanged, unless the message says that only the folder could not be flushed.
  /// If the new file is complete but cannot replace the old one, it is kept under the name in
  /// the message, usually PATH.kept-PID.
  Status Replace(std::initializer_list<std::span<const std::byte>> parts) const;
  Status Replace(std::string_view text) const;
  /// Replaces the content in the same way, with segments that `write` produces. `write` is
  /// called once and passes each segment to its argument. An error that it returns is propagated
  /// and leaves the old file unchanged.
  using WritePart = std::function<Status(std::span<const std::byte>)>;
  Status ReplaceBy(const std::function<Status(const WritePart&)>& write) const;

  /// Returns the path that was passed to Claim(), for messages.
  const std::string& path() const { return path_; }
  /// Returns the path with symbolic links resolved.
  const std::string& resolved() const { return resolved_; }
  /// Returns false if the file system has no locks. Another run can then claim the file.
  bool is_locked() const { return lock_ >= 0; }

 private:
  OutputFile() = default;

  std::string path_, resolved_;
  std::string lock_path_;
  int lock_ = -1;
};

/// Returns `path` with symbolic links resolved, as OutputFile::resolved() does. The file need
/// not exist. Returns kIo if its folder does not exist.
Result<std::string> ResolvedPath(const std::string& path);
/// Returns whether `name` has the form of the lock file or a temporary file of an OutputFile.
bool IsLeftOver(std::string_view name);
/// Returns whether both paths resolve to the same file, which need not exist. Hard links
/// count as different files.
bool IsSameFile(const std::string& a, const std::string& b);

// The following functions update the record that KeepInputs() turns on, and do nothing without
// it. InputFile and OutputFile call the first two. The others are for outputs that are not
// claimed individually.

/// Records that the file at `path` is read. Returns kInvalidArgument if it is an output.
Status NoteInput(const std::string& path);
/// Records that the file at `place`, a resolved path, is written. Messages call it `path`.
/// Returns kInvalidArgument if it is an input, or an output of NoteOutputs or NoteFolder.
Status NoteOutput(const std::string& path, const std::string& place);
/// Records that all files "<prefix><digits><suffix>" may be written, such as the checkpoints
/// "/a/run.step-100.safetensors". Messages call them outputs of `path`. Returns
/// kInvalidArgument if one of them is an input, another output or a folder of NoteFolder.
Status NoteOutputs(const std::string& path, const std::string& prefix,
                   const std::string& suffix);
/// Records that the run creates the folder at `path`, with missing parents, and writes files
/// to it. Returns kInvalidArgument if the folder or a parent is an output file.
Status NoteFolder(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_BASE_FILES_H_
