#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

TEST_CASE("--version prints the version and the CPU target that runs") {
  const Outcome outcome = RunStowage({"--version"});
  CHECK(outcome.exit_code == 0);
  static const std::regex expected(
      "stowage 0\\.1\\.0\n"
      "CPU kernels: (native \\((SSE|AVX2|AVX-512|AVX512-BF16|NEON)\\)|"
      "armv8 \\(NEON\\)|"
      "(v2 \\(SSE|v3 \\(AVX2|v4 \\(AVX-512|v4-bf16 \\(AVX512-BF16)\\) "
      "of (v2|native), v3, v4, v4-bf16)\n");
  INFO(outcome.out);
  CHECK(std::regex_match(outcome.out, expected));
  CHECK(outcome.err.empty());
}

TEST_CASE("an unknown CPU target is refused by every command that computes") {
  const std::string digits = WriteTemp("digits.csv", SomeDigits());
  const RunLimits limits = {.cpu_target = "v9"};
  const std::vector<std::vector<std::string>> commands = {
      {"--version"},
      {"plan", "--model", "mlp"},
      {"train", "--model", "mlp", "--data", digits, "--steps", "1", "--device",
       "cpu"},
      {"time", "--model", "mlp", "--data", digits, "--steps", "1", "--device",
       "cpu"}};
  for (const std::vector<std::string>& command : commands) {
    INFO(command[0]);
    const Outcome outcome = RunStowage(command, limits);
    CHECK(outcome.exit_code == 2);
    INFO(outcome.err);
    CHECK(
        outcome.err.find("[cpu-target] STOWAGE_CPU_TARGET is \"v9\": there "
                         "is no CPU target \"v9\" in this build; expected ") !=
        std::string::npos);
  }
  CHECK(RunStowage({"models"}, limits).exit_code == 0);
  const Outcome of_gpu =
      RunStowage({"plan", "--model", "mlp", "--device", "cuda"}, limits);
  CHECK(of_gpu.exit_code == 0);
}

TEST_CASE("a plan for a GPU has no CPU target") {
  const Outcome outcome = RunStowage(
      {"plan", "--model", "mlp", "--device", "cuda", "--cpu-target", "v2"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err ==
        "stowage: [cpu-target] \"v2\" is given for a plan for cuda; leave it "
        "out, or plan for device cpu\n");
}

TEST_CASE("--help lists the subcommands and the exit codes") {
  const Outcome outcome = RunStowage({"--help"});
  CHECK(outcome.exit_code == 0);
  for (const char* part : {"train", "plan", "pack", "check", "report", "tokens",
                           "models", "Exit codes", "70 a bug"}) {
    INFO(part);
    CHECK(outcome.out.find(part) != std::string::npos);
  }
}

TEST_CASE("help that cannot be printed is an error") {
  const Outcome outcome = RunStowage({"--help"}, {.largest_file = 100});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("stdout cannot be written") != std::string::npos);
}

TEST_CASE("every subcommand's help shows an example of it") {
  for (const char* name :
       {"train", "plan", "pack", "check", "report", "tokens", "models"}) {
    const Outcome outcome = RunStowage({name, "--help"});
    INFO(name);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out.find(StrCat("Example:\n  stowage ", name, " ")) !=
          std::string::npos);
  }
}

TEST_CASE("help lists where plans are kept, and what explains them") {
  for (const char* name : {"plan", "train", "time"}) {
    const Outcome outcome = RunStowage({name, "--help"});
    INFO(name);
    CHECK(outcome.out.find("--plan-cache TEXT") != std::string::npos);
    CHECK(outcome.out.find("--no-plan-cache") != std::string::npos);
    CHECK((outcome.out.find("--explain") != std::string::npos) ==
          (std::string_view(name) == "plan"));
  }
  CHECK(RunStowage({"report", "--help"}).out.find("stream") !=
        std::string::npos);
}

TEST_CASE("wrong usage exits 2 with a word on stderr and nothing on stdout") {
  const std::vector<std::string> rows[] = {
      {},
      {"sail"},
      {"plan", "--modell", "mlp"},
      {"plan", "--model", "mlp", "--batch", "many"},
      {"plan", "--model", "mlp", "--batch", "99999999999999999999"},
      {"plan", "--model"},
      {"train", "--model", "mlp"},
      {"train", "--data", "x"},
      {"pack"},
      {"check"},
      {"report"},
      {"models", "extra"},
  };
  for (const std::vector<std::string>& arguments : rows) {
    const Outcome outcome = RunStowage(arguments);
    INFO(arguments.size(), arguments.empty() ? "" : arguments.back());
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(!outcome.err.empty());
  }
}

