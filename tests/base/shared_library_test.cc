#include "base/shared_library.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace stowage {
namespace {

constexpr SharedLibraryOptions kOptions = {.room = "room",
                                           .cure = "install none"};

TEST_CASE("a missing library is told with every place that was tried") {
  const std::vector<std::string> places = {"/nowhere/libnone.so.13",
                                           "libnone.so.13"};
  const auto library = OpenSharedLibrary("None", places, kOptions);
  REQUIRE_FALSE(library.ok());
  CHECK(library.error().code == ErrorCode::kDevice);
  CHECK(library.error().message ==
        "[room] None cannot be loaded; tried /nowhere/libnone.so.13, "
        "libnone.so.13; install none");
}

TEST_CASE("of a library that cannot be loaded it is told why") {
  const auto library = OpenSharedLibrary(
      "None", std::vector<std::string>{"/etc/passwd"}, kOptions);
  REQUIRE_FALSE(library.ok());
  CHECK(library.error().message.find("tried /etc/passwd (/etc/passwd: ") !=
        std::string::npos);
}

TEST_CASE("a library is opened at the first place that has it") {
  const std::vector<std::string> places = {"/nowhere/libm.so.6", "libm.so.6",
                                           "libdl.so.2"};
  const auto library = OpenSharedLibrary("libm", places, kOptions);
  REQUIRE_MESSAGE(library.ok(), library.error().message);
  CHECK(library->path.starts_with("/"));
  CHECK(library->path.ends_with("libm.so.6"));
  CHECK(library->Find("cosf") != nullptr);
  CHECK(library->Find("no_such_function") == nullptr);
}

}  // namespace
}  // namespace stowage
