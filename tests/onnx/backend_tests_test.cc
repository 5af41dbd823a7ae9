// ONNX's own tests: all pass, save those that not_taken.txt lists with the reason. The
// list may shrink and never grow.

#include "tests/onnx/backend_tests.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/strings.h"

namespace stowage {
namespace {

std::map<std::string, std::string> NotTaken() {
  std::ifstream file("tests/onnx/not_taken.txt");
  std::map<std::string, std::string> reasons;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    REQUIRE_MESSAGE(colon != std::string::npos, line);
    reasons[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return reasons;
}

TEST_CASE("every test of ONNX passes, or is listed with its reason") {
  const std::map<std::string, std::string> not_taken = NotTaken();
  int64_t count = 0;
  std::set<std::string> seen;
  for (const char* const kind :
       {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    const auto names = BackendTests(kind);
    if (kind == std::string("node")) {
      REQUIRE_MESSAGE(names.size() == 932,
                      "the tests of libonnx-testdata 1.12 are not installed: "
                      "run tools/setup.sh --tests");
    }
    for (const std::string& name : names) {
      const std::string path = StrCat(kind, "/", name);
      CAPTURE(path);
      const auto listed = not_taken.find(path);
      const std::string reason =
          listed == not_taken.end() ? "" : listed->second;
      // Where the two differ, list_backend_tests.cc makes the list anew.
      CHECK(RunBackendTest(kind, name) == reason);
      seen.insert(path);
      ++count;
    }
  }
  CHECK(count > 1000);
  for (const auto& listed : not_taken) {
    CAPTURE(listed.first);
    CHECK(seen.contains(listed.first));
  }
}

}  // namespace
}  // namespace stowage
