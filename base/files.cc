#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/strings.h"

namespace stowage {
namespace {

// Numbered files, and the path that they were claimed for.
struct Series {
  std::string path, prefix, suffix;

  bool Has(std::string_view place) const {
    if (place.size() <= prefix.size() + suffix.size() ||
        !place.starts_with(prefix) || !place.ends_with(suffix)) {
      return false;
    }
    place.remove_prefix(prefix.size());
    place.remove_suffix(suffix.size());
    return place.find_first_not_of("0123456789") == std::string_view::npos;
  }
};

struct RunFiles {
  std::mutex mutex;
  bool keeps_inputs = false;
  // By resolved path: the paths by which they were opened or claimed.
  std::map<std::string, std::string> inputs, outputs;
  std::unordered_set<std::string> input_names;  // paths as opened
  std::vector<Series> series;
  std::map<std::string, std::string> folders;  // by resolved path: as named
};

RunFiles& Files() {
  static RunFiles files;
  return files;
}

Error Clash(const std::string& path, std::string_view what) {
  return {ErrorCode::kInvalidArgument, StrCat("[file] ", Quoted(path), what)};
}

// The error of opening `path`, which is claimed as `claimed`.
Error IsOutput(const std::string& path, const std::string& claimed) {
  return Clash(path, StrCat(" is read by this run, and is ", Quoted(claimed),
                            ", which it would write over; an input is never "
                            "written over, write to another file"));
}

// The error of claiming `path`, which was opened as `input`.
Error IsInput(const std::string& path, const std::string& input) {
  return Clash(
      path, StrCat(" cannot be written: this run reads it, as ", Quoted(input),
                   "; an input is never written over, write to "
                   "another file"));
}

// The error of claiming `output`, whose name is one of the series.
Error IsOfSeries(const std::string& output, const Series& series) {
  return Clash(output, StrCat(" has a name that checkpoints of steps of ",
                              Quoted(series.path),
                              " take; give each output a name of its own"));
}

// The error of claiming `output`, at which the run makes a folder, `folder` or its parent.
Error IsFolder(const std::string& output, const std::string& folder) {
  return Clash(output,
               StrCat(" is to be a file, and a folder by that name is made "
                      "for ",
                      Quoted(folder), "; give each output a name of its own"));
}

}  // namespace

void KeepInputs() {
  const std::lock_guard lock(Files().mutex);
  Files().keeps_inputs = true;
}

Status NoteInput(const std::string& path) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  // Images are read in every epoch; a recorded input can no longer be claimed.
  if (files.input_names.contains(path)) return {};
  std::error_code failed;
  const std::string place = std::filesystem::canonical(path, failed).string();
  if (failed) return {};  // deleted meanwhile
  const auto output = files.outputs.find(place);
  if (output != files.outputs.end()) return IsOutput(path, output->second);
  for (const Series& series : files.series) {
    if (!series.Has(place)) continue;
    return Clash(path, StrCat(" is read by this run, and has a name that "
                              "checkpoints of steps of ",
                              Quoted(series.path),
                              " take, which it would write over; an input is "
                              "never written over, save to another file"));
  }
  files.inputs.emplace(place, path);
  files.input_names.insert(path);
  return {};
}

Status NoteOutput(const std::string& path, const std::string& place) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  const auto input = files.inputs.find(place);
  if (input != files.inputs.end()) return IsInput(path, input->second);
  for (const Series& series : files.series) {
    if (series.Has(place)) return IsOfSeries(path, series);
  }
  const auto folder = files.folders.find(place);
  if (folder != files.folders.end()) return IsFolder(path, folder->second);
  files.outputs.emplace(place, path);
  return {};
}

Status NoteOutputs(const std::string& path, const std::string& prefix,
                   const std::string& suffix) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  const Series series = {path, prefix, suffix};
  for (const auto& [place, input] : files.inputs) {
    if (series.Has(place)) {
      return Clash(input, StrCat(" is read by this run, and has a name that "
                                 "checkpoints of steps of ",
                                 Quoted(path),
                                 " take, which it would write over; an input "
                                 "is never written over, save to another "
                                 "file"));
    }
  }
  for (const auto& [place, claimed] : files.outputs) {
    if (series.Has(place)) return IsOfSeries(claimed, series);
  }
  for (const auto& [place, folder] : files.folders) {
    if (series.Has(place)) return IsFolder(path, folder);
  }
  files.series.push_back(series);
  return {};
}

Status NoteFolder(const std::string& path) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  std::error_code failed;
  std::filesystem::path place = std::filesystem::weakly_canonical(path, failed);
  if (failed) return {};  // creating it reports the reason
  if (place.filename().empty()) place = place.parent_path();
  for (; place.has_relative_path(); place = place.parent_path()) {
    const auto output = files.outputs.find(place.string());
    if (output != files.outputs.end()) return IsFolder(output->second, path);
    for (const Series& series : files.series) {
      if (series.Has(place.string())) return IsFolder(series.path, path);
    }
    files.folders.emplace(place.string(), path);
  }
  return {};
}

Error InputFile::Fail(std::string_view message, ErrorCode code) const {
  return {code, StrCat("[", package_, "] ", Quoted(path_), " ", message)};
}

