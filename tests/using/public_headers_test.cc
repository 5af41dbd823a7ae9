// What a user's source sees of Stowage: headers below stowage/, and no others, so
// that the user's own paths are the user's.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

// This folder's. A header of Stowage's that included "base/result.h" would get
// it, too, or nothing at all.
#include "base/result.h"
#include "stowage/stowage.h"

// A sandbox holds the inputs of an action and nothing else of the repository.
#if __has_include("ir/graph.h") || __has_include("planner/planner.h")
#error "Stowage's plain paths are visible to its users"
#endif
#if __has_include("stowage/cpu/kernels/gemm.h")
#error "a header that no umbrella header includes is public"
#endif

namespace {

namespace fs = std::filesystem;

// Where Bazel puts what //:stowage made.
const fs::path kFolder = "_virtual_includes/stowage";

std::set<std::string> Headers() {
  std::set<std::string> found;
  REQUIRE(fs::exists(kFolder));
  for (const auto& entry : fs::recursive_directory_iterator(kFolder)) {
    if (entry.is_directory()) continue;
    found.insert(entry.path().lexically_relative(kFolder).string());
  }
  return found;
}

TEST_CASE("a user's base/result.h and Stowage's live side by side") {
  const own::Result mine{.goals = 2};
  const stowage::Result<int> theirs = mine.goals;
  CHECK(theirs.ok());
}

TEST_CASE("a program links Stowage by its public headers") {
  stowage::GraphBuilder builder("tanh");
  builder.Output("y", Tanh(builder.Input("x", stowage::DType::kF32, {2})));
  CHECK(builder.Finish().ok());
  CHECK(stowage::MakeCpuBackend({.threads = 1}) != nullptr);
  // Whether there is a device or not.
  const auto gpu = stowage::MakeGpuBackend();
  CHECK((gpu.ok() || gpu.error().code == stowage::ErrorCode::kDevice));
}

TEST_CASE("public headers need no other library than nlohmann-json") {
  const std::regex include("[ \t]*#[ \t]*include[ \t]*<([^>]*)>.*");
  size_t includes = 0;
  for (const std::string& header : Headers()) {
    std::ifstream file(kFolder / header);
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_match(line, match, include)) continue;
      ++includes;
      // The system's have no folder.
      const std::string name = match[1];
      CHECK_MESSAGE((name.find('/') == std::string::npos ||
                     name == "nlohmann/json_fwd.hpp"),
                    header, ": ", line);
    }
  }
  CHECK(includes > 0);
}

TEST_CASE("public headers include each other below stowage/ and no others") {
  const std::set<std::string> headers = Headers();
  CHECK(headers.count("stowage/stowage.h") == 1);
  CHECK(headers.count("stowage/ir/ops.def") == 1);
  CHECK(headers.count("stowage/gpu/gpu.h") == 1);
  const std::regex include("[ \t]*#[ \t]*include[ \t]*\"([^\"]*)\".*");
  size_t includes = 0;
  for (const std::string& header : headers) {
    std::ifstream file(kFolder / header);
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_match(line, match, include)) continue;
      ++includes;
      CHECK_MESSAGE(headers.count(match[1]) == 1, header, ": ", line);
    }
  }
  CHECK(includes > headers.size());
}

}  // namespace
