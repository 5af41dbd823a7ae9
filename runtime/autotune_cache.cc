#include "runtime/autotune_cache.h"

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
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage {

namespace {

namespace fs = std::filesystem;

// "NVIDIA H100 80GB HBM3" in the form for a file's name.
std::string NamePart(std::string_view text) {
  std::string part;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || part.empty() || part.back() != '-') part += plain ? c : '-';
  }
  return part;
}

template <typename Number>
bool ReadNumbers(std::string_view* line, int base,
                 std::vector<Number>* numbers) {
  for (Number& number : *numbers) {
    const auto [end, error] = std::from_chars(
        line->data(), line->data() + line->size(), number, base);
    if (error != std::errc()) return false;
    line->remove_prefix(static_cast<size_t>(end - line->data()));
    if (line->empty() || line->front() != ' ') return false;
    line->remove_prefix(1);
  }
  return true;
}

// A line ends in ";", so that no line is a prefix of another.
bool ReadLine(std::string_view line, AutotuneCache::Key* key,
              AutotuneCache::Choice* choice) {
  return ReadNumbers(&line, 10, key) && ReadNumbers(&line, 16, choice) &&
         line == ";";
}

std::string LineOf(const AutotuneCache::Key& key,
                   const AutotuneCache::Choice& choice) {
  std::string line;
  for (const int64_t number : key) line += StrCat(number, " ");
  for (const uint64_t word : choice) {
    char digits[16];
    const auto [end, error] =
        std::to_chars(digits, digits + sizeof(digits), word, 16);
    STOWAGE_CHECK(error == std::errc());
    line.append(digits, end).append(" ");
  }
  return line + ";\n";
}

// A file that is open and locked for the lifetime of this object.
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

  // Writes `text` at `at` and truncates the file behind it. On failure returns false and
  // sets errno.
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

std::string AutotuneCache::Header() const {
  return StrCat("stowage ", kind_.name, " 1\n");
}

Error AutotuneCache::Io(std::string_view what) const {
  return {ErrorCode::kIo, StrCat("[", kind_.room, "] cannot ", what, " ",
                                 Quoted(path_), ": ", std::strerror(errno))};
}

Result<size_t> AutotuneCache::Read(std::string_view text) {
  const size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  const auto damaged = [&](size_t line) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[", kind_.room, "] ", Quoted(path_), " is damaged at line ",
               line, "; it says ", kind_.says,
               ": put it back from a copy, or remove it to have them timed "
               "again, which ",
               kind_.shows_in_bits ? "may change the last bits of results"
                                   : "changes no bit of a result")};
  };
  if (whole == 0) return size_t{0};
  std::string_view rest = text.substr(0, whole);
  const std::string header = Header();
  if (!rest.starts_with(header)) return damaged(1);
  rest.remove_prefix(header.size());
  for (size_t line = 2; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    Key key(kind_.key_numbers);
    Choice choice(kind_.choice_words);
    if (!ReadLine(rest.substr(0, end), &key, &choice)) return damaged(line);
    kept_.emplace(std::move(key), std::move(choice));
    rest.remove_prefix(end + 1);
  }
  return whole;
}

Result<AutotuneCache> AutotuneCache::Open(
    const std::string& folder, const ChoicesKind& kind,
    std::initializer_list<std::string_view> of) {
  AutotuneCache choices(kind);
  std::string name(kind.name);
  for (const std::string_view part : of) name += StrCat("-", NamePart(part));
  choices.path_ = (fs::path(folder) / (name + ".txt")).string();
  std::error_code ignored;
  if (!fs::exists(choices.path_, ignored)) return choices;
  STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                           ReadFile(choices.path_, FileUse::kOwn));
  STOWAGE_RETURN_IF_ERROR(choices.Read(text));
  return choices;
}

const AutotuneCache::Choice* AutotuneCache::Find(const Key& key) const {
  const auto found = kept_.find(key);
  return found == kept_.end() ? nullptr : &found->second;
}

Result<AutotuneCache::Choice> AutotuneCache::Keep(const Key& key,
                                                  const Choice& choice) {
  STOWAGE_CHECK(key.size() == kind_.key_numbers);
  STOWAGE_CHECK(choice.size() == kind_.choice_words);
  std::error_code made;
  fs::create_directories(fs::path(path_).parent_path(), made);
  const LockedFile file(path_);
  if (!file.ok()) return Io("open and lock");
  STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                           ReadFile(path_, FileUse::kOwn));
  STOWAGE_ASSIGN_OR_RETURN(const size_t whole, Read(text));
  const auto [kept, added] = kept_.emplace(key, choice);
  if (!added) return kept->second;
  const std::string line = LineOf(key, choice);
  if (!file.EndWith(whole, whole == 0 ? StrCat(Header(), line) : line)) {
    return Io("write");
  }
  return choice;
}

namespace {

constexpr int kRounds = 5;
constexpr double kGain = 0.98;  // of the best time before, for a later one

}  // namespace

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

}  // namespace stowage
