// Every option of every command with every subject: what is given is applied, which shows
// in what is printed or written, or is refused by its name. Nothing is passed over.
//
// Options are those that the command's help lists. One that is added needs a value below
// that is not its default; the test says so.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr char kNet[] = "tests/goldens/onnx/images_dynamo.onnx";
constexpr char kArrays[] = "tests/goldens/onnx/images.npz";
constexpr char kModels[] = "tests/goldens/pretrained/";

// A command that succeeds by itself, and the options that make it up.
struct Subject {
  std::string name;
  Words command;
  // Other values, where those of kValues mean nothing here.
  std::map<std::string, Words> values = {};
};

// A value that is not the default; none for a flag. "@NAME" is a file of this test's.
const std::map<std::string, Words>& Values() {
  static const std::map<std::string, Words> values = {
      {"--adapter", {"@adapter"}},
      {"--attention-dropout", {"0.3"}},
      {"--allow-batch-change", {}},
      {"--arena", {"caller"}},
      {"--batch", {"6"}},
      {"--beta", {"0.7"}},
      {"--budget", {"300MB"}},
      {"--certificate", {"@out.certificate"}},
      {"--chat", {}},
      {"--check", {}},
      {"--classifier-dropout", {"0.4"}},
      {"--clip-norm", {"0.001"}},
      {"--config", {"@config.toml"}},
      {"--continue", {"@continued.ck"}},
      {"--cpu-target", {"v3"}},
      {"--data", {"@other.csv"}},
      {"--device", {"cuda"}},
      {"--dim", {"batch=2"}},
      {"--document-prompt", {"so"}},
      {"--dora", {}},
      {"--dry-run", {}},
      {"--dtype", {"bf16"}},
      {"--ema", {"0.5"}},
      {"--epochs", {"1"}},
      {"--eval-every", {"1"}},
      {"--evaluate", {}},
      {"--explain", {}},
      {"--fit", {"order"}},
      {"--fit-optimizer", {}},
      {"--freeze", {"*.bias"}},
      {"--full", {}},
      {"--gamma", {"0.9"}},
      {"--graph", {"@graph.ir"}},
      {"--held-out-batches", {"1"}},
      {"--hidden-dropout", {"0.2"}},
      {"--hold-out", {"0.25"}},
      {"--html", {"@out.html"}},
      {"--init", {"@weights.safetensors"}},
      {"--init-allow-missing", {"*"}},
      {"--init-allow-unused", {"*"}},
      {"--init-rename", {"a=b"}},
      {"--init-transpose", {"fc1.weight"}},
      {"--input-map", {"x=x"}},
      {"--json", {}},
      {"--negatives", {"0"}},
      {"--pooling", {"cls"}},
      {"--query-prompt", {"film"}},
      {"--recompute-keep", {"fc1"}},
      {"--keep-last", {"2"}},
      {"--label-smoothing", {"0.3"}},
      {"--lengths", {"8,16"}},
      {"--link", {"10GbE"}},
      {"--list-params", {}},
      {"--log", {"@log.csv"}},
      {"--lora-alpha", {"3"}},
      {"--lora-dropout", {"0.5"}},
      {"--lora-init", {"pissa"}},
      {"--lora-plus", {"16"}},
      {"--lora-rank", {"3"}},
      {"--lora-targets", {"fc1.weight"}},
      {"--loss", {"mse"}},
      {"--loss-scale", {"8"}},
      {"--lr", {"0.5"}},
      {"--merged-type", {"q8_0"}},
      {"--metrics", {"accuracy,f1_macro"}},
      {"--micro-batches", {"2"}},
      {"--min-lr", {"1e-6"}},
      {"--model", {"mlp"}},
      {"--momentum", {"0.3"}},
      {"--no-decay", {"*"}},
      {"--max", {"batch", "--budget", "300MB"}},
      {"--no-plan-cache", {}},
      {"--objective", {"orpo"}},
      {"--offload", {"auto"}},
      {"--offload-dir", {"@offload", "--offload", "disk"}},
      {"--on-nonfinite", {"skip"}},
      {"--onnx", {kNet}},
      {"--op-times", {"@times"}},
      {"--optimizer", {"lion"}},
      {"--order", {"memory"}},
      {"--output", {"@out.bytes"}},
      {"--pack", {}},
      {"--packer", {"linear"}},
      {"--pareto", {}},
      {"--patience", {"1"}},
      {"--plan-cache", {"@plans"}},
      {"--power", {"2"}},
      {"--prefix", {"net"}},
      {"--prompt", {"The"}},
      {"--ranks", {"2"}},
      {"--recompute", {"auto"}},
      {"--recompute-always", {"fc1"}},
      {"--region", {"sram=1MiB"}},
      {"--resume", {"@run.ck"}},
      {"--roofline", {"h100"}},
      {"--rslora", {}},
      {"--sample", {"5"}},
      {"--save", {"@saved.ck"}},
      {"--save-adapter", {"@saved_adapter"}},
      {"--save-as", {"sharded"}},
      {"--save-every", {"1"}},
      {"--save-merged", {"@merged.safetensors"}},
      {"--save-onnx", {"@saved.onnx"}},
      {"--save-weights", {"@saved.safetensors"}},
      {"--schedule", {"linear"}},
      {"--seed", {"7"}},
      {"--simd", {"32"}},
      {"--seq", {"12"}},
      {"--shape", {"x=2,3,16,16"}},
      {"--shard", {"states"}},
      {"--shuffle", {"none"}},
      {"--similarity-scale", {"7"}},
      {"--stand-ins", {}},
      {"--steps", {"3"}},
      {"--stop-at", {"1"}},
      {"--svg", {"@out.svg"}},
      {"--symmetric", {}},
      {"--temperature", {"0.1"}},
      {"--threads", {"3"}},
      {"--tiles", {"auto"}},
      {"--time-limit", {"1"}},
      {"--tokenizer", {"@tokenizer.json"}},
      {"--too-long", {"drop"}},
      {"--top-k", {"1"}},
      {"--top-p", {"0.1"}},
      {"--traffic", {}},
      {"--train", {}},
      {"--trainable", {"val_*"}},
      {"--warmup", {"1"}},
      {"--weight-decay", {"0.9"}},
      {"--weights", {"@weights.safetensors"}},
  };
  return values;
}

