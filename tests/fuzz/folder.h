#ifndef STOWAGE_TESTS_FUZZ_FOLDER_H_
#define STOWAGE_TESTS_FUZZ_FOLDER_H_

// A folder for parsers that open their files by name. The files are in memory alone;
// the folder has links to them, and goes when the program ends.
//
//   static Folder folder;
//   folder.Write("config.json", text);
//   WeightsFile::Open(folder.path());

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "tests/fuzz/check.h"

namespace stowage::testing {

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

#endif  // STOWAGE_TESTS_FUZZ_FOLDER_H_
