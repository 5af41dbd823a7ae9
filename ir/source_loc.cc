#include "ir/source_loc.h"

#include <mutex>
#include <set>
#include <string>

namespace stowage {

SourceLoc KeptSourceLoc(std::string_view file, int line) {
  if (line < 1) return {};
  static std::mutex mutex;
  static auto* const files = new std::set<std::string, std::less<>>();
  const std::lock_guard<std::mutex> lock(mutex);
  auto kept = files->find(file);
  if (kept == files->end()) kept = files->emplace(file).first;
  return {kept->c_str(), line};
}

}  // namespace stowage
