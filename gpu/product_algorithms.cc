#include "gpu/product_algorithms.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/read_file.h"
#include "base/strings.h"

namespace stowage::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader = "stowage products 1\n";

constexpr int kRounds = 5;
constexpr double kGain = 0.98;  // of the best time before, for a later one

// "NVIDIA H100 80GB HBM3" as a part of a file's name.
std::string NamePart(std::string_view text) {
  std::string part;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || part.empty() || part.back() != '-') part += plain ? c : '-';
  }
  return part;
}

template <typename Numbers>
bool ReadNumbers(std::string_view* line, int base, Numbers* numbers) {
  for (auto& number : *numbers) {
    const auto [end, error] = std::from_chars(
        line->data(), line->data() + line->size(), number, base);
    if (error != std::errc()) return false;
    line->remove_prefix(static_cast<size_t>(end - line->data()));
    if (line->empty() || line->front() != ' ') return false;
    line->remove_prefix(1);
  }
  return true;
}

// A line ends in ";", so that none is a beginning of another.
bool ReadLine(std::string_view line, ProductKey* key,
              ProductAlgorithm* algorithm) {
  return ReadNumbers(&line, 10, key) && ReadNumbers(&line, 16, algorithm) &&
         line == ";";
}

std::string LineOf(const ProductKey& key, const ProductAlgorithm& algorithm) {
  std::string line;
  for (const int64_t number : key) line += StrCat(number, " ");
  for (const uint64_t word : algorithm) {
    char digits[16];
    const auto [end, error] =
        std::to_chars(digits, digits + sizeof(digits), word, 16);
    STOWAGE_CHECK(error == std::errc());
    line.append(digits, end).append(" ");
  }
  return line + ";\n";
}

Error Io(std::string_view what, const std::string& path) {
  return {ErrorCode::kIo, StrCat("[gpu] cannot ", what, " ", Quoted(path), ": ",
                                 std::strerror(errno))};
}

// A file that is open and locked, for as long as this lives.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    int locked = file_ < 0 ? -1 : 0;
    while (file_ >= 0 && (locked = flock(file_, LOCK_EX)) != 0) {
      if (errno != EINTR) break;
    }
    ok_ = locked == 0;
  }
  ~LockedFile() {
    if (file_ >= 0) close(file_);
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  bool ok() const { return ok_; }  // else errno says why

  // Writes `text` at `at`, where the file ends from then on. False: see errno.
  bool EndWith(size_t at, std::string_view text) const {
    if (ftruncate(file_, static_cast<off_t>(at)) != 0) return false;
    while (!text.empty()) {
      const ssize_t written =
          pwrite(file_, text.data(), text.size(), static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<size_t>(written));
      at += static_cast<size_t>(written);
    }
    return fsync(file_) == 0;
  }

 private:
  int file_;
  bool ok_ = false;
};

}  // namespace

Result<size_t> ProductAlgorithms::Read(std::string_view text) {
  const size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  const auto damaged = [&](size_t line) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[gpu] ", Quoted(path_), " is damaged at line ", line,
               "; it says by which algorithms products are computed: put it "
               "back from a copy, or remove it to have them timed again, which "
               "may change the last bits of results")};
  };
  if (whole == 0) return size_t{0};
  std::string_view rest = text.substr(0, whole);
  if (!rest.starts_with(kHeader)) return damaged(1);
  rest.remove_prefix(kHeader.size());
  for (size_t line = 2; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    ProductKey key;
    ProductAlgorithm algorithm;
    if (!ReadLine(rest.substr(0, end), &key, &algorithm)) return damaged(line);
    kept_.emplace(key, algorithm);
    rest.remove_prefix(end + 1);
  }
  return whole;
}

Result<ProductAlgorithms> ProductAlgorithms::Open(const std::string& folder,
                                                  std::string_view device,
                                                  std::string_view library) {
  ProductAlgorithms algorithms;
  algorithms.path_ = (fs::path(folder) / StrCat("products-", NamePart(device),
                                                "-", NamePart(library), ".txt"))
                         .string();
  std::error_code ignored;
  if (!fs::exists(algorithms.path_, ignored)) return algorithms;
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(algorithms.path_));
  STOWAGE_RETURN_IF_ERROR(algorithms.Read(text));
  return algorithms;
}

std::optional<ProductAlgorithm> ProductAlgorithms::Find(
    const ProductKey& key) const {
  const auto found = kept_.find(key);
  if (found == kept_.end()) return std::nullopt;
  return found->second;
}

Result<ProductAlgorithm> ProductAlgorithms::Keep(
    const ProductKey& key, const ProductAlgorithm& algorithm) {
  std::error_code made;
  fs::create_directories(fs::path(path_).parent_path(), made);
  const LockedFile file(path_);
  if (!file.ok()) return Io("open and lock", path_);
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_));
  STOWAGE_ASSIGN_OR_RETURN(const size_t whole, Read(text));
  const auto [kept, added] = kept_.emplace(key, algorithm);
  if (!added) return kept->second;
  const std::string line = LineOf(key, algorithm);
  if (!file.EndWith(whole, whole == 0 ? StrCat(kHeader, line) : line)) {
    return Io("write", path_);
  }
  return algorithm;
}

Result<size_t> ChooseFastest(
    size_t count, const std::function<Result<double>(size_t)>& seconds) {
  STOWAGE_CHECK(count > 0);
  std::vector<double> best(count, std::numeric_limits<double>::infinity());
  std::vector<size_t> sound;
  std::optional<Error> failed;
  for (size_t i = 0; i < count; ++i) {
    const Result<double> run = seconds(i);
    if (run.ok()) sound.push_back(i);
    if (!run.ok() && !failed) failed = run.error();
  }
  if (sound.empty()) return *failed;
  for (int round = 0; round < kRounds; ++round) {
    for (const size_t i : sound) {
      STOWAGE_ASSIGN_OR_RETURN(const double time, seconds(i));
      best[i] = std::min(best[i], time);
    }
  }
  size_t fastest = sound.front();
  for (const size_t i : sound) {
    if (best[i] < kGain * best[fastest]) fastest = i;
  }
  return fastest;
}

}  // namespace stowage::gpu
