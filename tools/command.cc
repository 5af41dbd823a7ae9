#include "tools/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/strings.h"
#include "tools/stop_signals.h"

namespace stowage::tools {

namespace {

// Whether it is a device, pipe or socket rather than a file.
bool IsChannel(const std::string& path) {
  std::error_code code;
  const auto type = std::filesystem::status(path, code).type();
  return type == std::filesystem::file_type::character ||
         type == std::filesystem::file_type::fifo ||
         type == std::filesystem::file_type::socket;
}

// Whether two paths are one file, which must not be written while it is in use.
bool Clash(const PathOption& a, const PathOption& b) {
  return !a.path.empty() && !b.path.empty() && !IsChannel(a.path) &&
         IsSameFile(a.path, b.path);
}

// Whether `path` is inside the folder given to an option.
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

// The time to wait for the other end of a pipe, which is usually started together.
constexpr int kMomentMilliseconds = 3000;

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return number_; }  // negative if it could not be opened

 private:
  const int number_;
};

// Opens a channel for writing, and waits for the reader of a pipe. Returns -1 with errno set,
// ENXIO if there is no reader.
int OpenChannel(const std::string& path) {
  for (int waited = 0;; waited += 20) {
    const int number = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (number >= 0) {
      ::fcntl(number, F_SETFL, ::fcntl(number, F_GETFL) & ~O_NONBLOCK);
      return number;
    }
    const bool waits = errno == ENXIO && waited < kMomentMilliseconds &&
                       StopSignals::caught() == 0;
    if (!waits) return -1;
    ::poll(nullptr, 0, 20);
    errno = ENXIO;
  }
}

}  // namespace

Status CheckPaths(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs) {
  const auto fail = [](const PathOption& output, std::string_view why) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[", output.option, "] ", Quoted(output.path), " is ", why)};
  };
  const auto name_of = [](const PathOption& option) {
    return StrCat(option.option.starts_with("the ") ? "" : "--", option.option);
  };
  for (const PathOption* output = outputs.begin(); output != outputs.end();
       ++output) {
    for (const PathOption& input : inputs) {
      if (IsWithin(output->path, input)) {
        return fail(*output, StrCat("in the folder that ", name_of(input),
                                    " reads; give a file elsewhere"));
      }
      if (!Clash(*output, input)) continue;
      return fail(*output, StrCat("what ", name_of(input),
                                  " reads; an input is never written over, "
                                  "give another file"));
    }
    for (const PathOption* other = outputs.begin(); other != output; ++other) {
      if (!Clash(*output, *other)) continue;
      return fail(*output, StrCat("what ", name_of(*other),
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
    return {};  // main() checks the state of stdout
  }
  const FileDescriptor file(OpenChannel(path_));
  while (file.get() >= 0 && !contents.empty()) {
    const ssize_t count = ::write(file.get(), contents.data(), contents.size());
    if (count < 0 && errno == EINTR && StopSignals::caught() == 0) continue;
    if (count < 0) break;
    contents.remove_prefix(static_cast<size_t>(count));
  }
  if (file.get() >= 0 && contents.empty()) return {};
  return Error{ErrorCode::kIo,
               StrCat("[file] ", Quoted(path_), " cannot be written: ",
                      errno == ENXIO ? "it is a pipe that nobody reads"
                                     : std::strerror(errno))};
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

namespace {

// The maximum size of plan files, tables and CSV.
constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

}  // namespace

int ExitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBudgetTooSmall:
    case ErrorCode::kNotFinite:
      return kExitNo;
    case ErrorCode::kDevice:
    case ErrorCode::kRankLost:
      return kExitNoDevice;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
      break;
  }
  return kExitUsage;
}

Status Both(const Status& first, const Status& second) {
  if (first.ok()) return second;
  if (second.ok()) return first;
  return Error{first.error().code,
               StrCat(first.error().message, "; and ", second.error().message)};
}

namespace {

std::function<void()>& RankLostCall() {
  static std::function<void()> call;
  return call;
}

}  // namespace

void CallOnRankLost(std::function<void()> call) {
  RankLostCall() = std::move(call);
}

int Fail(const Error& error) {
  if (error.code == ErrorCode::kRankLost && RankLostCall()) RankLostCall()();
  // Names in a file may be as long as the file.
  constexpr size_t kMax = 4096, kEnd = 1024;
  std::string message = error.message;
  if (message.size() > kMax) {
    const size_t cut = message.size() - kMax;
    message.replace(kMax - kEnd, cut,
                    StrCat(" [", cut, " bytes are left out here] "));
  }
  std::cerr << "stowage: " << WithoutControls(message) << std::endl;
  return ExitCodeOf(error.code);
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
    constexpr std::string_view kTag = "[bytes] ";
    std::string_view why = bytes.error().message;
    if (why.starts_with(kTag)) why.remove_prefix(kTag.size());
    return Error{bytes.error().code, StrCat("[", option, "] ", why)};
  }
  if (*bytes == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[", option,
                        "] the size is 0; give the most bytes "
                        "there are, such as 64MiB")};
  }
  const bool by_tens = text.ends_with('B') && !text.ends_with("iB") &&
                       text.find_first_of("kKMGT") != std::string::npos;
  if (by_tens) SetByteUnits(ByteUnits::kPowersOf1000);
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
  if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) {
    return fail(ErrorCode::kIo, "it is a device");
  }
  const auto too_large = [&](std::string_view bytes) {
    return fail(ErrorCode::kInvalidArgument,
                StrCat("it has ", bytes, " bytes; at most ", kMaxFileBytes,
                       " are read"));
  };
  if (info.st_size > kMaxFileBytes) return too_large(StrCat(info.st_size));
  // Opening a pipe without a writer would block forever.
  const FileDescriptor in(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (in.get() < 0) return fail(ErrorCode::kIo, std::strerror(errno));
  if (S_ISREG(info.st_mode)) STOWAGE_RETURN_IF_ERROR(NoteInput(path));
  pollfd readable = {.fd = in.get(), .events = POLLIN, .revents = 0};
  const bool is_silent =
      S_ISFIFO(info.st_mode) && ::poll(&readable, 1, kMomentMilliseconds) == 0;
  // Pipes have no size, and files may grow.
  constexpr size_t kChunk = 1 << 16;
  std::string contents(static_cast<size_t>(info.st_size) + kChunk, '\0');
  size_t size = 0;
  while (true) {
    const ssize_t got =
        ::read(in.get(), contents.data() + size, contents.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {  // there is a writer: wait for it
      ::fcntl(in.get(), F_SETFL, 0);
      continue;
    }
    if (got < 0) return fail(ErrorCode::kIo, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size > static_cast<size_t>(kMaxFileBytes)) {
      return too_large(StrCat("more than ", kMaxFileBytes));
    }
    if (size == contents.size()) contents.resize(2 * size);
  }
  if (is_silent && size == 0) {
    return fail(ErrorCode::kIo,
                "it is a pipe that nobody writes to; start its writer first");
  }
  contents.resize(size);
  return contents;
}

Result<std::string> ReadTextFile(const std::string& path) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  STOWAGE_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  return text;
}

Status WriteOutput(const std::string& path, std::string_view contents) {
  STOWAGE_ASSIGN_OR_RETURN(const Output output, Output::Open(path));
  return output.Write(contents);
}

}  // namespace stowage::tools
