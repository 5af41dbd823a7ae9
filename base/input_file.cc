#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/strings.h"

namespace stowage {

Error InputFile::Fail(std::string_view message, ErrorCode code) const {
  return {code, StrCat("[", room_, "] ", Quoted(path_), " ", message)};
}

Result<InputFile> InputFile::Open(const std::string& path,
                                  std::string_view room, FileUse use) {
  InputFile file;
  file.path_ = path;
  file.room_ = room;
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
      room_(std::move(other.room_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(room_, other.room_);
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

// All that `fd` gives, of which `size` bytes are expected.
Result<std::string> ReadAll(const std::string& path, int fd, Bytes size) {
  // One byte more than expected is asked for, to see the end: a string that grew would
  // be there twice, and have room for twice as much.
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

}  // namespace stowage