// Applied, and nothing that is compared here shows it: why.
const std::map<std::string, std::string_view>& Silent() {
  static const std::map<std::string, std::string_view> silent = {
      {"--no-plan-cache",
       "nothing is in the cache, and it has a folder of its own"},
      {"--allow-batch-change", "allows what these steps do not need"},
      {"--check", "finds nothing"},
      {"--on-nonfinite", "all is finite"},
      {"--patience", "the run ends before"},
      {"--op-times", "has the times of these ops, or is not there"},
      {"--seed", "of what is drawn, which plans and times do not show"},
      {"plan --weight-decay", "a factor of the same update"},
      {"plan --no-decay", "likewise"},
      {"plan --stand-ins", "every op is known"},
      {"plan --train", "as it is without"},
      {"--fit", "without a budget nothing is to be fitted"},
      {"--recompute", "likewise"},
      {"--offload", "likewise"},
      {"--offload-dir", "likewise"},
      {"--tiles", "likewise"},
      {"--order", "another order may need as many bytes"},
      {"--input-map", "as it is without"},
      {"time --data", "other numbers, in the same time"},
      {"time --config", "a seed"},
      {"time --steps", "their number is not compared"},
      {"time --budget", "which is not in the way"},
      {"--cpu-target", "a target's scratch may be as large as another's"},
      {"--threads",
       "steps have the same bits; a plan's scratch may be the same"},
  };
  return silent;
}

