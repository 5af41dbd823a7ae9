#ifndef STOWAGE_TESTS_SUPPORT_FILES_H_
#define STOWAGE_TESTS_SUPPORT_FILES_H_

// Provides empty folders, unused paths and whole-file reads for tests that use files.
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

/// Creates an empty folder below $TEST_TMPDIR, or below /tmp if that is not set, and returns its
/// path. Deletes the previous content of the folder.
inline std::string EmptyFolder(std::string_view name) {
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string folder = StrCat(root == nullptr ? "/tmp" : root, "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

/// Returns a path at which no file exists. Each call returns a different path.
inline std::string NewFolder(std::string_view name) {
  static std::atomic<int> count = 0;
  const std::string folder = EmptyFolder(StrCat(name, "_", ++count));
  std::filesystem::remove(folder);
  return folder;
}

/// Returns the bytes of a file, or an empty string if it cannot be read.
inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_FILES_H_
