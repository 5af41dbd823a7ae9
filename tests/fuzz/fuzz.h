#ifndef STOWAGE_TESTS_FUZZ_FUZZ_H_
#define STOWAGE_TESTS_FUZZ_FUZZ_H_

// Defines named fuzz targets for libFuzzer. A program contains all targets of one source file. The
// environment variable FUZZ selects the target to run.
//
//   FUZZ_TARGET(graph_text)(const uint8_t* data, size_t size) {
//     ...
//     Check(ParseGraph(ToText(*graph)).ok());
//     return 0;
//   }
//
//   FUZZ=graph_text plans_fuzz tests/fuzz/corpus/graph_text

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/strings.h"

/// Declares and registers a target. Its parameters and body follow the macro. The target returns 0,
/// or -1 if the corpus should not keep the input.
#define FUZZ_TARGET(name)                                                \
  int Fuzz_##name(const uint8_t*, size_t);                               \
  const ::stowage::testing::FuzzTarget kFuzz_##name(#name, Fuzz_##name); \
  int Fuzz_##name

namespace stowage::testing {

struct FuzzTarget {
  using Function = int (*)(const uint8_t*, size_t);

  FuzzTarget(const char* name, Function function);
};

/// Aborts if `holds` is false. libFuzzer reports that as a finding.
inline void Check(bool holds) {
  if (!holds) std::abort();
}

/// A temporary folder, for parsers that open files by name. The files are in memory, and the folder
/// contains symbolic links to them. The destructor removes the folder.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "stowage_fuzz.XXXXXX")
                .string();
    Check(mkdtemp(path_.data()) != nullptr);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    for (const auto& [name, number] : files_) close(number);
  }

  const std::string& path() const { return path_; }

  /// Creates the file, or replaces its content.
  void Write(const std::string& name, std::string_view content) {
    const auto [file, is_new] = files_.emplace(name, -1);
    if (is_new) {
      file->second = memfd_create(name.c_str(), 0);
      Check(file->second >= 0);
      std::filesystem::create_symlink(StrCat("/proc/self/fd/", file->second),
                                      std::filesystem::path(path_) / name);
    }
    Check(ftruncate(file->second, 0) == 0);
    Check(pwrite(file->second, content.data(), content.size(), 0) ==
          static_cast<ssize_t>(content.size()));
  }

 private:
  std::string path_;
  std::map<std::string, int> files_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_FUZZ_FUZZ_H_
