// bench/novel_examples.py, which makes examples for `stowage finetune` out of a novel.

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

std::string Run(const std::string& options) {
  const std::string out = TempPath("examples");
  const int status = std::system(
      StrCat("python3 bench/novel_examples.py ", options, " >'", out, "'")
          .c_str());
  REQUIRE(status == 0);
  return ReadAll(out);
}

TEST_CASE("each paragraph but a chapter's first is learnt behind another") {
  const std::string path = WriteTemp(
      "short.txt",
      "A title\n\nChapter 1\n\n\nOne\n  and \"more\".\n\nTwo.\n\nThree."
      "\n\n* * *\n\nFour.\n\nChapter 2\n\nFive.\n \nSix.\n");
  CHECK(Run(StrCat("--text '", path, "'")) ==
        R"({"prompt": "One and \"more\".\n\n", "completion": "Two."}
{"prompt": "Two.\n\n", "completion": "Three."}
{"prompt": "Five.\n\n", "completion": "Six."}
)");
  CHECK(Run(StrCat("--form messages --count 1 --text '", path, "'")) ==
        R"({"messages": [{"role": "user", "content": "One and \"more\"."}, )"
        R"({"role": "assistant", "content": "Two."}]})"
        "\n");
}

TEST_CASE("the novel's examples are the same each time, none of them twice") {
  const std::string text = Run("");
  CHECK(Run("") == text);
  const std::vector<Json> lines = JsonLines(text);
  CHECK(lines.size() == 1990);  // counted by awk, from the text
  CHECK(lines.front()["prompt"].get<std::string>().starts_with(
      "It is a truth universally acknowledged, that a single man in "
      "possession of a good fortune, must be in want of a wife.\n"));
  CHECK(lines.back()["completion"].get<std::string>().starts_with(
      "With the Gardiners, they were always on the most intimate terms."));
  std::set<std::string> seen;
  for (const Json& line : lines) {
    CHECK(line.size() == 2);
    CHECK(!line["completion"].get<std::string>().empty());
    CHECK(seen.insert(line.dump()).second);
  }
}

}  // namespace
}  // namespace stowage::testing
