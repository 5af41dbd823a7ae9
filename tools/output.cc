#include "tools/output.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>

#include "base/strings.h"

namespace stowage::tools {
namespace {

// Whether bytes go through it, instead of staying there.
bool IsChannel(const std::string& path) {
  std::error_code code;
  const auto type = std::filesystem::status(path, code).type();
  return type == std::filesystem::file_type::character ||
         type == std::filesystem::file_type::fifo ||
         type == std::filesystem::file_type::socket;
}

// One file, which neither writing through nor reading from would leave whole.
bool Clash(const PathOption& a, const PathOption& b) {
  return !a.path.empty() && !b.path.empty() && !IsChannel(a.path) &&
         IsSameFile(a.path, b.path);
}

// Whether `path` is somewhere in the folder that the option names.
bool IsWithin(const std::string& path, const PathOption& folder) {
  std::error_code code;
  if (path.empty() || !std::filesystem::is_directory(folder.path, code)) {
    return false;
  }
  const auto whole = std::filesystem::weakly_canonical(path, code);
  const auto root = std::filesystem::canonical(folder.path, code);
  return !code &&
         std::mismatch(root.begin(), root.end(), whole.begin(), whole.end())
                 .first == root.end();
}

}  // namespace

Status CheckPaths(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs) {
  const auto fail = [](const PathOption& output, std::string_view why) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[", output.option, "] ", Quoted(output.path), " is ", why)};
  };
  for (const PathOption* output = outputs.begin(); output != outputs.end();
       ++output) {
    for (const PathOption& input : inputs) {
      if (IsWithin(output->path, input)) {
        return fail(*output, StrCat("in the folder that --", input.option,
                                    " reads; give a file elsewhere"));
      }
      if (!Clash(*output, input)) continue;
      return fail(*output, StrCat("what --", input.option,
                                  " reads; an input is never written over, "
                                  "give another file"));
    }
    for (const PathOption* other = outputs.begin(); other != output; ++other) {
      if (!Clash(*output, *other)) continue;
      return fail(*output, StrCat("what --", other->option,
                                  " writes; give each a file of its own"));
    }
  }
  return {};
}

Result<Output> Output::Open(const std::string& path) {
  Output output;
  output.path_ = path;
  if (path.empty() || IsChannel(path)) return output;
  STOWAGE_ASSIGN_OR_RETURN(output.file_, OutputFile::Claim(path));
  return output;
}

Status Output::Write(std::string_view contents) const {
  if (file_) return file_->Replace(contents);
  if (path_.empty()) {
    std::cout << contents << std::flush;
    return {};  // main() looks at the state of stdout
  }
  std::ofstream out(path_, std::ios::binary);
  out << contents << std::flush;
  if (!out) {
    return Error{ErrorCode::kIo,
                 StrCat("[file] ", Quoted(path_),
                        " cannot be written: ", std::strerror(errno))};
  }
  return {};
}

Status TryOutputs(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs) {
  STOWAGE_RETURN_IF_ERROR(CheckPaths(outputs, inputs));
  for (const PathOption& output : outputs) {
    const Result<Output> tried = Output::Open(output.path);
    if (!tried.ok()) return tried.error();
  }
  return {};
}

}  // namespace stowage::tools
