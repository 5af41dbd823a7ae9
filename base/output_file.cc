#include "base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/strings.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartSuffix = ".stowage-part";
constexpr std::string_view kLockSuffix = ".lock";
constexpr int kMaxLinks = 40;  // as many as Linux follows

Error CannotWrite(const std::string& path, std::string_view why) {
  return {ErrorCode::kIo,
          StrCat("[file] ", Quoted(path), " cannot be written: ", why)};
}

Error CannotWriteByErrno(const std::string& path) {
  return CannotWrite(path, std::strerror(errno));
}

// The path that `path` leads to, whose file need not be there, though its folder
// must; nothing, with errno set, where there is none.
std::optional<fs::path> Resolve(const std::string& path) {
  fs::path place = path;
  std::error_code code;
  for (int links = 0; fs::is_symlink(fs::symlink_status(place, code));
       ++links) {
    const fs::path target = fs::read_symlink(place, code);
    if (code || links == kMaxLinks) {
      errno = code ? code.value() : ELOOP;
      return std::nullopt;
    }
    place = place.parent_path() / target;
  }
  const fs::path folder = place.parent_path();
  const fs::path real = fs::canonical(folder.empty() ? "." : folder, code);
  if (code) {
    errno = code.value();
    return std::nullopt;
  }
  return real / place.filename();
}

// What is there and is no regular file.
std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe, no regular file";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "it is a device, no regular file";
  return "it is no regular file";
}

// True where only the owner, another user, may replace the file: in a folder with the
// sticky bit.
bool IsOthersAlone(const struct stat& file, const fs::path& place) {
  struct stat folder = {};
  const uid_t user = ::geteuid();
  return user != 0 && file.st_uid != user &&
         ::stat(place.parent_path().c_str(), &folder) == 0 &&
         (folder.st_mode & S_ISVTX) != 0 && folder.st_uid != user;
}

// The start of the names of parts of `place`, in its folder.
std::string PartPrefix(const fs::path& place) {
  return StrCat(".", place.filename().string(), ".");
}

// A new, empty file beside `place`; -1 with errno set.
int MakePart(const fs::path& place, fs::path* part) {
  for (int attempt = 0;; ++attempt) {
    *part = place.parent_path() /
            StrCat(PartPrefix(place), ::getpid(), "-", attempt, kPartSuffix);
    const int fd =
        ::open(part->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

// Removes what a run that was killed has left of `place`, whose claim we have.
void RemoveParts(const fs::path& place) {
  const std::string prefix = PartPrefix(place);
  std::error_code code;
  for (fs::directory_iterator entry(place.parent_path(), code), end;
       !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.size() <= prefix.size() + kPartSuffix.size() ||
        !name.starts_with(prefix) || !name.ends_with(kPartSuffix)) {
      continue;
    }
    const std::string middle = name.substr(
        prefix.size(), name.size() - prefix.size() - kPartSuffix.size());
    if (middle.find_first_not_of("0123456789-") != std::string::npos) continue;
    std::error_code ignored;
    fs::remove(entry->path(), ignored);
  }
}

// True where errno says that the file system has no locks, as Lustre without its mount
// option flock and some of NFS.
bool HasNoLocks(int error) {
  return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP;
}

// The lock on `path`: a file that is locked and still has this name. -1 with errno
// set; EWOULDBLOCK where another has it. Where there are no locks no file is left.
int TakeLock(const std::string& path) {
  while (true) {
    const int fd =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return fd;
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int why = errno;
      struct stat empty = {};
      if (HasNoLocks(why) && ::fstat(fd, &empty) == 0 && empty.st_size == 0) {
        ::unlink(path.c_str());
      }
      ::close(fd);
      errno = why;
      return -1;
    }
    struct stat ours = {}, there = {};
    if (::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
        ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
      return fd;
    }
    ::close(fd);  // its owner removed it in between
  }
}

bool WriteAll(int fd, std::span<const std::byte> rest) {
  while (!rest.empty()) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    rest = rest.subspan(static_cast<size_t>(written));
  }
  return true;
}

// Keeps a whole file that cannot have the name it was made for. Where it may have no name
// but its own, it stays under that one.
Error KeptBeside(const std::string& path, const fs::path& place,
                 const fs::path& part) {
  const std::string why = std::strerror(errno);
  const std::string kept = StrCat(place.string(), ".kept-", ::getpid());
  const bool is_renamed = ::rename(part.c_str(), kept.c_str()) == 0;
  return CannotWrite(path, StrCat(why, "; all that was to be in it is in ",
                                  Quoted(is_renamed ? kept : part.string())));
}

bool FlushFolder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  // Some file systems cannot flush a folder, and say so.
  const bool flushed = ::fsync(fd) == 0 || errno == EINVAL;
  const int why = errno;
  ::close(fd);
  errno = why;
  return flushed;
}

}  // namespace