// The long options that a command's help lists.
std::vector<std::string> OptionsOf(const std::string& command) {
  const Outcome help = RunStowage({command, "--help"});
  REQUIRE(help.exit_code == 0);
  std::vector<std::string> options;
  std::istringstream lines(help.out);
  static const std::regex option("^  (?:-\\w,)?(--[a-z-]+)\\b.*");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, option) && match[1] != "--help") {
      options.push_back(match[1]);
    }
  }
  return options;
}

fs::path Folder() { return TempPath("files"); }

std::string Named(const std::string& word) {
  return word.starts_with('@') ? (Folder() / word.substr(1)).string() : word;
}

// What of a value a trace holds, whose numbers are dropped: of a file its name.
std::string Shown(const std::string& word) {
  return word.starts_with('@') ? StrCat("/", word.substr(1)) : word;
}

// Without what the clock, the machine and the names of files decide.
void DropTimes(Json* json) {
  if (json->is_array()) {
    for (Json& each : *json) DropTimes(&each);
  }
  if (!json->is_object()) return;
  for (auto entry = json->begin(); entry != json->end();) {
    const std::string& key = entry.key();
    const bool is_time = key.find("second") != std::string::npos ||
                         key.find("rss") != std::string::npos ||
                         key == "cache";  // whether a plan was made before
    if (is_time) {
      entry = json->erase(entry);
    } else {
      DropTimes(&entry.value());
      ++entry;
    }
  }
}

// What a run has printed, and the files that it has left.
std::string TraceOf(const Words& command) {
  const Outcome outcome = RunStowage(command);
  std::string trace = StrCat(outcome.exit_code, "\n");
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
      trace += line + "\n";
      continue;
    }
    DropTimes(&json);
    trace += json.dump() + "\n";
  }
  static const std::regex number("\\b[0-9]+(?:[.,][0-9]+)*\\b");
  trace += std::regex_replace(outcome.err, number, "N");
  std::set<std::string> files;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(Folder())) {
    files.insert(entry.path().string());
  }
  for (const std::string& file : files) {
    trace += file + "\n";
    if (file.ends_with(".c")) trace += ReadAll(file);
    if (!file.ends_with(".times")) continue;
    // A line for each op, whose second number is its time.
    static const std::regex time("\n([0-9]+) [0-9]+ ");
    trace += std::regex_replace(ReadAll(file), time, "\n$1 ");
  }
  return trace;
}

// A tokenizer of single bytes.
std::string Tokenizer() {
  Json vocabulary = Json::object();
  for (const char* const token :
       {"a", "b", "c", "d",      "e", "f", "g",      "h", "i",
        "k", "l", "m", "n",      "o", "p", "r",      "s", "t",
        "u", "w", "y", "\u0120", ".", ":", "\u010a", "0", "1",
        "2", "3", "4", "5",      "6", "7", "8",      "9", "th"}) {
    vocabulary[token] = vocabulary.size();
  }
  const Json file = {
      {"version", "1.0"},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"t h"}}}}};
  return file.dump();
}

// The files that options name, as they were before the first.
void MakeFiles() {
  fs::remove_all(Folder());
  fs::create_directories(Folder());
  const auto write = [](const char* name, const std::string& content) {
    fs::rename(WriteTemp(name, content), Folder() / name);
  };
  write("digits.csv", SomeDigits());
  std::string other = SomeDigits();
  std::ranges::replace(other, '3', '9');
  write("other.csv", other);
  write("config.toml", "seed = 3\n");
  write("text.txt", SomeText());
  write("tokenizer.json", Tokenizer());
  write("graph.ir", SomeGraph());
  std::string pairs;
  for (int i = 0; i < 24; ++i) {
    pairs +=
        StrCat(R"({"prompt": "a ", "chosen": "so )", i, R"(", "rejected": ")",
               i == 3 ? "no no no no no" : "no", "\"}\n");
  }
  write("pairs.jsonl", pairs);
  std::string labeled = "text,label\n";
  for (int i = 0; i < 80; ++i) {
    labeled += StrCat(i == 3 ? "a film and a film and a film" : "the film is ",
                      i % 3 == 0 ? "good" : "bad", ",", i % 3 == 0, "\n");
  }
  write("films.csv", labeled);
  std::string queries;
  for (int i = 0; i < 80; ++i) {
    const char* const other = i % 2 == 0 ? "good" : "bad";
    queries += StrCat(R"({"query": "the film is )", other, R"(", "pos": ")",
                      i == 3 ? "a film and a film and a film" : "a film", " ",
                      i % 7 == 0 ? "so " : "", other, R"(", "neg": ["not )",
                      other, "\"]}\n");
  }
  write("queries.jsonl", queries);
}

