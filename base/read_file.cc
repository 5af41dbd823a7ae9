#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/strings.h"

namespace stowage {
namespace {

constexpr Bytes kMaxBytes = 2'147'483'647;

Error Fail(const std::string& path, std::string_view why,
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
      return Fail(path, StrCat("cannot be read: ", std::strerror(errno)));
    }
    if (read == 0) break;
    got += static_cast<size_t>(read);
    if (got > static_cast<size_t>(kMaxBytes)) {
      return Fail(path, StrCat("has more than ", kMaxBytes,
                               " bytes, the most that are read"));
    }
  }
  content.resize(got);
  return content;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  // A pipe would wait for its writer here; it is refused below.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) {
      return Error{ErrorCode::kNotFound,
                   StrCat("[data] there is no file ", Quoted(path))};
    }
    return Fail(path, StrCat("cannot be read: ", std::strerror(errno)));
  }
  struct stat info = {};
  const bool known = ::fstat(fd, &info) == 0;
  const auto size = static_cast<Bytes>(info.st_size);
  const auto read = [&]() -> Result<std::string> {
    if (!known || !S_ISREG(info.st_mode)) {
      return Fail(path, "is not a regular file");
    }
    if (size > kMaxBytes) {
      return Fail(path, StrCat("has ", size, " bytes; at most ", kMaxBytes,
                               " are read"));
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
