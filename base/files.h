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
// A program that has called KeepInputs() never overwrites its own inputs. From then on, claiming a
// file that it has opened is an error, and so is opening a file that it has claimed. Files are
// compared after resolving symbolic links, but hard links count as different files. The `stowage`
// command calls KeepInputs(). The library does not, since a program may read a file and replace it
// later. All functions in this header may be called from several threads.

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Turns on a record of the files that InputFile and ReadFile open and that OutputFile claims.
/// Files that were opened or claimed before are not in the record.
void KeepInputs();

/// Whether a file is compared with the record of KeepInputs() and added to it. kOwn does neither.
/// It is for a file that the run both reads and writes, such as a log that is continued.
enum class FileUse { kNoted, kOwn };

/// A file that is open for reading.
class InputFile {
 public:
  /// Opens the file at `path`. Returns kNotFound if the file does not exist, and kIo if it cannot
  /// be read or is not a regular file. The messages of these errors begin with `[package]`. Unless
  /// `use` is kOwn, propagates errors of NoteInput.
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

  /// Returns an error about this file, whose message is `[package] "path" message`.
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
/// kDevice if memory is insufficient. Unless `use` is kOwn, propagates errors of NoteInput.
Result<std::string> ReadFile(const std::string& path,
                             FileUse use = FileUse::kNoted);

/// A file that is replaced as a whole, by one run at a time.
///
/// Claim() follows symbolic links and checks whether the file can be written: the folder must
/// accept new files, an existing file must be regular and writable, and no other run may have
/// claimed it. The claim holds a lock (flock) on an empty lock file in the same folder, such as
/// ".model.safetensors.lock". The destructor removes the lock file. If the process is killed, the
/// lock is released, but the lock file and perhaps a partial new file remain. The next claim
/// removes the partial file, reuses the lock file, and removes it when the claim ends. On a file
/// system without locks, Claim() succeeds, but is_locked() is false and no partial files are
/// removed.
///
/// Replace() and ReplaceBy() write a temporary file in the same folder, give it the mode of the old
/// file, flush it, rename it over the old file and flush the folder.
class OutputFile {
 public:
  /// Claims `path` for the lifetime of the returned object. Returns kIo in these cases:
  /// - The folder does not exist or accepts no new files.
  /// - `path` is a folder, a device, a pipe or a file that is not writable.
  /// - `path` is another user's file in a folder with the sticky bit, such as /tmp.
  /// - The name is empty, contains a NUL, or has the form of a lock or temporary file (IsLeftOver).
  /// - This process or another has claimed the file.
  /// Unless `use` is kOwn, propagates errors of NoteOutput.
  static Result<OutputFile> Claim(const std::string& path,
                                  FileUse use = FileUse::kNoted);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  /// Replaces the content with the concatenation of `parts`. Returns kIo on failure. The old file
  /// is then unchanged, unless the message says that only the folder could not be flushed. If the
  /// new file is complete but cannot replace the old one, it is kept under another name, usually
  /// PATH.kept-PID, which the message states.
  Status Replace(std::initializer_list<std::span<const std::byte>> parts) const;
  Status Replace(std::string_view text) const;
  /// Replaces the content as Replace() does, with segments that `write` produces. `write` is called
  /// once. It must pass each segment to its argument, a WritePart, and return the first error that
  /// the WritePart returns. If `write` returns an error, the old file is unchanged, and the error
  /// is propagated.
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
/// not exist. Returns kIo if its folder does not exist or cannot be searched, if a link cannot be
/// read, or if more than 40 links follow one another.
Result<std::string> ResolvedPath(const std::string& path);
/// Returns whether `name` has the form of the lock file or a temporary file of an OutputFile.
bool IsLeftOver(std::string_view name);
/// Returns whether both paths resolve to the same path (ResolvedPath). The file need not exist.
/// Hard links count as different files. Returns false if a path cannot be resolved.
bool IsSameFile(const std::string& a, const std::string& b);

// The following functions update the record that KeepInputs() turns on. Before KeepInputs() is
// called, they do nothing. InputFile and ReadFile call NoteInput, and OutputFile calls NoteOutput.
// The other two functions are for outputs that are not claimed individually.

/// Records that the file at `path` is read. Returns kInvalidArgument if the file is recorded by
/// NoteOutput, or has a name that NoteOutputs records. Files in a folder of NoteFolder are
/// accepted. Does nothing if `path` cannot be resolved, for example if the file does not exist.
Status NoteInput(const std::string& path);
/// Records that the file at `place`, a resolved path, is written. Messages call it `path`. The
/// entry remains until the process ends. Returns kInvalidArgument if the file is recorded as an
/// input, has a name that NoteOutputs records, or is a folder or a parent of a folder that
/// NoteFolder records.
Status NoteOutput(const std::string& path, const std::string& place);
/// Records that all files "<prefix><digits><suffix>" may be written, such as the checkpoints
/// "/a/run.step-100.safetensors". `prefix` must begin with the resolved path of the folder.
/// Messages call the files outputs of `path`. Returns kInvalidArgument if one of them is recorded
/// as an input, by NoteOutput, or as a folder by NoteFolder. Series of files are not compared with
/// each other.
Status NoteOutputs(const std::string& path, const std::string& prefix,
                   const std::string& suffix);
/// Records that the run creates the folder at `path`, with missing parents, and writes files
/// to it. Returns kInvalidArgument if NoteOutput or NoteOutputs has recorded the path of the folder
/// or of a parent as a file. Does nothing if `path` cannot be resolved.
Status NoteFolder(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_BASE_FILES_H_
