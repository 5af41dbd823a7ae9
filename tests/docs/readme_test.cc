// The README's example is a program that compiles, not a picture of one.

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), std::string(path));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("the README's example is examples/quickstart.cc, word for word") {
  const std::string readme = ReadAll("README.md");
  const std::string open = "```cpp\n";
  const size_t begin = readme.find(open) + open.size();
  const size_t end = readme.find("```", begin);
  REQUIRE(end != std::string::npos);
  CHECK(readme.substr(begin, end - begin) == ReadAll("examples/quickstart.cc"));
}

}  // namespace