Words Whole(Words command, const Words& more) {
  command.insert(command.end(), more.begin(), more.end());
  std::ranges::transform(command, command.begin(), Named);
  return command;
}

// The files that options name, and of commands that train what the command itself saves.
void MakeFiles(const Words& command) {
  MakeFiles();
  if (command[0] != "train" && command[0] != "finetune") return;
  const Outcome saved =
      RunStowage(Whole(command, {"--stop-at", "1", "--save", "@run.ck",
                                 "--save-weights", "@weights.safetensors"}));
  REQUIRE_MESSAGE(saved.exit_code == 0, saved.err);
}

bool Has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

void CheckOptions(const Subject& subject) {
  CAPTURE(subject.name);
  MakeFiles(subject.command);
  const fs::path before = TempPath("before");
  fs::remove_all(before);
  fs::copy(Folder(), before, fs::copy_options::recursive);
  const std::string plain = TraceOf(Whole(subject.command, {}));
  REQUIRE_MESSAGE(plain.starts_with("0\n"), plain);
  for (const std::string& option : OptionsOf(subject.command[0])) {
    CAPTURE(option);
    const auto own = subject.values.find(option);
    const auto known = Values().find(option);
    if (known == Values().end()) {
      FAIL_CHECK("this option has no value in Values(); give it one");
      continue;
    }
    const Words& value =
        own != subject.values.end() ? own->second : known->second;
    // What the command has already.
    if (Has(subject.command, value.empty() ? option : value[0])) continue;
    Words more = {option};
    more.insert(more.end(), value.begin(), value.end());
    fs::remove_all(Folder());
    fs::copy(before, Folder(), fs::copy_options::recursive);
    const std::string trace = TraceOf(Whole(subject.command, more));
    INFO(trace);
    if (trace.starts_with("0\n")) {
      const bool shows = trace != plain;
      const std::string here = StrCat(subject.command[0], " ", option);
      CHECK((shows || Silent().contains(option) || Silent().contains(here)));
    } else {
      // By its name, or by the value; a GPU by what is missing.
      const std::regex name(StrCat("\\b", option.substr(2), "\\b"));
      const bool is_named =
          std::regex_search(trace, name) ||
          (option == "--device" && trace.find("NVIDIA") != std::string::npos) ||
          (!value.empty() && trace.find(Shown(value[0])) != std::string::npos);
      CHECK(is_named);
    }
  }
}

TEST_CASE("every option of plan is applied or refused") {
  const Words model = {"plan", "--model", "mlp", "--batch", "8", "--json"};
  const Words onnx = {"plan", "--onnx", kNet, "--json"};
  Words trained = onnx;
  trained.insert(trained.end(), {"--loss", "cross_entropy"});
  CheckOptions({"a built-in model", model});
  CheckOptions({"an ONNX file", onnx});
  CheckOptions({"an ONNX file that is trained", trained});
  CheckOptions({"a graph", {"plan", "--graph", "@graph.ir", "--json"}});
}

TEST_CASE("every option of compile is applied or refused") {
  const Words to = {"-o", "@step.c", "--json"};
  for (Words from : {Words{"compile", "--model", "mlp", "--batch", "8"},
                     {"compile", "--graph", "@graph.ir"},
                     {"compile", "--onnx", kNet, "--loss", "cross_entropy"}}) {
    from.insert(from.end(), to.begin(), to.end());
    CheckOptions({from[1], from});
  }
}

