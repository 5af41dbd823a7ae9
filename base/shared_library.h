#ifndef STOWAGE_BASE_SHARED_LIBRARY_H_
#define STOWAGE_BASE_SHARED_LIBRARY_H_

// Opens shared libraries at run time (dlopen), so that a program also starts on machines without
// them.
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

/// A shared library that remains loaded until the program ends.
struct SharedLibrary {
  void* handle = nullptr;
  /// The path of the file if the loader reports it, otherwise the name that was opened.
  std::string path;

  /// Returns the address of `symbol`, or null if the library and its dependencies do not define it.
  void* Find(const char* symbol) const;
};

struct SharedLibraryOptions {
  /// The package that opens the library. Error messages begin with its name in brackets.
  std::string_view room = {};
  /// The remedy that error messages suggest.
  std::string_view cure = {};
  /// If true, the library's symbols are visible to libraries that are loaded later (RTLD_GLOBAL),
  /// such as the library's own plugins.
  bool global = false;
};

/// Opens the first of `places` that loads. Each is a path, or a file name for which the loader
/// searches its standard folders. Returns kDevice if none loads. The message states `name`, what
/// was tried, and for each file that exists, why it does not load.
Result<SharedLibrary> OpenSharedLibrary(const std::string& name,
                                        std::span<const std::string> places,
                                        const SharedLibraryOptions& options);

}  // namespace stowage

#endif  // STOWAGE_BASE_SHARED_LIBRARY_H_
