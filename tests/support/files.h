#ifndef STOWAGE_TESTS_SUPPORT_FILES_H_
#define STOWAGE_TESTS_SUPPORT_FILES_H_

// Files that a test writes and reads.
//
//   const std::string path = EmptyFolder("series") + "/m.ck";
//   CHECK(ReadAll(path) == "whole");

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace stowage::testing {

/// An empty folder of this test.
inline std::string EmptyFolder(std::string_view name) {
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string folder = StrCat(root == nullptr ? "/tmp" : root, "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

/// A path of this test at which no file exists; a different one for each call.
inline std::string NewFolder(std::string_view name) {
  static std::atomic<int> count = 0;
  const std::string folder = EmptyFolder(StrCat(name, "_", ++count));
  std::filesystem::remove(folder);
  return folder;
}

/// The bytes of a file; empty if it cannot be read.
inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_FILES_H_
