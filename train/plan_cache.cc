#include "train/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/strings.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

// The first line: "stowage-plan-cache 2 <bytes of key> <bytes of content>
// <digest of both>"; then the key, and the content.
constexpr std::string_view kMagic = "stowage-plan-cache 2 ";

std::string Hex(uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16);
  return std::string(digits, end.ptr);
}

uint64_t DigestOf(std::string_view key, std::string_view content) {
  return Xxh64(content, Xxh64(key));
}

std::string HeaderOf(std::string_view key, std::string_view content) {
  return StrCat(kMagic, key.size(), " ", content.size(), " ",
                Hex(DigestOf(key, content)), "\n");
}

}  // namespace

struct PlanCache::Memory {
  std::map<std::string, std::string, std::less<>> entries;
};

std::string_view CacheUseName(CacheUse use) {
  switch (use) {
    case CacheUse::kOff:
      return "off";
    case CacheUse::kMiss:
      return "miss";
    case CacheUse::kHit:
      return "hit";
  }
  STOWAGE_CHECK(false);
}

PlanCache::PlanCache(std::string folder)
    : folder_(std::move(folder)), memory_(std::make_shared<Memory>()) {}

std::string PlanCache::PathOf(std::string_view key) const {
  return (fs::path(folder_) / StrCat(Hex(DigestOf(key, "")), ".stowage"))
      .string();
}

PlanCache::Lookup PlanCache::Find(std::string_view key) const {
  const auto known = memory_->entries.find(key);
  if (known != memory_->entries.end()) return {.content = known->second};
  if (folder_.empty()) return {};
  const std::string path = PathOf(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const auto refuse = [&](std::string_view why) {
    return Lookup{.note = StrCat("[plan cache] ", Quoted(path), " ", why,
                                 "; it is planned anew")};
  };
  std::string header;
  std::getline(file, header);
  uint64_t key_bytes = 0, content_bytes = 0;
  const char* at = header.data() + std::min(header.size(), kMagic.size());
  const char* const end = header.data() + header.size();
  const auto read = [&](uint64_t* number) {
    const auto parsed = std::from_chars(at, end, *number);
    at = parsed.ptr == end ? end : parsed.ptr + 1;
    return parsed.ec == std::errc();
  };
  if (!header.starts_with(kMagic) || !read(&key_bytes) ||
      !read(&content_bytes)) {
    return refuse("is no entry of a plan cache of this version");
  }
  // No more is read than there is, whatever the header says; of the file that was
  // opened, since another may be put in its place.
  const std::streamoff start = file.tellg();
  file.seekg(0, std::ios::end);
  const std::streamoff end_of_file = file.tellg();
  file.seekg(start);
  const uint64_t rest = file && end_of_file >= start
                            ? static_cast<uint64_t>(end_of_file - start)
                            : 0;
  if (key_bytes > rest || content_bytes != rest - key_bytes) {
    return refuse("is damaged: it is not as long as it says");
  }
  std::string its_key(key_bytes, '\0'), content(content_bytes, '\0');
  file.read(its_key.data(), static_cast<std::streamsize>(key_bytes));
  file.read(content.data(), static_cast<std::streamsize>(content_bytes));
  if (!file) return refuse("cannot be read");
  if (HeaderOf(its_key, content) != header + "\n") {
    return refuse("is damaged: its digest is not what it says");
  }
  if (its_key != key) return refuse("is of another plan");
  memory_->entries[std::move(its_key)] = content;
  return {.content = std::move(content)};
}

Status PlanCache::Store(std::string_view key, std::string content) {
  const std::string& kept = memory_->entries[std::string(key)] =
      std::move(content);
  if (folder_.empty()) return {};
  const auto fail = [&](std::string_view what, const std::string& path,
                        const std::string& why) {
    return Error{ErrorCode::kIo, StrCat("[plan cache] cannot ", what, " ",
                                        Quoted(path), ": ", why)};
  };
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return fail("make the folder", folder_, error.message());
  const std::string path = PathOf(key);
  // A file of its own for every writer, of this process or another.
  static std::atomic<uint64_t> count = 0;
  const std::string written =
      StrCat(path, ".", ::getpid(), ".", ++count, ".new");
  {
    std::ofstream file(written, std::ios::binary | std::ios::trunc);
    file << HeaderOf(key, kept) << key << kept;
    file.close();
    if (!file) {
      const std::string why = std::strerror(errno);
      fs::remove(written, error);
      return fail("write", written, why);
    }
  }
  fs::rename(written, path, error);
  if (!error) return {};
  const std::string why = error.message();
  fs::remove(written, error);
  return fail("write", path, why);
}

void PlanCache::Forget() const { memory_->entries.clear(); }

std::string DefaultPlanCacheFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return StrCat(cache, "/stowage");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return StrCat(home, "/.cache/stowage");
  return {};
}

}  // namespace stowage
