#ifndef STOWAGE_BASE_FILES_H_
#define STOWAGE_BASE_FILES_H_

// Files that a run reads and writes. An InputFile is read at any offset, so that a large file
// can be inspected without loading it. An OutputFile is claimed early and replaced
// atomically: after a crash the path holds all of the old bytes or all of the new ones.
//
//   Result<InputFile> input = InputFile::Open("model.gguf", "weights");
//   Status read = input->ReadAt(4096, bytes);
//
//   Result<OutputFile> output = OutputFile::Claim("model.safetensors");
//   if (!output.ok()) return output.error();     // before an hour of training
//   Status saved = output->Replace({header, data});
//
// A program that has called KeepInputs() never writes over its own inputs: claiming a file
// that it has opened is an error, and so is opening one that it has claimed, in either
// order and however the file is named (an option, a symbolic link, the external data of an
// ONNX file, a shard of published weights). Hard links count as different files. The
// `stowage` command calls KeepInputs(); the library does not, since a program may read a
// file and replace it later. All functions here may be called from several threads.

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Makes InputFile, ReadFile and OutputFile record the files that they open and claim.
void KeepInputs();

/// kOwn exempts a file from that record: one that the run both reads and writes, such as a
/// log that is continued.
enum class FileUse { kNoted, kOwn };

/// A file that is open for reading.
class InputFile {
 public:
  /// Opens the file. `package` is the prefix of errors: kNotFound; kIo if the file cannot be
  /// read or is not a regular file.
  static Result<InputFile> Open(const std::string& path,
                                std::string_view package,
                                FileUse use = FileUse::kNoted);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  /// The size when the file was opened.
  Bytes size() const { return size_; }

  /// Reads to.size() bytes from `offset` on. Error kIo, also if the file ends before. May
  /// be called from several threads at once.
  Status ReadAt(Bytes offset, std::span<std::byte> to) const;

  /// An error about this file: `[package] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  InputFile() = default;

  std::string path_, package_;
  int fd_ = -1;
  Bytes size_ = 0;
};

/// The content of the file at `path`. Errors: kNotFound; kIo if it is not a regular file,
/// has more than 2^31 - 1 bytes or cannot be read; kDevice if memory is insufficient.
Result<std::string> ReadFile(const std::string& path,
                             FileUse use = FileUse::kNoted);

/// A file that is replaced as a whole, by one run at a time.
///
/// A claim follows symbolic links and checks everything that writing will need: the folder
/// accepts new files, an existing file is regular and writable, no other run has claimed
/// it. It holds a lock (flock) on an empty file beside it, ".model.safetensors.lock", which
/// is removed with the claim. A process that is killed leaves that file, and perhaps a
/// partial new file, but no lock: the next claim removes both. On a file system without
/// locks a claim succeeds and is_locked() is false.
///
/// Replacing writes a temporary file in the same folder, flushes it, gives it the mode of
/// the old file, renames it over the old file and flushes the folder.
class OutputFile {
 public:
  /// Claims `path` for the lifetime of this object. Errors, kIo: a missing folder, or one
  /// that accepts no files; a folder, device or pipe; a file that is not writable; another
  /// claim, of this process or another. kInvalidArgument: an input of the run.
  static Result<OutputFile> Claim(const std::string& path,
                                  FileUse use = FileUse::kNoted);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  /// Replaces the content by the concatenation of `parts`. On an error, kIo, the old file
  /// is unchanged; if only the rename fails, the new file is kept as PATH.kept-PID, which
  /// the message names.
  Status Replace(std::initializer_list<std::span<const std::byte>> parts) const;
  Status Replace(std::string_view text) const;
  /// As above, for content that is produced in parts: `write` is called once and passes
  /// each part to its argument. An error that it returns ends the replacement.
  using WritePart = std::function<Status(std::span<const std::byte>)>;
  Status ReplaceBy(const std::function<Status(const WritePart&)>& write) const;

  /// The path as claimed, for messages.
  const std::string& path() const { return path_; }
  /// The path with its links followed.
  const std::string& resolved() const { return resolved_; }
  /// False if the file system has no locks, so that another run can claim the file.
  bool is_locked() const { return lock_ >= 0; }

 private:
  OutputFile() = default;

  std::string path_, resolved_;
  std::string lock_path_;
  int lock_ = -1;
};

/// OutputFile::resolved() for `path`. Error kIo if the folder does not exist.
Result<std::string> ResolvedPath(const std::string& path);
/// Returns whether `name` is that of a lock or temporary file of an OutputFile.
bool IsLeftOver(std::string_view name);
/// Returns whether both paths resolve to the same file, which need not exist. Hard links
/// count as different files.
bool IsSameFile(const std::string& a, const std::string& b);

// The record that KeepInputs() turns on. InputFile and OutputFile call the first two;
// the others are for outputs that are not claimed one by one.

/// Records that the file at `path` is read. Error kInvalidArgument: it is an output.
Status NoteInput(const std::string& path);
/// Records that `place`, a resolved path, is written; `path` is its name in messages. Error
/// kInvalidArgument: it is an input, or claimed by the functions below.
Status NoteOutput(const std::string& path, const std::string& place);
/// Records that all files "<prefix><digits><suffix>" may be written, such as the checkpoints
/// "/a/run.step-100.safetensors". Error kInvalidArgument: one of them is an input or
/// output.
Status NoteOutputs(const std::string& path, const std::string& prefix,
                   const std::string& suffix);
/// Records that the run creates the folder at `path`, and its parents if missing, and
/// writes files there. Error kInvalidArgument: one of them is an output file.
Status NoteFolder(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_BASE_FILES_H_