Result<OutputFile> OutputFile::Claim(const std::string& path, FileUse use) {
  if (path.empty()) return CannotWrite(path, "the name is empty");
  if (path.find('\0') != std::string::npos) {
    return CannotWrite(path, "the name holds a NUL, where it would end");
  }
  const std::optional<fs::path> place = Resolve(path);
  if (!place) return CannotWriteByErrno(path);
  if (place->filename().empty()) return CannotWrite(path, "it names a folder");
  // Which goes away with the claim of the other file.
  if (IsLeftOver(place->filename().string())) {
    return CannotWrite(path,
                       "its name is that of the lock or of a part of another "
                       "output; give it one that does not begin with a dot");
  }
  struct stat info = {};
  if (::stat(place->c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return CannotWrite(path, KindOf(info.st_mode));
    if (::access(place->c_str(), W_OK) != 0) return CannotWriteByErrno(path);
    if (IsOthersAlone(info, *place)) {
      return CannotWrite(path,
                         "it is another user's, in a folder where a file is "
                         "replaced by its owner alone, as in /tmp");
    }
  } else if (errno != ENOENT) {
    return CannotWriteByErrno(path);
  }

  if (use == FileUse::kNoted) {
    STOWAGE_RETURN_IF_ERROR(NoteOutput(path, place->string()));
  }

  OutputFile file;
  file.path_ = path;
  file.resolved_ = place->string();
  file.lock_path_ = (place->parent_path() /
                     StrCat(".", place->filename().string(), kLockSuffix))
                        .string();
  file.lock_ = TakeLock(file.lock_path_);
  if (file.lock_ < 0 && errno == EWOULDBLOCK) {
    return CannotWrite(
        path,
        "another run has claimed it and may write it at any moment; "
        "give each run a file of its own");
  }
  if (file.lock_ < 0 && !HasNoLocks(errno)) {
    return CannotWrite(path,
                       StrCat("its lock, ", Quoted(file.lock_path_),
                              ", cannot be taken: ", std::strerror(errno)));
  }
  // Without a lock they may be those of a run that writes.
  if (file.is_locked()) RemoveParts(*place);
  fs::path part;
  const int fd = MakePart(*place, &part);
  if (fd < 0) return CannotWriteByErrno(path);
  ::close(fd);
  ::unlink(part.c_str());
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      resolved_(std::move(other.resolved_)),
      lock_path_(std::move(other.lock_path_)),
      lock_(std::exchange(other.lock_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(resolved_, other.resolved_);
  std::swap(lock_path_, other.lock_path_);
  std::swap(lock_, other.lock_);
  return *this;
}

OutputFile::~OutputFile() {
  if (lock_ < 0) return;
  struct stat info = {};
  // Removed while it is locked, so that nobody else can have it. One with a
  // content is somebody's.
  if (::fstat(lock_, &info) == 0 && info.st_size == 0) {
    ::unlink(lock_path_.c_str());
  }
  ::close(lock_);
}

Status OutputFile::Replace(
    std::initializer_list<std::span<const std::byte>> parts) const {
  return ReplaceBy([&](const WritePart& write) -> Status {
    for (const std::span<const std::byte> part : parts) {
      STOWAGE_RETURN_IF_ERROR(write(part));
    }
    return {};
  });
}

Status OutputFile::ReplaceBy(
    const std::function<Status(const WritePart&)>& write) const {
  const fs::path place = resolved_;
  fs::path part;
  const int fd = MakePart(place, &part);
  if (fd < 0) return CannotWriteByErrno(path_);
  Status status = write([&](std::span<const std::byte> bytes) -> Status {
    if (WriteAll(fd, bytes)) return {};
    return CannotWriteByErrno(path_);
  });
  struct stat info = {};
  const bool keeps_mode = ::stat(resolved_.c_str(), &info) != 0 ||
                          ::fchmod(fd, info.st_mode & 07777) == 0;
  const int no_mode = errno;
  if (status.ok() && ::fsync(fd) != 0) status = CannotWriteByErrno(path_);
  if (::close(fd) != 0 && status.ok()) status = CannotWriteByErrno(path_);
  if (!status.ok()) {
    ::unlink(part.c_str());
    return status;
  }
  errno = no_mode;
  if (!keeps_mode || ::rename(part.c_str(), resolved_.c_str()) != 0) {
    return KeptBeside(path_, place, part);
  }
  if (!FlushFolder(place.parent_path())) {
    return Error{ErrorCode::kIo,
                 StrCat("[file] ", Quoted(path_),
                        " was written, but its folder cannot be flushed: ",
                        std::strerror(errno))};
  }
  return {};
}

Status OutputFile::Replace(std::string_view text) const {
  return Replace({std::as_bytes(std::span(text))});
}

Result<std::string> ResolvedPath(const std::string& path) {
  const std::optional<fs::path> place = Resolve(path);
  if (!place) return CannotWriteByErrno(path);
  return place->string();
}

bool IsLeftOver(std::string_view name) {
  return name.starts_with('.') &&
         (name.ends_with(kPartSuffix) || name.ends_with(kLockSuffix));
}

bool IsSameFile(const std::string& a, const std::string& b) {
  const std::optional<fs::path> place_a = Resolve(a), place_b = Resolve(b);
  return place_a && place_b && *place_a == *place_b;
}

}  // namespace stowage
