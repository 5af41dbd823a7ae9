#include "train/plan_cache.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::NewFolder;
using testing::ReadAll;

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    paths.push_back(entry.path().string());
  }
  return paths;
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// The file of the only entry that is stored in `folder` now.
std::string StoreOne(const std::string& folder, const std::string& key,
                     const std::string& content) {
  fs::remove_all(folder);
  REQUIRE(PlanCache(folder).Store(key, content).ok());
  const std::vector<std::string> files = FilesOf(folder);
  REQUIRE(files.size() == 1);
  return files.front();
}

// What another cache than the one that wrote says.
void CheckRefused(const std::string& folder, const std::string& key,
                  std::string_view why) {
  const PlanCache::Lookup found = PlanCache(folder).Find(key);
  CHECK_FALSE(found.content.has_value());
  CHECK(found.note.starts_with("[plan cache] \""));
  CHECK_MESSAGE(found.note.find(why) != std::string::npos, found.note);
  CHECK(found.note.ends_with("; it is planned anew"));
}

TEST_CASE("what was not stored is not found, and nothing is said") {
  for (const std::string& folder : {std::string(), NewFolder("plan_cache")}) {
    PlanCache cache(folder);
    REQUIRE(cache.Store("one", "1").ok());
    const PlanCache::Lookup found = cache.Find("another");
    CHECK_FALSE(found.content.has_value());
    CHECK(found.note.empty());
  }
}

TEST_CASE("what was stored is found in memory, by copies too") {
  PlanCache cache;
  const PlanCache copy = cache;
  REQUIRE(cache.Store("key", "content").ok());
  CHECK(cache.Find("key").content == "content");
  CHECK(copy.Find("key").content == "content");
  CHECK_FALSE(PlanCache().Find("key").content.has_value());
}

TEST_CASE("what is in memory outlives the folder") {
  const std::string folder = NewFolder("plan_cache");
  PlanCache cache(folder);
  REQUIRE(cache.Store("key", "content").ok());
  fs::remove_all(folder);
  CHECK(cache.Find("key").content == "content");
  CHECK_FALSE(PlanCache(folder).Find("key").content.has_value());
}

TEST_CASE("what is forgotten is in the folder alone, for copies too") {
  const std::string folder = NewFolder("plan_cache");
  PlanCache cache(folder), in_memory;
  const PlanCache copy = cache;
  REQUIRE(cache.Store("key", "content").ok());
  REQUIRE(in_memory.Store("key", "content").ok());
  cache.Forget();
  in_memory.Forget();
  CHECK(copy.Find("key").content == "content");
  CHECK_FALSE(in_memory.Find("key").content.has_value());
  copy.Forget();
  fs::remove_all(folder);
  CHECK_FALSE(cache.Find("key").content.has_value());
}

TEST_CASE("another cache finds it in the folder, whatever bytes it is of") {
  const std::string folder = NewFolder("plan_cache");
  const std::string key("k\n\0y", 4), content("\n\0\xff\r\n", 5);
  REQUIRE(PlanCache(folder).Store(key, content).ok());
  REQUIRE(PlanCache(folder).Store("empty", "").ok());
  CHECK(PlanCache(folder).Find(key).content == content);
  CHECK(PlanCache(folder).Find("empty").content == "");
}

TEST_CASE("what is stored again replaces what was") {
  const std::string folder = NewFolder("plan_cache");
  PlanCache cache(folder);
  REQUIRE(cache.Store("key", "old").ok());
  REQUIRE(cache.Store("key", "new").ok());
  CHECK(cache.Find("key").content == "new");
  CHECK(PlanCache(folder).Find("key").content == "new");
  CHECK(FilesOf(folder).size() == 1);
}

TEST_CASE("an entry that is cut short is refused, wherever it is cut") {
  const std::string folder = NewFolder("plan_cache");
  const std::string path = StoreOne(folder, "the key", "the content");
  const std::string bytes = ReadAll(path);
  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    WriteAll(path, bytes.substr(0, size));
    CheckRefused(folder, "the key", "");
  }
  WriteAll(path, bytes.substr(0, bytes.size() - 1));
  CheckRefused(folder, "the key", "is damaged: it is not as long as it says");
  WriteAll(path, bytes + "x");
  CheckRefused(folder, "the key", "is damaged: it is not as long as it says");
}

