#include "runtime/host_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::EmptyFolder;

std::vector<std::byte> Pattern(size_t count, unsigned first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((first + 31 * i) % 251);
  }
  return bytes;
}

// The descriptor of the file without a name in `folder`, found as the system lists it.
int DescriptorOf(const std::string& folder) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (!error && target.string().starts_with(folder + "/")) {
      return std::stoi(entry.path().filename().string());
    }
  }
  return -1;
}

TEST_CASE("a file of host memory gives back what was written, in any parts") {
  const std::string folder = EmptyFolder("parts");
  constexpr Bytes kBytes = 300'000;
  auto file = HostFile::Create(folder, kBytes, 256);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  HostFile& host = **file;
  std::vector<std::byte> expected(kBytes);  // zeros, as the file begins
  unsigned next = 1;
  const struct {
    Bytes at, count;
  } parts[] = {{0, 1},           {65'535, 2},  {65'536, 65'536}, {256, 200'000},
               {131'000, 1'000}, {299'999, 1}, {60'000, 150'000}};
  for (const auto& [at, count] : parts) {
    const auto bytes = Pattern(static_cast<size_t>(count), next++);
    REQUIRE(host.Write(host.base() + at, bytes));
    std::memcpy(expected.data() + at, bytes.data(), bytes.size());
    for (const auto& [from, length] : parts) {
      std::vector<std::byte> read(static_cast<size_t>(length));
      REQUIRE(host.Read(host.base() + from, read));
      CHECK(std::memcmp(read.data(), expected.data() + from, read.size()) == 0);
    }
  }
  REQUIRE(host.Fill(host.base() + 100, 100'000, 0xFF));
  std::memset(expected.data() + 100, 0xFF, 100'000);
  std::vector<std::byte> all(kBytes);
  REQUIRE(host.Read(host.base(), all));
  CHECK(all == expected);
  CHECK(host.failure() == "");
  CHECK(reinterpret_cast<uintptr_t>(host.base()) % 256 == 0);
  CHECK(host.Contains(host.base() + kBytes - 1));
  CHECK_FALSE(host.Contains(host.base() - 1));
  CHECK(std::filesystem::is_empty(folder));  // it has no name
}

TEST_CASE("bytes that are not those that were written are no values") {
  const std::string folder = EmptyFolder("digests");
  auto file = HostFile::Create(folder, 200'000, 256);
  REQUIRE(file.ok());
  HostFile& host = **file;
  REQUIRE(host.Write(host.base(), Pattern(200'000, 5)));
  const int descriptor = DescriptorOf(folder);
  REQUIRE(descriptor >= 0);
  const char other = 'x';
  REQUIRE(pwrite(descriptor, &other, 1, 100'000) == 1);
  std::vector<std::byte> part(10);
  CHECK(host.Read(host.base() + 10, part));  // of another block
  CHECK_FALSE(host.Read(host.base() + 100'100, part));
  const std::string why =
      StrCat("[offload] reading byte 98304 of the file of offloaded values in ",
             Quoted(folder),
             " failed: the bytes are not those that were written; what is in "
             "the last checkpoint is whole");
  CHECK(host.failure() == why);
  CHECK_FALSE(host.Read(host.base() + 10, part));  // it has failed for good
  CHECK_FALSE(host.Write(host.base() + 10, part));
  CHECK(host.failure() == why);
}

TEST_CASE("a file that was cut short, or cannot be written, is named") {
  const std::string folder = EmptyFolder("short");
  std::vector<std::byte> part(10);
  {
    auto file = HostFile::Create(folder, 200'000, 256);
    REQUIRE(file.ok());
    REQUIRE(ftruncate(DescriptorOf(folder), 70'000) == 0);
    CHECK_FALSE((*file)->Read((*file)->base() + 70'000, part));
    CHECK((*file)->failure().find("reading byte 70000 of the file") !=
          std::string::npos);
    CHECK((*file)->failure().find("No data available") != std::string::npos);
  }
  auto file = HostFile::Create(folder, 200'000, 256);
  REQUIRE(file.ok());
  const int descriptor = DescriptorOf(folder);
  const int read_only = open("/dev/null", O_RDONLY);
  REQUIRE(dup2(read_only, descriptor) == descriptor);
  close(read_only);
  CHECK_FALSE((*file)->Write((*file)->base(), Pattern(65'536, 1)));
  CHECK((*file)->failure().find("writing byte 0 of the file") !=
        std::string::npos);
  CHECK((*file)->failure().find("Bad file descriptor") != std::string::npos);
}

TEST_CASE("a disk without room is refused when the file is made") {
  const std::string folder = EmptyFolder("full");
  // The largest file that this process may write stands for the disk.
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto file = HostFile::Create(folder, 2 << 20, 256);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().code == ErrorCode::kIo);
  CHECK(file.error().message.find(
            "2.0 MiB (2097152 bytes) for offloaded values cannot be allocated "
            "in ") != std::string::npos);
  CHECK(file.error().message.find(" bytes are free there; give another folder "
                                  "by --offload-dir") != std::string::npos);
  CHECK(std::filesystem::is_empty(folder));

  const auto nowhere = HostFile::Create(folder + "/none", 4096, 256);
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message ==
        StrCat("[offload] no file for offloaded values can be made in ",
               Quoted(folder + "/none"),
               ": No such file or directory; give a folder that can be written "
               "by --offload-dir"));
}

}  // namespace
}  // namespace stowage
