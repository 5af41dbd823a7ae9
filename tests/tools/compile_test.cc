// stowage compile: what it writes and prints, and what it leaves where it refuses.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The arguments with -o to a path of its own.
Outcome Compile(std::vector<std::string> arguments, const std::string& source) {
  arguments.insert(arguments.begin(), "compile");
  arguments.insert(arguments.end(), {"-o", source});
  return RunStowage(arguments);
}

TEST_CASE("a step is written with its header, and its figures are printed") {
  const std::string source = TempPath("net.c"), header = TempPath("net.h");
  const Outcome outcome = Compile(
      {"--model", "mlp", "--batch", "4", "--evaluate", "--json"}, source);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  const Json json = Json::parse(outcome.out);
  CHECK(json["source"] == source);
  CHECK(json["header"] == header);
  CHECK(json["source_bytes"] == fs::file_size(source));
  const std::string text = ReadAll(header);
  CHECK(Contains(text, StrCat("NET_ARENA_BYTES ",
                              json["arena_bytes"].get<int64_t>(), "\n")));
  CHECK(Contains(text, "int net_step(void);"));
  CHECK(Contains(text, "int net_evaluate(void);"));
}

TEST_CASE("where a step is refused, no file is left") {
  struct Refused {
    std::vector<std::string> arguments;
    std::string name;
    int exit_code;
    std::string message;
  };
  const std::string graph = WriteTemp(
      "ranks.ir",
      "stowage-ir 1\ngraph \"ranks\" {\n  x: f32(4) = input\n"
      "  y: f32(4) = all_reduce(x) {ranks = 2}\n  output \"y\" = y\n}\n");
  for (const Refused& each : std::vector<Refused>{
           {{"--graph", graph}, "a.c", 2, "all_reduce (1: \"y\")"},
           {{"--model", "mlp", "--budget", "1KB"}, "b.c", 1, "smallest budget"},
           {{"--model", "mlp"}, "c.txt", 2, "ends in .c"},
           {{"--model", "mlp"}, "2nd.c", 2, "C identifier"},
           {{"--model", "mlp", "--arena", "heap"},
            "d.c",
            2,
            "static or caller"},
           {{"--model", "mlp", "--threads", "2"}, "e.c", 2, "--threads"},
           {{}, "f.c", 2, "nothing to compile"}}) {
    CAPTURE(each.name);
    const std::string path = TempPath(each.name);
    const Outcome outcome = Compile(each.arguments, path);
    CHECK(outcome.exit_code == each.exit_code);
    CHECK_MESSAGE(Contains(outcome.err, each.message), outcome.err);
    CHECK(!fs::exists(path));
    CHECK(!fs::exists(fs::path(path).replace_extension(".h")));
  }
}

}  // namespace
}  // namespace stowage::testing