TEST_CASE("whole numbers are decimal") {
  const auto arena = [](const char* batch) {
    const Outcome outcome =
        RunStowage({"plan", "--model", "mlp", "--json", "--batch", batch});
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    return nlohmann::json::parse(outcome.out)["arena_bytes"].get<int64_t>();
  };
  CHECK(arena("010") == arena("10"));
  CHECK(arena("08") == arena("8"));
  CHECK(arena("010") != arena("8"));
}

TEST_CASE(
    "what an option cannot take, or this subject does not read, is refused") {
  struct Row {
    std::vector<std::string> arguments;
    std::string_view words;
  };
  const std::vector<std::string> plan = {"plan", "--model", "mlp"};
  const std::vector<std::string> graph = {"plan", "--graph", "g.ir"};
  const std::vector<std::string> onnx = {"plan", "--onnx", "m.onnx"};
  const std::vector<std::string> train = {"train", "--model", "mlp", "--data",
                                          "d.npz"};
  const std::vector<std::string> tune = {"finetune", "--weights", "w", "--data",
                                         "d.txt"};
  const std::vector<std::string> train_onnx = {
      "train", "--onnx", "m.onnx", "--loss", "mse", "--data", "d.npz"};
  std::vector<Row> rows;
  const auto add = [&](std::vector<std::string> arguments,
                       const std::vector<std::string>& more,
                       std::string_view words) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    rows.push_back({std::move(arguments), words});
  };
  add(plan, {"--budget", ""}, "the value of --budget is empty");
  add(plan, {"--budget="}, "the value of --budget is empty");
  add(plan, {""}, "an argument of plan is empty");
  add(plan, {"-o", "--json"},
      "-o has no value before --json; write --output=--json");
  add(plan, {"-o=p"}, "-o takes no \"=\"; write -o p, or --output=p");
  add(train, {"--save", "--json"}, "--save has no value before --json");
  add(plan, {"-o", "-h"}, "-o has no value before -h");
  add(train, {"--fit-optimizer", "--lr", "3"}, "--fit-optimizer excludes --lr");
  add(plan, {"--fit-optimizer", "--optimizer", "sgd"},
      "--optimizer excludes --fit-optimizer");
  add(onnx, {"--list-params", "--packer", "best"},
      "--packer excludes --list-params");
  add(train, {"--lr", "1e-46"}, "1e-46 is 0 in f32");
  add(train, {"--lr", "1e39"}, "1e39 is infinite in f32");
  add(train, {"--seed", "-1"}, "-1 not in range");
  add(plan, {"--pareto", "-o", "p"}, "--output");
  add(plan, {"--pareto", "--html", "p"}, "--html");
  add(plan, {"--pareto", "--traffic"}, "--traffic");
  add(plan, {"--fit-optimizer", "--svg", "p"}, "--svg");
  add(plan, {"--fit-optimizer", "-o", "p"}, "--output");
  add(train, {"--fit-optimizer", "--save", "p"}, "--save");
  add(train, {"--fit-optimizer", "--svg", "p"}, "--svg");
  add(train, {"--fit-optimizer", "--resume", "p"}, "--resume");
  add(train, {"--fit-optimizer", "--init", "p"}, "--init");
  for (const char* const of_onnx :
       {"--dim", "--shape", "--loss", "--freeze", "--input-map", "--shuffle",
        "--hold-out", "--save-onnx"}) {
    const std::string value =
        std::string_view(of_onnx) == "--hold-out" ? "0.1" : "x=1";
    add(train, {of_onnx, value}, "applies where --onnx is given");
  }
  for (const char* const of_onnx : {"--dim", "--shape", "--loss"}) {
    add(plan, {of_onnx, "x=1"}, "applies where --onnx is given");
    add(graph, {of_onnx, "x=1"}, "applies where --onnx is given");
  }
  add(plan, {"--stand-ins"}, "--stand-ins applies where --onnx is given");
  for (const std::vector<std::string>& untrained : {plan, graph, onnx}) {
    add(untrained, {"--freeze", "*"}, "--freeze applies where --loss is given");
  }
  for (const char* const of_model : {"--dtype", "--seq", "--sample"}) {
    const bool is_dtype = std::string_view(of_model) == "--dtype";
    add(train_onnx, {of_model, is_dtype ? "bf16" : "8"},
        "applies where --model is given");
  }
  add(train_onnx, {"--tokenizer", "t"},
      "--tokenizer applies where --model is given");
  add(onnx, {"--dtype", "bf16"}, "--dtype applies where --model is given");
  add(graph, {"--seq", "8"}, "--seq applies where --model is given");
  add(graph, {"--batch", "8"},
      "--batch applies where --model or --onnx is given");
  for (const char* const text :
       {"--optimizer", "--loss-scale", "--no-decay", "--lora-targets"}) {
    add(graph, {text, "garbage"}, "applies where --model or --loss is given");
    add(onnx, {text, "garbage"}, "applies where --model or --loss is given");
  }
  for (const char* const number :
       {"--clip-norm", "--ema", "--weight-decay", "--momentum",
        "--label-smoothing", "--lora-rank", "--lora-alpha"}) {
    add(graph, {number, "1"}, "applies where --model or --loss is given");
    add(onnx, {number, "1"}, "applies where --model or --loss is given");
  }
  add(onnx, {"--allow-batch-change"},
      "applies where --model or --loss is given");
  for (const char* const own :
       {"--lora-rank", "--lora-alpha", "--lora-dropout", "--lora-targets"}) {
    add(tune, {"--full", own, "1"}, own);
    add(tune, {"--adapter", "a", own, "1"}, own);
  }
  add(tune, {"--full", "--adapter", "a"}, "--adapter");
  add({"plan", "--model", "mlp"}, {"--pareto", "--budget", "1MB"},
      "--budget excludes --pareto");
  add({"report"}, {"a", "b", "c"}, "plan");
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(row.arguments);
    std::string line;
    for (const std::string& argument : row.arguments) line += " " + argument;
    INFO(line, ": ", outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.words) != std::string::npos);
    CHECK(outcome.err.find("cannot be read") == std::string::npos);
  }
}