TEST_CASE("an entry with one bit flipped is refused, whichever it is") {
  const std::string folder = NewFolder("plan_cache");
  const std::string path = StoreOne(folder, "the key", "the content");
  const std::string bytes = ReadAll(path);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    WriteAll(path, flipped);
    CheckRefused(folder, "the key", "");
  }
  std::string flipped = bytes;
  flipped.back() ^= 1;
  WriteAll(path, flipped);
  CheckRefused(folder, "the key", "is damaged: its digest is not what it says");
  WriteAll(path, "stowage-plan-cache 1 7 11 0\nthe keythe content");
  CheckRefused(folder, "the key",
               "is no entry of a plan cache of this version");
}

TEST_CASE(
    "a whole entry of another key under the name of this one is refused") {
  const std::string folder = NewFolder("plan_cache");
  const std::string foreign = ReadAll(StoreOne(folder, "one", "of one"));
  const std::string path = StoreOne(folder, "two", "of two");
  WriteAll(path, foreign);
  CheckRefused(folder, "two", "is of another plan");
}

TEST_CASE("what was refused and is stored again is found again") {
  const std::string folder = NewFolder("plan_cache");
  WriteAll(StoreOne(folder, "key", "old"), "damaged");
  PlanCache cache(folder);
  CHECK_FALSE(cache.Find("key").content.has_value());
  REQUIRE(cache.Store("key", "new").ok());
  CHECK(PlanCache(folder).Find("key").content == "new");
}

// A file stands where the folder would be: so not even root can write it.
TEST_CASE("a folder that cannot be made is an error, and memory goes on") {
  const std::string file = NewFolder("plan_cache");
  WriteAll(file, "a file");
  PlanCache cache(file + "/folder");
  const Status stored = cache.Store("key", "content");
  REQUIRE_FALSE(stored.ok());
  CHECK(stored.error().code == ErrorCode::kIo);
  CHECK(stored.error().message.starts_with(StrCat(
      "[plan cache] cannot make the folder ", Quoted(file + "/folder"), ": ")));
  CHECK(cache.Find("key").content == "content");
}

TEST_CASE(
    "an entry that cannot be put in its place is an error, and leaves none") {
  const std::string folder = NewFolder("plan_cache");
  const std::string path = StoreOne(folder, "key", "content");
  fs::remove(path);
  fs::create_directories(path + "/in the way");
  PlanCache cache(folder);
  const Status stored = cache.Store("key", "content");
  REQUIRE_FALSE(stored.ok());
  CHECK(stored.error().code == ErrorCode::kIo);
  CHECK(stored.error().message.starts_with(
      StrCat("[plan cache] cannot write ", Quoted(path), ": ")));
  CHECK(cache.Find("key").content == "content");
  CHECK(FilesOf(folder) == std::vector{path});
}

TEST_CASE("caches that write one key at once leave a whole entry, always") {
  const std::string folder = NewFolder("plan_cache");
  const std::string contents[] = {std::string(300000, 'a'),
                                  std::string(200000, 'b')};
  std::atomic<bool> failed = false;
  std::vector<std::thread> writers;
  for (const std::string& content : contents) {
    writers.emplace_back([&folder, &content, &failed] {
      PlanCache cache(folder);
      for (int i = 0; i < 50; ++i) {
        if (!cache.Store("key", content).ok()) failed = true;
      }
    });
  }
  // And so it is for who reads meanwhile, once there is an entry.
  bool found_before = false;
  for (int i = 0; i < 50; ++i) {
    const PlanCache::Lookup found = PlanCache(folder).Find("key");
    CHECK(found.note == "");
    if (!found.content) {
      CHECK_FALSE(found_before);
      continue;
    }
    found_before = true;
    CHECK((*found.content == contents[0] || *found.content == contents[1]));
  }
  for (std::thread& writer : writers) writer.join();
  CHECK_FALSE(failed);
  const PlanCache::Lookup last = PlanCache(folder).Find("key");
  REQUIRE(last.content.has_value());
  CHECK((*last.content == contents[0] || *last.content == contents[1]));
  CHECK(FilesOf(folder).size() == 1);
}

TEST_CASE("the folder is XDG's, else under the home, else none") {
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  ::setenv("HOME", "/h", 1);
  CHECK(DefaultPlanCacheFolder() == "/x/stowage");
  ::setenv("XDG_CACHE_HOME", "", 1);
  CHECK(DefaultPlanCacheFolder() == "/h/.cache/stowage");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  CHECK(DefaultPlanCacheFolder() == "");
}

}  // namespace
}  // namespace stowage
