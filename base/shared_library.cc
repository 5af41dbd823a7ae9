#include "base/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "base/strings.h"

namespace stowage {

void* SharedLibrary::Find(const char* symbol) const {
  return dlsym(handle, symbol);
}

Result<SharedLibrary> OpenSharedLibrary(const std::string& name,
                                        std::span<const std::string> places,
                                        const SharedLibraryOptions& options) {
  const int mode = RTLD_NOW | (options.global ? RTLD_GLOBAL : RTLD_LOCAL);
  std::string tried;
  for (const std::string& place : places) {
    void* const handle = dlopen(place.c_str(), mode);
    if (handle == nullptr) {
      // The reason why an existing file does not load.
      const char* const why = dlerror();
      const bool exists = place.find('/') != std::string::npos &&
                          access(place.c_str(), F_OK) == 0;
      tried += StrCat(tried.empty() ? "" : ", ", place);
      if (exists && why != nullptr) tried += StrCat(" (", why, ")");
      continue;
    }
    link_map* map = nullptr;
    const bool named = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 &&
                       map != nullptr && map->l_name[0] != '\0';
    return SharedLibrary{handle, named ? map->l_name : place};
  }
  return Error{ErrorCode::kDevice,
               StrCat("[", options.room, "] ", name,
                      " cannot be loaded; tried ", tried, "; ", options.cure)};
}

}  // namespace stowage
