// The examples of the README and of docs compile.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace {

using stowage::testing::ReadAll;

// The blocks of C++ in a page, in their order.
std::vector<std::string> CodeIn(const std::string& page) {
  const std::string open = "```cpp\n", close = "```";
  std::vector<std::string> blocks;
  for (size_t at = page.find(open); at != std::string::npos;
       at = page.find(open, at)) {
    at += open.size();
    const size_t end = page.find(close, at);
    REQUIRE(end != std::string::npos);
    blocks.push_back(page.substr(at, end - at));
    at = end + close.size();
  }
  return blocks;
}

TEST_CASE("the README's code is examples/train_gpt2.cc, word for word") {
  const std::vector<std::string> blocks = CodeIn(ReadAll("README.md"));
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0] == ReadAll("examples/train_gpt2.cc"));
}

TEST_CASE("using.md has examples/quickstart.cc, word for word") {
  const std::vector<std::string> blocks =
      CodeIn(ReadAll("docs/tutorials/using.md"));
  CHECK(std::ranges::count(blocks, ReadAll("examples/quickstart.cc")) == 1);
}

TEST_CASE("the README has at most 200 lines") {
  CHECK(std::ranges::count(ReadAll("README.md"), '\n') <= 200);
}

TEST_CASE("runs_and_weights.md has examples/run.cc, word for word") {
  const std::vector<std::string> blocks =
      CodeIn(ReadAll("docs/guides/runs_and_weights.md"));
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0] == ReadAll("examples/run.cc"));
}

}  // namespace