TEST_CASE("a value that begins with dashes stands behind =") {
  const std::string inside = std::filesystem::current_path();
  const Outcome outcome =
      RunStowage({"plan", "--model", "mlp", "--json", "--svg=--a.svg"});
  CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(std::filesystem::remove(inside + "/--a.svg"));
}

TEST_CASE("help has its flags in groups") {
  const std::string help = RunStowage({"train", "--help"}).out;
  size_t last = 0;
  const std::pair<const char*, const char*> groups[] = {
      {"\nmodel:\n", "--batch"},     {"\ndata:\n", "--data"},
      {"\noptimization:\n", "--lr"}, {"\nmemory:\n", "--budget"},
      {"\nrun:\n", "--device"},      {"\noutput:\n", "--json"}};
  for (const auto& each : groups) {
    const auto& [group, flag] = each;
    INFO(each.first);
    const size_t at = help.find(group);
    REQUIRE(at != std::string::npos);
    CHECK(at > last);
    last = at;
    const std::string part = help.substr(at, help.find("\n\n", at + 2) - at);
    CHECK(part.find(flag) != std::string::npos);
  }
  for (const char* name : {"finetune", "plan", "time"}) {
    const std::string other = RunStowage({name, "--help"}).out;
    INFO(name);
    for (const auto& [group, flag] : groups) {
      // plan reads no data.
      if (std::string_view(name) == "plan" &&
          std::string_view(flag) == "--data") {
        continue;
      }
      CHECK(other.find(group) != std::string::npos);
    }
    CHECK(other.find("--config") != std::string::npos);
  }
}

