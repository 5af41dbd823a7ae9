#ifndef STOWAGE_BASE_SHARED_LIBRARY_H_
#define STOWAGE_BASE_SHARED_LIBRARY_H_

// Libraries that are looked for when a program runs, so that it starts where
// they are not installed.
//
//   const std::vector<std::string> places = {"libmpi.so.40", "/opt/mpi/libmpi.so"};
//   Result<SharedLibrary> library = OpenSharedLibrary(
//       "MPI", places, {.room = "cluster", .cure = "install libopenmpi3"});
//   auto* start = library->Find("MPI_Init_thread");

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

/// Loaded until the program ends.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;  // of the file

  /// The address of `symbol`; null when it has none.
  void* Find(const char* symbol) const;
};

struct SharedLibraryOptions {
  std::string_view room = {};  // that errors begin with
  std::string_view cure = {};  // what to do where there is none
  /// Whether libraries that are loaded later see its symbols, as plugins of its
  /// own may need to.
  bool global = false;
};

/// Opens the first of `places` that can be: a path, or a name that the loader
/// looks for. Error kDevice naming `name` and every place, and of a file that is
/// there, why it cannot be loaded.
Result<SharedLibrary> OpenSharedLibrary(const std::string& name,
                                        std::span<const std::string> places,
                                        const SharedLibraryOptions& options);

}  // namespace stowage

#endif  // STOWAGE_BASE_SHARED_LIBRARY_H_
