#ifndef STOWAGE_BASE_OUTPUT_FILE_H_
#define STOWAGE_BASE_OUTPUT_FILE_H_

// A file that is written whole or not at all, by one run at a time.
//
// To claim a path tries everything that writing it will need, long before there is
// anything to write: that its folder takes new files, that what is there now is a
// regular file that may be written, that no other run has claimed it. Links are
// followed, so that the file they lead to is replaced, not the link. To replace
// makes a new file of a name of its own in the same folder, flushes it, gives it
// the mode of the file that was there, renames it over that one, and flushes the
// folder. So whatever happens, and whenever, the path holds all of the old bytes
// or all of the new ones. Where only the renaming fails, as in a folder whose rights have
// changed since the claim, the new bytes stay under another name, which the error tells.
//
//   Result<OutputFile> file = OutputFile::Claim("model.safetensors");
//   if (!file.ok()) return file.error();       // before an hour of training
//   Status saved = file->Replace({header, data});
//
// A claim is a lock (flock) on an empty file beside, ".model.safetensors.lock",
// which goes away with the claim. A process that is killed leaves that file, and
// perhaps a part of a new one, but no lock: the next claim removes both. On a file system
// without locks a claim succeeds without one: is_locked() is false.

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/run_files.h"

namespace stowage {

class OutputFile {
 public:
  /// Claims `path` until this is gone. Errors, kIo: no such folder, or none that
  /// takes files; a folder, a device or a pipe; a file that may not be written;
  /// another claim, of this process or another. kInvalidArgument: an input of the run
  /// (base/run_files.h).
  static Result<OutputFile> Claim(const std::string& path,
                                  FileUse use = FileUse::kNoted);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  /// Replaces the file by one that holds `parts`, one after the other. On an
  /// error, kIo, the old one stays as it was; where all was written and the new file
  /// cannot take its place, it is kept beside as PATH.kept-PID, which the message says.
  Status Replace(std::initializer_list<std::span<const std::byte>> parts) const;
  Status Replace(std::string_view text) const;
  /// The same by parts that are never all there: `write` is called once, hands each of
  /// them on as it makes it, and ends it all by an error, its own or that of a part.
  using WritePart = std::function<Status(std::span<const std::byte>)>;
  Status ReplaceBy(const std::function<Status(const WritePart&)>& write) const;

  /// As it was claimed, for messages; and with its links followed.
  const std::string& path() const { return path_; }
  const std::string& resolved() const { return resolved_; }
  /// Whether no other run can claim the file. False where its file system has no locks.
  bool is_locked() const { return lock_ >= 0; }

 private:
  OutputFile() = default;

  std::string path_, resolved_;
  std::string lock_path_;
  int lock_ = -1;
};

/// What OutputFile::resolved() is of `path`. Error kIo where there is no such folder.
Result<std::string> ResolvedPath(const std::string& path);
/// Whether `name` is that of what an OutputFile leaves beside a file when its process is
/// killed: a lock, or a part of what was to replace it.
bool IsLeftOver(std::string_view name);

/// Whether both lead to one file, which need not be there yet, their symbolic links
/// followed. Hard links are two: to replace one leaves the other as it is.
bool IsSameFile(const std::string& a, const std::string& b);

}  // namespace stowage

#endif  // STOWAGE_BASE_OUTPUT_FILE_H_
