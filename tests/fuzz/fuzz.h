#ifndef STOWAGE_TESTS_FUZZ_FUZZ_H_
#define STOWAGE_TESTS_FUZZ_FUZZ_H_

// Fuzz targets by name. A program holds those of one source; the environment variable FUZZ
// selects the one that libFuzzer runs.
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

/// Declares and registers a target; its parameters and body follow. Returns 0, or -1 for an
/// input that the corpus should not keep.
#define FUZZ_TARGET(name)                                                \
  int Fuzz_##name(const uint8_t*, size_t);                               \
  const ::stowage::testing::FuzzTarget kFuzz_##name(#name, Fuzz_##name); \
  int Fuzz_##name

namespace stowage::testing {

struct FuzzTarget {
  using Function = int (*)(const uint8_t*, size_t);

  FuzzTarget(const char* name, Function function);
};

/// Ends the program, which libFuzzer reports as a finding, unless `holds`.
inline void Check(bool holds) {
  if (!holds) std::abort();
}

/// A folder for parsers that open files by name. Files are in memory; the folder has links to
/// them, and is removed when the program ends.
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

  /// Makes the file, or gives it another content.
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