TEST_CASE("names that are not known are answered by the nearest") {
  struct Row {
    std::vector<std::string> arguments;
    const char* message;
  };
  const Row rows[] = {
      {{}, "no subcommand is given; there are train, finetune, time, plan, "},
      {{"trian"}, "; did you mean train?"},
      {{"trian"}, "there is no subcommand \"trian\"; there are train, "},
      {{"sail-away"}, "`stowage --help` says what each of them does\n"},
      {{"--versoin"}, "there is no flag \"--versoin\" before a subcommand; "},
      {{"--versoin"}, "; did you mean --version?"},
      {{"plan", "--modell", "mlp"},
       "plan has no flag --modell; `stowage plan --help` lists what there is; "
       "did you mean --model?"},
      {{"train", "--model", "mlp", "--dat", "x"}, "; did you mean --data?"},
      {{"train", "--data", "x", "--clipnorm=1"},
       "train has no flag --clipnorm; "},
      {{"models", "extra"}, "models takes no argument \"extra\""},
      {{"train", "--model", "mlp"}, "--data is required"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(row.arguments);
    INFO(row.message, " / ", outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
}

TEST_CASE("plan and report never write over what they read") {
  const std::string plan = TempPath("kept.plan");
  REQUIRE(RunStowage({"plan", "--model", "mlp", "--no-plan-cache", "-o", plan})
              .exit_code == 0);
  const std::string before = ReadAll(plan);
  const std::string graph = WriteTemp("kept.graph", "stowage-ir 1\n");
  const std::vector<std::vector<std::string>> commands = {
      {"report", plan, "--format", "json", "-o", plan},
      {"report", plan, plan, "-o", plan},
      {"plan", "--graph", graph, "-o", graph},
      {"plan", "--model", "mlp", "-o", plan, "--html", plan}};
  for (const auto& command : commands) {
    const Outcome outcome = RunStowage(command);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("give") != std::string::npos);
  }
  CHECK(ReadAll(plan) == before);
  CHECK(ReadAll(graph) == "stowage-ir 1\n");
}

TEST_CASE("numbers are decimal, alone, and fit 64 bits") {
  const auto error_of = [](const std::string& option,
                           const std::string& value) {
    const Outcome outcome =
        RunStowage({"train", "--model", "mlp", "--data", "x", option, value});
    INFO(option, " ", value);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  for (const char* option : {"--batch", "--steps", "--seed"}) {
    for (const char* value : {"0x10", " 3", "+3", "3 ", "1e3", "1.0", "-"}) {
      CHECK(error_of(option, value).find("is no whole number") !=
            std::string::npos);
    }
    CHECK(error_of(option, "9223372036854775808")
              .find("9223372036854775808 does not fit 64 bits") !=
          std::string::npos);
  }
  for (const char* value : {"0x1p-3", " 0.1", "0.1 ", "nan", "inf"}) {
    CHECK(error_of("--lr", value).find("is no number") != std::string::npos);
  }
  CHECK(error_of("--lr", "1e999").find("1e999 is no number") !=
        std::string::npos);
  // The words are about the file.
  CHECK(error_of("--batch", "3").find("\"x\"") != std::string::npos);
  CHECK(error_of("--lr", "1e-3").find("\"x\"") != std::string::npos);
}

TEST_CASE("help that cannot be printed is an error") {
  for (const char* flag : {"--help", "--version"}) {
    const Outcome outcome = RunStowageInto("/dev/full", {flag});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == "stowage: [file] stdout cannot be written\n");
  }
}

TEST_CASE("what is no file, or too large a one, is not read") {
  const std::string large = WriteTemp("large.csv", "");
  std::filesystem::resize_file(large, (int64_t{1} << 30) + 1);  // of holes
  for (const char* command : {"check", "pack", "report"}) {
    INFO(command);
    const Outcome device = RunStowage({command, "/dev/zero"});
    CHECK(device.exit_code == 2);
    CHECK(device.err.find("\"/dev/zero\" cannot be read: it is a device") !=
          std::string::npos);
    const Outcome outcome = RunStowage({command, large});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("it has 1073741825 bytes; at most 1073741824 are "
                           "read") != std::string::npos);
  }
}

TEST_CASE("a pipe is read to its end, and is refused where nobody writes") {
  const std::string csv = "id,lower,upper,size\na,0,2,64\nb,1,3,64\n";
  const std::string fifo = TempPath("pipe");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const Outcome alone = RunStowage({"pack", fifo});
  CHECK(alone.exit_code == 2);
  CHECK(alone.err ==
        StrCat("stowage: [file] ", Quoted(fifo),
               " cannot be read: it is a pipe that nobody writes to; start its "
               "writer first\n"));
  // In two parts: the rest is waited for.
  const pid_t writer = fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    const int out = open(fifo.c_str(), O_WRONLY);  // waits for the reader
    const bool first = write(out, csv.data(), 30) == 30;
    usleep(50'000);
    const auto rest = static_cast<ssize_t>(csv.size() - 30);
    _exit(first && write(out, csv.data() + 30, csv.size() - 30) == rest ? 0
                                                                        : 1);
  }
  const Outcome packed = RunStowage({"pack", fifo, "--json"});
  int status = 0;
  REQUIRE(waitpid(writer, &status, 0) == writer);
  CHECK(status == 0);
  CHECK(packed.exit_code == 0);
  CHECK(packed.out.find("\"height\":128") != std::string::npos);
}

TEST_CASE("nothing waits for a pipe that nobody reads") {
  const std::string pipe = TempPath("unread.pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const char* const option : {"-o", "--svg"}) {
    const Outcome outcome =
        RunStowage({"plan", "--model", "mlp", option, pipe});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("cannot be written: it is a pipe that nobody "
                           "reads") != std::string::npos);
  }
}

