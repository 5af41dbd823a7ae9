#ifndef STOWAGE_BASE_SHARED_LIBRARY_H_
#define STOWAGE_BASE_SHARED_LIBRARY_H_

// Libraries that are opened at run time (dlopen), so that a program starts on machines
// without them.
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

/// A library, loaded until the program ends.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;  // of the file

  /// The address of `symbol`, or null.
  void* Find(const char* symbol) const;
};

struct SharedLibraryOptions {
  std::string_view room = {};  // prefix of errors
  std::string_view cure = {};  // the remedy that errors suggest
  /// Makes its symbols visible to libraries that are loaded later (RTLD_GLOBAL), such as
  /// its own plugins.
  bool global = false;
};

/// Opens the first of `places` that loads: each is a path, or a name for the loader's
/// search. Error kDevice naming `name`, every place, and why an existing file does not
/// load.
Result<SharedLibrary> OpenSharedLibrary(const std::string& name,
                                        std::span<const std::string> places,
                                        const SharedLibraryOptions& options);

}  // namespace stowage

#endif  // STOWAGE_BASE_SHARED_LIBRARY_H_
