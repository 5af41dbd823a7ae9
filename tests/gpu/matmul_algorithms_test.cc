#include "gpu/matmul_algorithms.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "tests/support/files.h"

namespace stowage::gpu {
namespace {

using testing::NewFolder;
using testing::ReadAll;

namespace fs = std::filesystem;

MatMulAlgorithms Opened(const std::string& folder,
                        std::string_view device = "NVIDIA H100 80GB HBM3",
                        std::string_view library = "cuBLASLt 130100") {
  auto algorithms = MatMulAlgorithms::Open(folder, device, library);
  REQUIRE_MESSAGE(algorithms.ok(), algorithms.error().message);
  return *std::move(algorithms);
}

MatMulKey KeyOf(int64_t m) {
  MatMulKey key = {};
  for (size_t i = 0; i < key.size(); ++i) {
    key[i] = m * (i % 2 == 0 ? 1 : -1) + static_cast<int64_t>(i);
  }
  return key;
}

MatMulAlgorithm AlgorithmOf(uint64_t number) {
  MatMulAlgorithm algorithm = {};
  algorithm[0] = number;
  algorithm[3] = ~number;
  return algorithm;
}

MatMulAlgorithm Kept(MatMulAlgorithms& algorithms, int64_t m, uint64_t number) {
  const auto kept = algorithms.Keep(KeyOf(m), AlgorithmOf(number));
  REQUIRE_MESSAGE(kept.ok(), kept.error().message);
  return *kept;
}

TEST_CASE("what is kept is found, by this process and the next") {
  const std::string folder = NewFolder("matmul_algorithms") + "/below";
  MatMulAlgorithms first = Opened(folder);
  CHECK_FALSE(first.Find(KeyOf(7)));
  CHECK_FALSE(fs::exists(folder));  // to look makes nothing
  CHECK(Kept(first, 7, 11) == AlgorithmOf(11));
  CHECK(Kept(first, 8, 12) == AlgorithmOf(12));
  CHECK(first.Find(KeyOf(7)) == AlgorithmOf(11));
  MatMulAlgorithms next = Opened(folder);
  CHECK(next.Find(KeyOf(7)) == AlgorithmOf(11));
  CHECK(next.Find(KeyOf(8)) == AlgorithmOf(12));
  CHECK_FALSE(next.Find(KeyOf(9)));
}

TEST_CASE("an algorithm is of one device and one version of the library") {
  const std::string folder = NewFolder("matmul_algorithms");
  MatMulAlgorithms algorithms = Opened(folder);
  Kept(algorithms, 7, 11);
  CHECK_FALSE(Opened(folder, "NVIDIA H200").Find(KeyOf(7)));
  CHECK_FALSE(Opened(folder, "NVIDIA H100 80GB HBM3", "cuBLASLt 130200")
                  .Find(KeyOf(7)));
  CHECK(fs::path(algorithms.path()).filename() ==
        "products-NVIDIA-H100-80GB-HBM3-cuBLASLt-130100.txt");
}

TEST_CASE("of two that choose at once, both take what the first wrote") {
  const std::string folder = NewFolder("matmul_algorithms");
  MatMulAlgorithms one = Opened(folder);
  MatMulAlgorithms other = Opened(folder);
  CHECK(Kept(one, 7, 11) == AlgorithmOf(11));
  CHECK(Kept(other, 7, 99) == AlgorithmOf(11));
  CHECK(other.Find(KeyOf(7)) == AlgorithmOf(11));

  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      MatMulAlgorithms own = *MatMulAlgorithms::Open(
          folder, "NVIDIA H100 80GB HBM3", "cuBLASLt 130100");
      for (int64_t m = 100; m < 150; ++m) {
        (void)own.Keep(KeyOf(m), AlgorithmOf(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MatMulAlgorithms all = Opened(folder);
  int64_t missing = 0;
  for (int64_t m = 100; m < 150; ++m) missing += !all.Find(KeyOf(m));
  CHECK(missing == 0);
  const std::string text = ReadAll(all.path());
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 1 + 50);
}

TEST_CASE("a choice waits for another process that is writing") {
  const std::string folder = NewFolder("matmul_algorithms");
  MatMulAlgorithms one = Opened(folder);
  Kept(one, 1, 1);
  const std::string before = ReadAll(one.path());
  Kept(one, 7, 11);
  const std::string after = ReadAll(one.path());
  std::ofstream(one.path(), std::ios::binary | std::ios::trunc) << before;
  MatMulAlgorithms other = Opened(folder);

  const int file = open(one.path().c_str(), O_RDWR);
  REQUIRE(flock(file, LOCK_EX) == 0);
  std::thread waiting([&] { CHECK(Kept(other, 7, 99) == AlgorithmOf(11)); });
  // Long enough for one that does not wait to be noticed.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::ofstream(one.path(), std::ios::binary | std::ios::trunc) << after;
  close(file);
  waiting.join();
  CHECK(ReadAll(one.path()) == after);
}

TEST_CASE("a line that was cut off is written anew, other damage is told") {
  const std::string folder = NewFolder("matmul_algorithms");
  MatMulAlgorithms algorithms = Opened(folder);
  Kept(algorithms, 7, 11);
  const std::string whole = ReadAll(algorithms.path());
  Kept(algorithms, 8, 12);
  const std::string path = algorithms.path();
  const std::string both = ReadAll(path);
  const auto write = [&](std::string_view text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  };
  // As a process that was killed left it, at every byte of the line.
  for (size_t size = whole.size(); size < both.size(); ++size) {
    CAPTURE(size);
    write(both.substr(0, size));
    MatMulAlgorithms cut = Opened(folder);
    REQUIRE(cut.Find(KeyOf(7)) == AlgorithmOf(11));
    REQUIRE_FALSE(cut.Find(KeyOf(8)));
    Kept(cut, 8, 12);
    REQUIRE(ReadAll(path) == both);
  }
  const auto error = [&](std::string_view text) {
    write(text);
    const auto opened = MatMulAlgorithms::Open(folder, "NVIDIA H100 80GB HBM3",
                                               "cuBLASLt 130100");
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == ErrorCode::kInvalidArgument);
    return opened.error().message;
  };
  CHECK(error("words\n").find(StrCat("\"", path, "\" is damaged at line 1")) !=
        std::string::npos);
  std::string wrong = both;
  wrong[whole.size() + 3] = 'x';
  CHECK(error(wrong).find("is damaged at line 3") != std::string::npos);
  CHECK(error(whole + "1 2 3 ;\n").find("line 3") != std::string::npos);
  // Nothing that is damaged is written over.
  const auto kept = algorithms.Keep(KeyOf(9), AlgorithmOf(1));
  REQUIRE_FALSE(kept.ok());
  CHECK(ReadAll(path) == whole + "1 2 3 ;\n");
}

TEST_CASE("a folder that cannot be made is an error of Keep") {
  const std::string folder = NewFolder("matmul_algorithms");
  std::ofstream(folder) << "a file";
  auto algorithms = MatMulAlgorithms::Open(folder, "NVIDIA H100", "cuBLASLt");
  REQUIRE(algorithms.ok());
  const auto kept = algorithms->Keep(KeyOf(1), AlgorithmOf(1));
  REQUIRE_FALSE(kept.ok());
  CHECK(kept.error().code == ErrorCode::kIo);
  CHECK(kept.error().message.find(folder) != std::string::npos);
}

}  // namespace
}  // namespace stowage::gpu
