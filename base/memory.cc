#include "base/memory.h"

#if defined(__linux__)
#include <malloc.h>
#endif

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/strings.h"

namespace stowage {
namespace {

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {};
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<Bytes> ParseCount(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  Bytes count = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), count);
  if (parsed.ec != std::errc() || count < 0) return std::nullopt;
  return count;
}

// The number after `key` at the start of a line.
std::optional<Bytes> Find(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with(key)) {
      return ParseCount(text.substr(key.size(), end - key.size()));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

// The names of a cgroup's files, by version.
struct CgroupNames {
  std::string_view limit, usage, cache[2];
};
constexpr CgroupNames kVersion1 = {
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    {"total_inactive_file ", "total_active_file "}};
constexpr CgroupNames kVersion2 = {
    "memory.max", "memory.current", {"inactive_file ", "active_file "}};

// The remainder of a cgroup's limit; absent without a limit.
std::optional<MemoryLeft> LeftOf(const std::string& folder,
                                 const CgroupNames& names) {
  const auto limit =
      ParseCount(ReadSmallFile(StrCat(folder, "/", names.limit)));
  const auto usage =
      ParseCount(ReadSmallFile(StrCat(folder, "/", names.usage)));
  if (!limit || !usage) return std::nullopt;
  const std::string stat = ReadSmallFile(folder + "/memory.stat");
  Bytes used = *usage;
  for (const std::string_view cache : names.cache) {
    used -= Find(stat, cache).value_or(0);
  }
  return MemoryLeft{std::max<Bytes>(0, *limit - std::max<Bytes>(0, used)),
                    StrCat("the ", FormatBytes(*limit), " of its cgroup")};
}

void TakeLess(std::optional<MemoryLeft>* least,
              std::optional<MemoryLeft> other) {
  if (!other) return;
  if (!*least || other->bytes < (*least)->bytes) *least = std::move(other);
}

// Returns whether `name` is among the comma-separated `names`.
bool Lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

// Calls `visit` with the folder and file names of each memory cgroup of this process and of
// their ancestors. In a container the path may be the host's; then only the mount exists.
template <typename Visit>
void VisitCgroups(const std::string& root, const Visit& visit) {
  const auto visit_all = [&](const std::string& mount, std::string path,
                             const CgroupNames& names) {
    while (!path.empty() && path != "/") {
      visit(mount + path, names);
      path.resize(path.rfind('/'));
    }
    visit(mount, names);
  };
  // Lines of "number:controllers:path"; in version 2 "0::path".
  const std::string groups = ReadSmallFile(root + "/proc/self/cgroup");
  std::string_view rest = groups;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t first = line.find(':');
    const size_t second = line.find(':', std::min(first, line.size() - 1) + 1);
    if (second >= line.size()) continue;
    const std::string_view controllers =
        line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (!path.starts_with('/')) continue;
    if (controllers.empty()) {
      visit_all(root + "/sys/fs/cgroup", path, kVersion2);
    } else if (Lists(controllers, "memory")) {
      visit_all(root + "/sys/fs/cgroup/memory", path, kVersion1);
    }
  }
}

}  // namespace

std::optional<MemoryLeft> FindMemoryLeft(const std::string& root) {
  std::optional<MemoryLeft> least;
  const std::string machine = ReadSmallFile(root + "/proc/meminfo");
  if (const auto available = Find(machine, "MemAvailable:")) {
    const Bytes swap = Find(machine, "SwapFree:").value_or(0);
    const Bytes total = Find(machine, "MemTotal:").value_or(*available);
    least = MemoryLeft{(*available + swap) * 1024,
                       StrCat("the machine's ", FormatBytes(total * 1024))};
  }
  VisitCgroups(root, [&](const std::string& folder, const CgroupNames& names) {
    TakeLess(&least, LeftOf(folder, names));
  });
  return least;
}

std::optional<CgroupLimit> FindCgroupLimit(const std::string& root) {
  // Version 1 reports an unset limit as the largest multiple of a page.
  constexpr Bytes kUnlimited = Bytes{1} << 62;
  std::optional<CgroupLimit> least;
  VisitCgroups(root, [&](const std::string& folder, const CgroupNames& names) {
    const std::string file = StrCat(folder, "/", names.limit);
    const auto limit = ParseCount(ReadSmallFile(file));
    if (!limit || *limit >= kUnlimited) return;
    if (!least || *limit < least->bytes) least = CgroupLimit{*limit, file};
  });
  return least;
}

void ReturnFreeMemory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

void KeepLargeBlocksApart() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
#endif
}

Status CheckMemory(std::string_view what, Bytes bytes,
                   const std::string& root) {
  if (bytes < (1 << 20)) return {};
  const std::optional<MemoryLeft> left = FindMemoryLeft(root);
  if (!left || bytes <= left->bytes) return {};
  return Error{ErrorCode::kDevice,
               StrCat("[memory] ", what, " takes ", FormatBytes(bytes), " (",
                      bytes, " bytes) and ", FormatBytes(left->bytes), " (",
                      left->bytes, " bytes) are left of ", left->of,
                      "; the process would be killed")};
}

}  // namespace stowage
