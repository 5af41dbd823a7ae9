// stowage compile: what it writes and prints, and what it leaves where it refuses.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "formats/safetensors.h"
#include "tests/compile/host_library.h"
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

TEST_CASE("both files stay where a new one does not fit") {
  const std::string source = TempPath("kept.c"), header = TempPath("kept.h");
  const auto compile = [&](const std::string& batch, int64_t largest_file) {
    return RunStowage({"compile", "--model", "mlp", "--batch", batch, "-o",
                       source, "--no-plan-cache"},
                      {.largest_file = largest_file});
  };
  CHECK(compile("3", 5000).exit_code == 2);
  CHECK(!fs::exists(source));
  CHECK(!fs::exists(header));
  CHECK(compile("3", 0).exit_code == 0);
  const std::string before = ReadAll(source), header_before = ReadAll(header);
  // The header fits, the source does not; neither does.
  for (const int64_t bytes : {5000, 100}) {
    CAPTURE(bytes);
    CHECK(compile("64", bytes).exit_code == 2);
    CHECK(ReadAll(source) == before);
    CHECK(ReadAll(header) == header_before);
  }
  CHECK(compile("64", 0).exit_code == 0);
  CHECK(ReadAll(header) != header_before);
}

// The first float of each param of a compiled step after its init.
std::map<std::string, float> FirstOf(const std::string& name,
                                     const std::string& source) {
  const std::string header = fs::path(source).replace_extension(".h").string();
  const HostLibrary library(
      name, {{name + ".c", ReadAll(source)}, {name + ".h", ReadAll(header)}});
  library.Get<void(uint64_t)>(name + "_init")(1);
  std::map<std::string, float> first;
  for (const char* const param : {"fc1_weight", "fc1_bias", "fc3_weight"}) {
    first[param] =
        *library.Get<const float*()>(StrCat(name, "_param_", param))();
  }
  return first;
}

TEST_CASE("a step starts from the weights of --init") {
  const std::string weights = TempPath("init.safetensors");
  const std::string checkpoint = TempPath("init.st");
  const std::vector<std::string> net = {"--model", "mlp", "--batch", "4"};
  std::vector<std::string> train = {"train",
                                    "--data",
                                    WriteTemp("digits.csv", SomeDigits()),
                                    "--steps",
                                    "2",
                                    "--device",
                                    "cpu",
                                    "--save",
                                    checkpoint,
                                    "--save-weights",
                                    weights};
  train.insert(train.end(), net.begin(), net.end());
  const Outcome trained = RunStowage(train);
  REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
  // The values as the file has them.
  const auto file = TensorFile::Open(weights, "test");
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  std::map<std::string, float> expected;
  Bytes bytes = 0;
  for (const SafeTensor& tensor : file->tensors()) {
    std::vector<std::byte> data(static_cast<size_t>(tensor.type.bytes()));
    REQUIRE(file->Read(tensor, data).ok());
    std::string name = tensor.name;
    std::ranges::replace(name, '.', '_');
    std::memcpy(&expected[name], data.data(), sizeof(float));
    bytes += tensor.type.bytes();
  }
  for (const std::string& init : {weights, checkpoint}) {
    CAPTURE(init);
    std::vector<std::string> arguments = net;
    arguments.insert(arguments.end(), {"--json", "--init", init});
    const std::string source = TempPath("begun.c");
    const Outcome outcome = Compile(arguments, source);
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    CHECK(Json::parse(outcome.out)["flash_bytes"] == bytes);
    CHECK(Contains(outcome.err, StrCat("params have the weights of ", init)));
    for (const auto& first : FirstOf("begun", source)) {
      CAPTURE(first.first);
      REQUIRE(expected.contains(first.first));
      CHECK(first.second == expected[first.first]);
    }
  }
}

