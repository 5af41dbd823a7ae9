#include "base/memory.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/strings.h"

namespace stowage {
namespace {

// A machine's files below a folder of this test's own.
class Machine {
 public:
  explicit Machine(std::string_view name) {
    const char* const root = std::getenv("TEST_TMPDIR");
    root_ = StrCat(root == nullptr ? "/tmp" : root, "/", name);
    std::filesystem::remove_all(root_);
  }
  Machine& Write(const std::string& path, std::string_view content) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
    return *this;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

// 1,000,000 KiB in all, 600,000 available, 1,000 of swap free.
constexpr std::string_view kMeminfo =
    "MemTotal:        1000000 kB\n"
    "MemFree:          100000 kB\n"
    "MemAvailable:     600000 kB\n"
    "SwapTotal:          2000 kB\n"
    "SwapFree:           1000 kB\n";

TEST_CASE("without a cgroup what is left is what the machine has, and swap") {
  Machine machine("plain");
  machine.Write("/proc/meminfo", kMeminfo);
  const auto left = FindMemoryLeft(machine.root());
  REQUIRE(left.has_value());
  CHECK(left->bytes == Bytes{601000} * 1024);
  CHECK(left->of == "the machine's 976.6 MiB");
}

TEST_CASE(
    "a cgroup's limit counts, that of those around it too, its cache not") {
  Machine machine("version2");
  machine.Write("/proc/meminfo", kMeminfo)
      .Write("/proc/self/cgroup", "0::/outer/inner\n")
      .Write("/sys/fs/cgroup/outer/inner/memory.max", "max\n")
      .Write("/sys/fs/cgroup/outer/inner/memory.current", "5000\n")
      .Write("/sys/fs/cgroup/outer/memory.max", "262144000\n")
      .Write("/sys/fs/cgroup/outer/memory.current", "100000000\n")
      .Write("/sys/fs/cgroup/outer/memory.stat",
             "anon 60000000\ninactive_file 30000000\nactive_file 10000000\n");
  const auto left = FindMemoryLeft(machine.root());
  REQUIRE(left.has_value());
  CHECK(left->bytes == 262144000 - 60000000);
  CHECK(left->of == "the 250.0 MiB of its cgroup");
  const Status status =
      CheckMemory("an arena", Bytes{300} << 20, machine.root());
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kDevice);
  CHECK(status.error().message ==
        "[memory] an arena takes 300.0 MiB (314572800 bytes) and 192.8 MiB "
        "(202144000 bytes) are left of the 250.0 MiB of its cgroup; the "
        "process would be killed");
  CHECK(CheckMemory("an arena", 202144000, machine.root()).ok());
}

TEST_CASE(
    "cgroups of version 1 are read, by the mount where paths are others'") {
  Machine machine("version1");
  machine.Write("/proc/meminfo", kMeminfo)
      .Write("/proc/self/cgroup",
             "5:devices:/\n4:cpu,memory:/docker/abc\n1:name=systemd:/\n0::/\n")
      .Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n")
      .Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "94857600\n")
      .Write("/sys/fs/cgroup/memory/memory.stat",
             "total_inactive_file 1000000\ntotal_active_file 2000000\n");
  const auto left = FindMemoryLeft(machine.root());
  REQUIRE(left.has_value());
  CHECK(left->bytes == 13000000);
}

TEST_CASE("files that say nothing sensible are no limit") {
  Machine machine("nonsense");
  CHECK_FALSE(FindMemoryLeft(machine.root()).has_value());
  CHECK(CheckMemory("an arena", Bytes{1} << 60, machine.root()).ok());
  machine.Write("/proc/meminfo", "MemAvailable: much\n")
      .Write("/proc/self/cgroup", "\n:\n::\n0::\n0::relative\nmemory\n")
      .Write("/sys/fs/cgroup/memory.max", "-1\n")
      .Write("/sys/fs/cgroup/memory.current", "1\n");
  CHECK_FALSE(FindMemoryLeft(machine.root()).has_value());
}

TEST_CASE("the smallest limit of the cgroups is found, and which file has it") {
  Machine version2("limit2");
  version2.Write("/proc/self/cgroup", "0::/outer/inner\n")
      .Write("/sys/fs/cgroup/outer/inner/memory.max", "max\n")
      .Write("/sys/fs/cgroup/outer/memory.max", "262144000\n")
      .Write("/sys/fs/cgroup/memory.max", "362144000\n");
  auto limit = FindCgroupLimit(version2.root());
  REQUIRE(limit.has_value());
  CHECK(limit->bytes == 262144000);
  CHECK(limit->file == version2.root() + "/sys/fs/cgroup/outer/memory.max");

  // Version 1 calls no limit 2^63 less a page.
  Machine version1("limit1");
  version1.Write("/proc/self/cgroup", "4:memory:/jobs\n0::/\n")
      .Write("/sys/fs/cgroup/memory/memory.limit_in_bytes",
             "9223372036854771712\n");
  CHECK_FALSE(FindCgroupLimit(version1.root()).has_value());
  version1.Write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
                 "104857600\n");
  limit = FindCgroupLimit(version1.root());
  REQUIRE(limit.has_value());
  CHECK(limit->bytes == 104857600);
  CHECK_FALSE(FindCgroupLimit(Machine("limit0").root()).has_value());
}

}  // namespace
}  // namespace stowage
