#include "tools/command.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/strings.h"

namespace stowage::tools {

int ExitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBudgetTooSmall:
      return kExitNo;
    case ErrorCode::kDevice:
      return kExitNoDevice;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
      break;
  }
  return kExitUsage;
}

int Fail(const Error& error) {
  std::cerr << "stowage: " << error.message << std::endl;
  return ExitCodeOf(error.code);
}

CLI::App* AddSubcommand(CLI::App& app, const std::string& name,
                        const std::string& description,
                        const std::string& example) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer("Example:\n  " + example);
  // An option given twice means what was given last, as scripts expect.
  command->option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  return command;
}

void PrintJson(const nlohmann::ordered_json& json) {
  std::cout << json.dump(-1, ' ', false,
                         nlohmann::ordered_json::error_handler_t::replace)
            << std::endl;
}

Result<std::optional<Bytes>> ParseSizeOption(std::string_view option,
                                             const std::string& text) {
  if (text.empty()) return std::optional<Bytes>();
  Result<Bytes> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return Error{bytes.error().code,
                 StrCat("[", option, "] ", bytes.error().message)};
  }
  if (*bytes == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[", option,
                        "] the size is 0; give the most bytes "
                        "there are, such as 64MiB")};
  }
  return std::optional<Bytes>(*bytes);
}

Result<std::string> ReadFile(const std::string& path) {
  const auto fail = [&](ErrorCode code, std::string_view why) {
    return Error{code,
                 StrCat("[file] ", Quoted(path), " cannot be read: ", why)};
  };
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return fail(ErrorCode::kIo, "it is a directory");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream contents;
  contents << in.rdbuf();
  // An empty file leaves `contents` failed, with nothing read.
  if (!in.is_open() || in.bad()) {
    return fail(ErrorCode::kIo, std::strerror(errno));
  }
  return std::move(contents).str();
}

Status WriteOutput(const std::string& path, std::string_view contents) {
  if (path.empty()) {
    std::cout << contents << std::flush;
    return {};  // main() looks at the state of stdout
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << contents << std::flush;
  if (!out) {
    return Error{ErrorCode::kIo,
                 StrCat("[file] ", Quoted(path),
                        " cannot be written: ", std::strerror(errno))};
  }
  return {};
}

}  // namespace stowage::tools