TEST_CASE("weights of --init that are not trained are constants") {
  // The weights of the base of adapters, which are frozen.
  const std::string weights = TempPath("base.safetensors");
  const std::vector<std::string> net = {"--model", "gpt-nano", "--seq",
                                        "8",       "--batch",  "1"};
  std::vector<std::string> train = {"train",
                                    "--data",
                                    WriteTemp("text.txt", SomeText()),
                                    "--steps",
                                    "1",
                                    "--device",
                                    "cpu",
                                    "--sample",
                                    "0",
                                    "--save-weights",
                                    weights};
  train.insert(train.end(), net.begin(), net.end());
  const Outcome trained = RunStowage(train);
  REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
  std::vector<std::string> adapters = net;
  adapters.insert(adapters.end(), {"--lora-rank", "2", "--json"});
  const Outcome before = Compile(adapters, TempPath("seeded.c"));
  adapters.insert(adapters.end(),
                  {"--init", weights, "--init-allow-missing", "*lora_*"});
  const Outcome after = Compile(adapters, TempPath("adapters.c"));
  REQUIRE_MESSAGE(before.exit_code == 0, before.err);
  REQUIRE_MESSAGE(after.exit_code == 0, after.err);
  const Json seeded = Json::parse(before.out), given = Json::parse(after.out);
  CHECK(seeded["flash_bytes"] == 0);
  CHECK(given["flash_bytes"].get<int64_t>() > 0);
  CHECK(given["arena_bytes"].get<int64_t>() <=
        seeded["arena_bytes"].get<int64_t>() -
            given["flash_bytes"].get<int64_t>());
  CHECK(!Contains(ReadAll(TempPath("adapters.c")), " given_0["));
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
           {{"--model", "mlp", "--init", "no.st"}, "g.c", 2, "no.st"},
           {{"--model", "mlp", "--init-rename", "a=b"},
            "h.c",
            2,
            "[compile] --init-rename says how the file of --init is read"},
           {{"--model", "mlp", "--region", "sram"}, "rg.c", 2, "NAME=BYTES"},
           {{"--model", "mlp", "--region", "sram="}, "rh.c", 2, "NAME=BYTES"},
           {{"--model", "mlp", "--region", "sram=4XB"}, "ri.c", 2, "4XB"},
           {{"--model", "mlp", "--region", "sram=0"}, "rj.c", 2, "size is 0"},
           {{"--model", "mlp", "--region", "on-chip=4MB"},
            "rk.c",
            2,
            "\"on-chip\" is no C identifier"},
           {{"--model", "mlp", "--region", "a=4MB", "--region", "a=4MB"},
            "rl.c",
            2,
            "name \"a\""},
           {{"--model", "mlp", "--region", "a=4MB", "--region", "A=4MB"},
            "rm.c",
            2,
            "\"A\" in upper case"},
           {{"--model", "mlp", "--batch", "1", "--region", "a=100KB",
             "--region", "b=90KB"},
            "ro.c",
            1,
            "the regions: a 100000 bytes, b 90000 bytes"},
           // Params are larger.
           {{"--model", "mlp", "--batch", "1", "--budget", "4MB", "--region",
             "a=4000", "--region", "b=3000"},
            "rn.c",
            1,
            "is larger than every region: a 4000 and b 3000 bytes"},
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

TEST_CASE("regions share the buffers, and the traffic of each is printed") {
  const std::string source = TempPath("two.c");
  const std::vector<std::string> arguments = {
      "--model",  "cnn-small",  "--batch",  "4",        "--evaluate",
      "--region", "sram=256KB", "--region", "psram=8MB"};
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const Outcome outcome = Compile(as_json, source);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  const Json json = Json::parse(outcome.out);
  REQUIRE(json["regions"].size() == 2);
  const Json& sram = json["regions"][0];
  const Json& psram = json["regions"][1];
  CHECK(json["budget_bytes"] == 8'256'000);
  CHECK(json["slow_bytes"] == 0);
  CHECK(sram["name"] == "sram");
  CHECK(sram["given_bytes"] == 256'000);
  CHECK(sram["bytes"] <= 256'000);
  CHECK(psram["bytes"] > 0);
  CHECK(json["arena_bytes"] ==
        sram["bytes"].get<int64_t>() + psram["bytes"].get<int64_t>());
  const double share = sram["traffic_share"],
               bound = sram["traffic_share_bound"];
  CHECK(share > 0.3);
  CHECK(share <= bound);
  CHECK(share + psram["traffic_share"].get<double>() == doctest::Approx(1));
  const std::string header = ReadAll(TempPath("two.h"));
  CHECK(Contains(header, StrCat("TWO_REGION_SRAM_BYTES ",
                                sram["bytes"].get<int64_t>(), "\n")));
  CHECK(Contains(header, StrCat("TWO_SAVED_BYTES ",
                                json["saved_bytes"].get<int64_t>(), "\n")));
  const Outcome text = Compile(arguments, source);
  CHECK(Contains(text.out, "region sram: "));
  CHECK(Contains(text.out, "% of the traffic, at most "));
  CHECK(Contains(text.out, "all regions "));
  // The step is fitted into the sum of the regions.
  const Outcome less =
      Compile({"--model", "cnn-small", "--batch", "8", "--region", "sram=256KB",
               "--region", "psram=1500KB", "--json"},
              source);
  REQUIRE_MESSAGE(less.exit_code == 0, less.err);
  CHECK(Json::parse(less.out)["arena_bytes"] <= 1'756'000);
}

}  // namespace
}  // namespace stowage::testing