Result<InputFile> InputFile::Open(const std::string& path,
                                  std::string_view package, FileUse use) {
  InputFile file;
  file.path_ = path;
  file.package_ = package;
  // A pipe would wait for its writer here; it is refused below.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) {
    return file.Fail(StrCat("cannot be opened: ", std::strerror(errno)),
                     errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo);
  }
  struct stat info = {};
  if (::fstat(file.fd_, &info) != 0) {
    return file.Fail(StrCat("cannot be read: ", std::strerror(errno)),
                     ErrorCode::kIo);
  }
  if (S_ISDIR(info.st_mode)) {
    return file.Fail("cannot be read: Is a directory", ErrorCode::kIo);
  }
  if (!S_ISREG(info.st_mode)) {
    return file.Fail(
        "cannot be read: it is a pipe or a device, no regular file; copy it "
        "into one",
        ErrorCode::kIo);
  }
  if (use == FileUse::kNoted) STOWAGE_RETURN_IF_ERROR(NoteInput(path));
  file.size_ = static_cast<Bytes>(info.st_size);
  return file;
}

Status InputFile::ReadAt(Bytes offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Fail(got == 0 ? "cannot be read to its end: it has become shorter"
                           : StrCat("cannot be read: ", std::strerror(errno)),
                  ErrorCode::kIo);
    }
    to = to.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return {};
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      package_(std::move(other.package_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(package_, other.package_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

constexpr Bytes kMaxBytes = 2'147'483'647;

Error CannotRead(const std::string& path, std::string_view why,
                 ErrorCode code = ErrorCode::kIo) {
  return {code, StrCat("[data] ", Quoted(path), " ", why)};
}

// Reads `fd` to its end; about `size` bytes are expected.
Result<std::string> ReadAll(const std::string& path, int fd, Bytes size) {
  // Requests one byte more than expected, to detect the end without growing the string,
  // which would hold the content twice.
  std::string content(static_cast<size_t>(size) + 1, '\0');
  size_t got = 0;
  while (true) {
    if (got == content.size()) content.resize(got + 4096);
    const ssize_t read = ::read(fd, content.data() + got, content.size() - got);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) {
      return CannotRead(path, StrCat("cannot be read: ", std::strerror(errno)));
    }
    if (read == 0) break;
    got += static_cast<size_t>(read);
    if (got > static_cast<size_t>(kMaxBytes)) {
      return CannotRead(path, StrCat("has more than ", kMaxBytes,
                                     " bytes, the most that are read"));
    }
  }
  content.resize(got);
  return content;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, FileUse use) {
  // A pipe would wait for its writer here; it is refused below.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) {
      return Error{ErrorCode::kNotFound,
                   StrCat("[data] there is no file ", Quoted(path))};
    }
    return CannotRead(path, StrCat("cannot be read: ", std::strerror(errno)));
  }
  struct stat info = {};
  const bool known = ::fstat(fd, &info) == 0;
  const auto size = static_cast<Bytes>(info.st_size);
  const auto read = [&]() -> Result<std::string> {
    if (!known || !S_ISREG(info.st_mode)) {
      return CannotRead(path, "is not a regular file");
    }
    if (use == FileUse::kNoted) {
      STOWAGE_RETURN_IF_ERROR(NoteInput(path));
    }
    if (size > kMaxBytes) {
      return CannotRead(path, StrCat("has ", size, " bytes; at most ",
                                     kMaxBytes, " are read"));
    }
    STOWAGE_RETURN_IF_ERROR(
        CheckMemory(StrCat("reading ", Quoted(path)), size));
    return ReadAll(path, fd, size);
  };
  Result<std::string> content = read();
  ::close(fd);
  return content;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartSuffix = ".stowage-part";
constexpr std::string_view kLockSuffix = ".lock";
constexpr int kMaxLinks = 40;  // Linux's limit

Error CannotWrite(const std::string& path, std::string_view why) {
  return {ErrorCode::kIo,
          StrCat("[file] ", Quoted(path), " cannot be written: ", why)};
}

Error CannotWriteByErrno(const std::string& path) {
  return CannotWrite(path, std::strerror(errno));
}

// `path` with its links followed. The file need not exist, its folder must; absent, with
// errno set, if it does not.
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

// Describes a file that is not regular.
std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe, no regular file";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "it is a device, no regular file";
  return "it is no regular file";
}

// Returns whether only its owner, another user, may replace the file: it is in a folder with
// the sticky bit.
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

// Removes temporary files that killed runs left beside `place`, which is claimed.
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

// Returns whether the error means that the file system has no locks, as Lustre without its
// mount option flock and some NFS.
bool HasNoLocks(int error) {
  return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP;
}

// Takes the lock at `path`: a locked file that still has this name. Returns -1 with errno
// set, EWOULDBLOCK if another process holds it. On file systems without locks no file is
// left.
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
    ::close(fd);  // its owner removed it meanwhile
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

// Keeps a complete new file that could not replace the old one, under the name .kept-PID
// if possible, else under its temporary name.
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
  // Some file systems cannot flush a folder.
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
  // Such a file would be removed with the claim of another file.
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
  // Without a lock they may belong to a run that is writing.
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
  // Removed while locked, so that no other process holds it. A file with content is not
  // ours.
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