TEST_CASE("every option of train is applied or refused") {
  CheckOptions({"a model of images",
                {"train", "--model", "mlp", "--data", "@digits.csv", "--batch",
                 "8", "--steps", "2", "--device", "cpu", "--json"}});
  CheckOptions({"a model of text",
                {"train", "--model", "gpt-nano", "--data", "@text.txt",
                 "--batch", "2", "--seq", "8", "--steps", "2", "--device",
                 "cpu", "--sample", "0", "--json"},
                {{"--data", {"@config.toml"}},
                 {"--lora-rank", {"3", "--lora-targets", "*c_fc*"}},
                 {"--lora-targets", {"*c_fc*"}},
                 {"--init-transpose", {"*c_fc*"}}}});
  CheckOptions({"an ONNX file",
                {"train", "--onnx", kNet, "--data", kArrays, "--loss",
                 "cross_entropy", "--steps", "2", "--device", "cpu", "--json"},
                {{"--data", {"@digits.csv"}},
                 {"--loss", {"nothing"}},
                 {"--warmup", {"0.9"}}}});
}

TEST_CASE("every option of time is applied or refused") {
  CheckOptions({"a built-in model",
                {"time", "--model", "mlp", "--data", "@digits.csv", "--batch",
                 "8", "--steps", "1", "--device", "cpu", "-o", "@of.times"}});
  CheckOptions(
      {"an ONNX file",
       {"time", "--onnx", kNet, "--data", kArrays, "--loss", "cross_entropy",
        "--steps", "1", "--device", "cpu", "-o", "@of.times"},
       {{"--data", {"@digits.csv"}}, {"--loss", {"nothing"}}}});
}

TEST_CASE("every option of finetune is applied or refused") {
  for (const std::string weights : {"qwen2.gguf", "gpt2"}) {
    CheckOptions(
        {weights,
         {"finetune", "--weights", StrCat(kModels, weights), "--tokenizer",
          "@tokenizer.json", "--data", "@text.txt", "--batch", "2", "--seq",
          "8", "--steps", "2", "--device", "cpu", "--sample", "0", "--json"},
         {{"--data", {"@config.toml"}},
          {"--weights", {StrCat(kModels, "llama")}}}});
  }
  CheckOptions({"pairs of answers",
                {"finetune",
                 "--weights",
                 StrCat(kModels, "qwen2.gguf"),
                 "--tokenizer",
                 "@tokenizer.json",
                 "--data",
                 "@pairs.jsonl",
                 "--objective",
                 "simpo",
                 "--batch",
                 "1",
                 "--seq",
                 "12",
                 "--steps",
                 "2",
                 "--device",
                 "cpu",
                 "--sample",
                 "0",
                 "--json"},
                {{"--data", {"@config.toml"}},
                 {"--weights", {StrCat(kModels, "llama")}}}});
  CheckOptions(
      {"texts with labels",
       {"finetune", "--weights", "tests/goldens/encoders/bert-base", "--data",
        "@films.csv", "--objective", "classify", "--batch", "6", "--seq", "9",
        "--steps", "2", "--device", "cpu", "--json"},
       {{"--data", {"@config.toml"}},
        {"--batch", {"4"}},
        {"--seq", {"8"}},
        {"--lengths", {"6,9"}},
        {"--lora-targets", {"query"}},
        {"--save-merged", {"@merged"}},
        {"--weights", {StrCat(kModels, "llama")}}}});
  CheckOptions(
      {"queries and documents",
       {"finetune", "--weights", "tests/goldens/encoders/bert-base", "--data",
        "@queries.jsonl", "--objective", "embed", "--batch", "6", "--seq", "9",
        "--steps", "2", "--device", "cpu", "--json"},
       {{"--data", {"@config.toml"}},
        {"--batch", {"4"}},
        {"--seq", {"8"}},
        {"--lengths", {"6,9"}},
        {"--lora-targets", {"query"}},
        {"--save-merged", {"@merged"}},
        {"--weights", {StrCat(kModels, "gpt2")}}}});
}

}  // namespace
}  // namespace stowage::testing
