#include "runtime/safetensors_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace stowage {
namespace {

constexpr Bytes kMaxHeaderBytes = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little,
              "the files hold little-endian bytes");

}  // namespace

Error SafetensorsFile::Fail(std::string_view message, ErrorCode code) const {
  return {code, StrCat("[", room_, "] ", Quoted(path_), " ", message)};
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path,
                                              std::string_view room) {
  SafetensorsFile file;
  file.path_ = path;
  file.room_ = room;
  // A pipe would wait for its writer here; it is refused below.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) {
    return file.Fail(StrCat("cannot be opened: ", std::strerror(errno)),
                     errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo);
  }
  STOWAGE_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Status SafetensorsFile::ReadHeader() {
  struct stat info = {};
  if (::fstat(fd_, &info) != 0) {
    return Fail(StrCat("cannot be read: ", std::strerror(errno)),
                ErrorCode::kIo);
  }
  if (S_ISDIR(info.st_mode)) {
    return Fail("cannot be read: Is a directory", ErrorCode::kIo);
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(
        "cannot be read: it is a pipe or a device, no regular file; copy it "
        "into one",
        ErrorCode::kIo);
  }
  const auto size = static_cast<Bytes>(info.st_size);
  if (size < 8) {
    return Fail(StrCat("has ", size,
                       " bytes, too few for a header; it is truncated or no "
                       "safetensors file"));
  }
  uint64_t length = 0;
  STOWAGE_RETURN_IF_ERROR(
      ReadAt(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > static_cast<uint64_t>(kMaxHeaderBytes) ||
      static_cast<Bytes>(length) > size - 8) {
    return Fail(StrCat("states a header of ", length, " bytes and has ", size,
                       "; it is truncated or no safetensors file"));
  }
  std::string text(length, '\0');
  STOWAGE_RETURN_IF_ERROR(ReadAt(8, std::as_writable_bytes(std::span(text))));
  data_begin_ = 8 + static_cast<Bytes>(length);
  data_bytes_ = size - data_begin_;
  auto header = ParseSafetensorsHeader(text, data_bytes_);
  if (!header.ok()) {
    return Fail(StrCat("is damaged: ", header.error().message));
  }
  header_ = *std::move(header);
  return {};
}

Status SafetensorsFile::ReadAt(Bytes offset, std::span<std::byte> to) const {
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

Status SafetensorsFile::Read(Bytes begin, std::span<std::byte> to) const {
  STOWAGE_CHECK(begin >= 0 && static_cast<Bytes>(to.size()) <= data_bytes_ &&
                begin <= data_bytes_ - static_cast<Bytes>(to.size()));
  return ReadAt(data_begin_ + begin, to);
}

Status SafetensorsFile::Read(const SafeTensor& tensor,
                             std::span<std::byte> to) const {
  STOWAGE_CHECK(tensor.end - tensor.begin == static_cast<Bytes>(to.size()));
  return Read(tensor.begin, to);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      room_(std::move(other.room_)),
      fd_(std::exchange(other.fd_, -1)),
      data_begin_(other.data_begin_),
      data_bytes_(other.data_bytes_),
      header_(std::move(other.header_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(room_, other.room_);
  std::swap(fd_, other.fd_);
  std::swap(data_begin_, other.data_begin_);
  std::swap(data_bytes_, other.data_bytes_);
  std::swap(header_, other.header_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace stowage
