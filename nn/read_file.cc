#include "nn/read_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/strings.h"

namespace stowage {

Result<std::string> ReadFile(const std::string& path) {
  std::error_code code;
  const std::filesystem::file_status status =
      std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found) {
    return Error{ErrorCode::kNotFound,
                 StrCat("[data] there is no file ", Quoted(path))};
  }
  if (!std::filesystem::is_regular_file(status)) {
    return Error{ErrorCode::kIo,
                 StrCat("[data] ", Quoted(path), " is not a regular file")};
  }
  std::ifstream in(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  if (!in) {
    return Error{ErrorCode::kIo,
                 StrCat("[data] ", Quoted(path), " cannot be read")};
  }
  return content;
}

}  // namespace stowage
