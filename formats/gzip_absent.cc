// In a build without zlib.

#include "base/strings.h"
#include "formats/gzip.h"

namespace stowage {
namespace {

Error Absent(std::string_view origin) {
  return {ErrorCode::kUnsupported,
          StrCat("[gzip] ", Quoted(origin),
                 " is compressed, and this build has no zlib; install "
                 "zlib1g-dev and build again, or unpack it")};
}

}  // namespace

Result<std::string> Gunzip(std::string_view, std::string_view origin) {
  return Absent(origin);
}

Result<std::string> Inflate(std::string_view, Bytes, std::string_view origin) {
  return Absent(origin);
}

}  // namespace stowage