TEST_CASE("a message is no longer than a screen or two") {
  const std::string long_name(1'000'000, 'x');
  const Outcome outcome = RunStowage(
      {"pack", WriteTemp("long.csv", "id,lower,upper," + long_name + "\n")});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.size() < 5000);
  CHECK(outcome.err.find(" bytes are left out here] ") != std::string::npos);
}

TEST_CASE("a byte order mark before a text is passed over") {
  const std::string mark = "\xEF\xBB\xBF";
  const std::string csv =
      WriteTemp("marked.csv", mark + "id,lower,upper,size\na,0,1,4\n");
  CHECK(RunStowage({"pack", csv}).exit_code == 0);
  const std::string plan = TempPath("marked.plan");
  REQUIRE(RunStowage({"plan", "--model", "mlp", "-o", plan}).exit_code == 0);
  WriteTemp("marked.plan", mark + ReadAll(plan));
  CHECK(RunStowage({"check", plan}).exit_code == 0);
  CHECK(RunStowage({"report", plan}).exit_code == 0);
  const std::string config = WriteTemp("marked.toml", mark + "batch = 8\n");
  CHECK(RunStowage({"plan", "--model", "mlp", "--config", config}).exit_code ==
        0);
}

TEST_CASE("the folder that Bazel was called in is that of bazel run alone") {
  const std::string here = TempPath("called"), other = TempPath("of-bazel");
  std::filesystem::create_directories(here);
  std::filesystem::create_directories(other);
  WriteTemp("called/buffers.csv", "id,lower,upper,size\na,0,1,4\n");
  const int status = std::system(
      StrCat("program=$PWD/tools/stowage; cd '", here,
             "' && BUILD_WORKING_DIRECTORY='", other,
             "' \"$program\" pack buffers.csv -o packed.csv > /dev/null")
          .c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(std::filesystem::exists(here + "/packed.csv"));
  CHECK_FALSE(std::filesystem::exists(other + "/packed.csv"));
}

TEST_CASE("an option given twice means what was given last") {
  const Outcome outcome =
      RunStowage({"plan", "--model", "gpt2-124m", "--json", "--model", "mlp"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("\"model\":\"mlp\"") != std::string::npos);
}

TEST_CASE("models lists names, parameter counts and defaults") {
  const Outcome text = RunStowage({"models"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("gpt2-124m    124,439,808") != std::string::npos);

  const Outcome json = RunStowage({"models", "--json"});
  CHECK(json.exit_code == 0);
  const nlohmann::json models = nlohmann::json::parse(json.out);
  REQUIRE(models.size() == 12);
  CHECK(models[0]["name"] == "mlp");
  CHECK(models[0]["seq"].is_null());
  CHECK(models[10]["name"] == "gpt2-124m");
  // Vocabulary 50257, 1024 positions, 12 layers of width 768.
  CHECK(models[10]["params"] ==
        (50257 + 1024) * 768 + 12 * (12 * 768 * 768 + 13 * 768) + 2 * 768);
  CHECK(models[10]["batch"] == 4);
  CHECK(models[10]["seq"] == 1024);
}

}  // namespace
}  // namespace stowage::testing
