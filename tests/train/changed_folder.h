#ifndef STOWAGE_TESTS_TRAIN_CHANGED_FOLDER_H_
#define STOWAGE_TESTS_TRAIN_CHANGED_FOLDER_H_

// Copies the folder of a model with changes to its config.json.
//
//   Open(ChangedFolder(folder, "\"gelu\"", "", "\"relu\""));

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/support/files.h"

namespace stowage::testing {

// Copies the folder of a golden model and returns the path of the copy. In its config.json, the
// text from the first `from` up to the next `end` is replaced with `to`. If `end` is empty, only
// `from` is replaced. Returns "no such text" if the file does not contain `from`.
inline std::string ChangedFolder(const std::string& folder,
                                 std::string_view from, std::string_view end,
                                 std::string_view to) {
  const std::string copy = NewFolder("changed");
  std::filesystem::create_directories(copy);
  std::filesystem::copy_file(folder + "/model.safetensors",
                             copy + "/model.safetensors");
  std::string config = ReadAll(folder + "/config.json");
  const size_t at = config.find(from);
  if (at == std::string::npos) return "no such text";
  const size_t size =
      end.empty() ? from.size() : config.find(end, at + from.size()) - at;
  config.replace(at, size, to);
  std::ofstream(copy + "/config.json") << config;
  return copy;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TRAIN_CHANGED_FOLDER_H_
