#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;
TEST_CASE("a batch in micro-batches trains as the whole batch does") {
  const std::vector<Json> whole = TrainMlp({});
  const std::vector<Json> micro_batches = TrainMlp({"--micro-batches", "3"});
  REQUIRE(whole.size() == micro_batches.size());
  for (size_t i = 0; i + 1 < whole.size(); ++i) {
    const double loss = whole[i]["loss"];
    CHECK(micro_batches[i]["loss"].get<double>() ==
          doctest::Approx(loss).epsilon(1e-5));
  }
  CHECK(micro_batches.back()["validation_loss"].get<double>() ==
        doctest::Approx(whole.back()["validation_loss"].get<double>())
            .epsilon(1e-4));
}

// SomeText as tokens of a character model, in two bytes each.
std::string SomeTokens() {
  std::string tokens;
  for (const char c : SomeText()) {
    tokens += c == '\n' ? '\0' : static_cast<char>(c - ' ' + 1);
    tokens += '\0';
  }
  return tokens;
}

std::vector<Json> TrainNano(const std::string& data,
                            const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "train", "--model", "gpt-nano", "--data", data,      "--batch",
      "2",     "--seq",   "16",       "--json", "--steps", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = RunStowage(arguments);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  return JsonLines(outcome.out);
}

TEST_CASE("a file of tokens trains as the text that it spells") {
  const std::string text = WriteTemp("spelt.txt", SomeText());
  const std::string path = WriteTemp("spelt.bin", SomeTokens());
  const std::string saved = TempPath("spelt.safetensors");
  const std::vector<Json> spelt = TrainNano(text);
  const std::vector<Json> tokens = TrainNano(path, {"--save", saved});
  REQUIRE(spelt.size() == tokens.size());
  for (size_t i = 0; i + 1 < spelt.size(); ++i) {
    CHECK(tokens[i]["loss"] == spelt[i]["loss"]);
  }
  CHECK(tokens.back()["validation_loss"] == spelt.back()["validation_loss"]);
  CHECK(AllocatedNothing(tokens.back()));

  // In shards, of which one is held out.
  const std::string folder = TempPath("shards");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/train_1.bin") << SomeTokens();
  std::ofstream(folder + "/val.bin") << SomeTokens().substr(0, 200);
  const std::vector<Json> shards = TrainNano(folder);
  CHECK(shards.back()["validation_loss"] != spelt.back()["validation_loss"]);

  // A resumed run reports another corpus.
  std::ofstream(folder + "/train_2.bin") << SomeTokens();
  const Outcome resumed = RunStowage(
      {"train", "--model", "gpt-nano", "--data", folder, "--batch", "2",
       "--seq", "16", "--json", "--steps", "6", "--resume", saved});
  CHECK(resumed.exit_code == 0);
  CHECK(resumed.err.find("resume: data was spelt.bin (1 file") !=
        std::string::npos);
}

TEST_CASE("tokens that a model lacks end a run, with file and place") {
  std::string tokens = SomeTokens();
  for (size_t i = 0; i < tokens.size(); i += 2) tokens[i] = 96;
  const std::string path = WriteTemp("beyond.bin", tokens);
  const Outcome outcome =
      RunStowage({"train", "--model", "gpt-nano", "--data", path, "--batch",
                  "2", "--seq", "16", "--steps", "2"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("beyond.bin\" has token 96 at position") !=
        std::string::npos);
  CHECK(outcome.err.find("the model's vocabulary is 96") != std::string::npos);
  const Outcome sample = RunStowage({"train", "--model", "gpt-nano", "--data",
                                     path, "--sample", "20", "--steps", "2"});
  CHECK(sample.exit_code == 2);
  CHECK(sample.err.find("give their tokenizer by --tokenizer") !=
        std::string::npos);
  const Outcome text =
      RunStowage({"train", "--model", "gpt2-124m", "--data",
                  WriteTemp("novel.bin", SomeText()), "--steps", "2"});
  CHECK(text.exit_code == 2);
  CHECK(text.err.find("novel.bin\" is a text") != std::string::npos);
  const Outcome few = RunStowage(
      {"train", "--model", "gpt-nano", "--data",
       WriteTemp("few.bin", SomeTokens().substr(0, 100)), "--steps", "2"});
  CHECK(few.exit_code == 2);
  CHECK(few.err.find("45 to train on, 5 held out; no file to train on has") !=
        std::string::npos);
}

TEST_CASE("a run with states on the host is the one without, and resumes it") {
  const Outcome planned =
      RunStowage({"plan", "--model", "mlp", "--batch", "8", "--device", "cpu",
                  "--optimizer", "adamw", "--offload", "auto", "--json"});
  REQUIRE(planned.exit_code == 0);
  const Json plan = Json::parse(planned.out);
  const int64_t smallest = plan["minimum_budget_bytes"];
  REQUIRE(smallest < plan["arena_bytes"]);
  const auto train = [&](std::vector<std::string> more, bool moves) {
    more.insert(more.end(), {"--optimizer", "adamw"});
    if (moves) {
      more.insert(more.end(),
                  {"--offload", "auto", "--budget", StrCat(smallest)});
    }
    return TrainMlp(more);
  };
  const std::string whole = TempPath("in_arena.safetensors");
  const std::vector<Json> in_arena = train({"--save", whole}, false);
  const std::vector<Json> on_host = train({}, true);
  REQUIRE(in_arena.size() == on_host.size());
  for (size_t i = 0; i + 1 < in_arena.size(); ++i) {
    CHECK(on_host[i]["loss"] == in_arena[i]["loss"]);
  }
  CHECK(on_host.back()["validation_loss"] ==
        in_arena.back()["validation_loss"]);
  CHECK(on_host.back()["arena_bytes"] <= smallest);
  CHECK(on_host.back()["host_bytes"] > 0);
  CHECK(in_arena.back()["host_bytes"] == 0);

  for (const bool moves : {true, false}) {
    const std::string part = TempPath("part_on_host.safetensors");
    const std::string rest = TempPath("rest_on_host.safetensors");
    train({"--stop-at", "4", "--save", part}, moves);
    train({"--resume", part, "--save", rest}, !moves);
    CHECK(ReadAll(rest) == ReadAll(whole));
  }
}

TEST_CASE("train --json prints one object a step and one at the end") {
  const std::vector<Json> lines = TrainMlp({"--budget", "8MiB"});
  REQUIRE(lines.size() == 7);
  for (size_t i = 0; i < 6; ++i) {
    const Json& line = lines[i];
    CHECK(line["step"] == i + 1);
    CHECK(line["loss"] > 0);
    CHECK(line["lr"] > 0);
    CHECK(line["step_seconds"] > 0);
    CHECK(line["tokens_per_second"] > 0);
    CHECK(line["budget_bytes"] == 8388608);
    CHECK(line["arena_bytes"] <= 8388608);
    CHECK(line["lower_bound_bytes"] <= line["arena_bytes"]);
    CHECK(line["saved_bytes"] == line["no_reuse_bytes"].get<int64_t>() -
                                     line["arena_bytes"].get<int64_t>());
    CHECK(line.size() == 12);
  }
  const Json& end = lines[6];
  CHECK(end["done"] == true);
  CHECK(end["steps"] == 6);
  CHECK(end["validation_loss"] > 0);
  CHECK(end["accuracy"] >= 0);
  CHECK(end["accuracy"] <= 1);
  CHECK(end["arena_bytes"] == lines[0]["arena_bytes"]);
  CHECK(end["peak_rss_bytes"] > end["arena_bytes"]);
  CHECK(AllocatedNothing(end));
  CHECK(end["seconds"] > 0);
  CHECK(end["device"] == "cpu");
}

TEST_CASE("without a budget the budget is null") {
  CHECK(TrainMlp({})[0]["budget_bytes"].is_null());
}

TEST_CASE("training lowers the loss, and is the same each time for one seed") {
  const std::vector<Json> once = TrainMlp({"--steps", "60"});
  CHECK(once[59]["loss"] < 0.5 * once[0]["loss"].get<double>());
  const std::vector<Json> again = TrainMlp({"--steps", "60"});
  const std::vector<Json> other = TrainMlp({"--steps", "60", "--seed", "2"});
  for (size_t i = 0; i < 60; ++i) {
    CHECK(once[i]["loss"] == again[i]["loss"]);
  }
  CHECK(once[0]["loss"] != other[0]["loss"]);
}

TEST_CASE("a run stopped, saved and resumed ends as the uninterrupted one") {
  const std::string whole = TempPath("whole.safetensors");
  const std::string part = TempPath("part.safetensors");
  const std::string rest = TempPath("rest.safetensors");
  const std::vector<Json> uninterrupted = TrainMlp({"--save", whole});
  const std::vector<Json> first = TrainMlp({"--stop-at", "4", "--save", part});
  const std::vector<Json> second = TrainMlp({"--resume", part, "--save", rest});
  REQUIRE(first.size() == 5);
  REQUIRE(second.size() == 3);
  CHECK(second[0]["step"] == 5);
  CHECK(second[0]["loss"] == uninterrupted[4]["loss"]);
  CHECK(second[1]["loss"] == uninterrupted[5]["loss"]);
  CHECK(second[2]["validation_loss"] == uninterrupted[6]["validation_loss"]);
  CHECK(ReadAll(rest) == ReadAll(whole));

  const Outcome over = RunStowage(Mlp({"--resume", whole}));
  CHECK(over.exit_code == 2);
  CHECK(over.err ==
        "stowage: [train] nothing is left to do: the checkpoint is at step 6 "
        "and the run ends at 6; give more --steps\n");
}

TEST_CASE(
    "a checkpoint that was cut, altered or is another model's is refused") {
  const std::string path = TempPath("good.safetensors");
  TrainMlp({"--steps", "2", "--save", path});
  const std::string whole = ReadAll(path);
  std::string flipped = whole;
  flipped[whole.size() - 100] ^= 1;
  const std::string bad[] = {
      WriteTemp("cut.safetensors", whole.substr(0, whole.size() - 8)),
      WriteTemp("flipped.safetensors", flipped),
      WriteTemp("empty.safetensors", ""),
      TempPath("missing.safetensors"),
  };
  for (const std::string& file : bad) {
    const Outcome outcome = RunStowage(Mlp({"--resume", file}));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.starts_with("stowage: [checkpoint] "));
  }
  const Outcome other = RunStowage(
      {"train", "--model", "gpt-nano", "--data", WriteTemp("t.txt", SomeText()),
       "--batch", "1", "--seq", "8", "--device", "cpu", "--resume", path});
  CHECK(other.exit_code == 2);
  CHECK(other.err.starts_with("stowage: [checkpoint] "));

  // The optimizer's memory is part of what training continues from.
  const Outcome sgd =
      RunStowage(Mlp({"--optimizer", "momentum", "--resume", path}));
  CHECK(sgd.exit_code == 2);
}

TEST_CASE("a run for people ends with losses, accuracy, report and map") {
  const std::string svg = TempPath("train.svg");
  const Outcome outcome = RunStowage(Mlp({"--svg", svg}));
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.starts_with("mlp, 6 steps on cpu: training loss "));
  CHECK(outcome.out.find("held-out accuracy ") != std::string::npos);
  CHECK(outcome.out.find("| lower bound ") != std::string::npos);
  CHECK(outcome.out.find("0 B |ww") != std::string::npos);
  CHECK(ReadAll(svg).starts_with("<svg "));
  // stderr is a file here, no terminal: lines, no carriage returns.
  CHECK(outcome.err.find("step 6/6  loss ") != std::string::npos);
  CHECK(outcome.err.find('\r') == std::string::npos);
  CHECK(outcome.err.find('\x1b') == std::string::npos);
}

TEST_CASE("what cannot be written is known before the first step") {
  const std::string fifo = TempPath("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const std::string folder = TempPath("");
  struct Row {
    std::vector<std::string> more;
    std::string message;  // part of it
  };
  const Row rows[] = {
      {{"--save", "/nowhere/x"},
       "[file] \"/nowhere/x\" cannot be written: No such file or directory"},
      {{"--svg", "/nowhere/x"},
       "[file] \"/nowhere/x\" cannot be written: No such file or directory"},
      {{"--save", fifo}, "it is a pipe, no regular file"},
      {{"--save", "/dev/null"}, "it is a device, no regular file"},
      {{"--save", folder}, "it names a folder"},
      {{"--save", TempPath("events"), "--log", TempPath("events/")},
       "is to be a file, and a folder by that name is made for"},
      {{"--save-weights", TempPath("kept"), "--plan-cache", TempPath("kept")},
       "is to be a file, and a folder by that name is made for"},
      {{"--save", TempPath("of.st"), "--save-every", "1", "--keep-last", "2",
        "--log", TempPath("of.step-2.st/")},
       "is to be a file, and a folder by that name is made for"},
      {{"--save", TempPath("digits.csv")},
       "is what --data reads; an input is "},
      {{"--svg", TempPath("digits.csv")}, "is what --data reads; an input is "},
      {{"--save", TempPath("one"), "--svg", TempPath("./one")},
       "is what --save writes; give each a file of its own"},
      {{"--save", TempPath("was"), "--resume", TempPath("was")},
       "is what --resume reads; an input is never written over"},
      {{"--save", TempPath("was.shards/x"), "--init", TempPath("was")},
       "is in the folder that --init reads; give a file elsewhere"},
  };
  std::filesystem::create_directory(TempPath("was.shards"));
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(Mlp(row.more));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("step 1/") == std::string::npos);
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
  const Outcome bf16 = RunStowage(
      Mlp({"--dtype", "bf16", "--save-weights", TempPath("weights.NPZ")}));
  CHECK(bf16.exit_code == 2);
  CHECK(bf16.err.find("step 1/") == std::string::npos);
  CHECK(bf16.err.find("weights.NPZ\" is an NPZ, which has no bf16, as \"fc") !=
        std::string::npos);
  const Outcome pickled =
      RunStowage(Mlp({"--save-weights", TempPath("weights.pt")}));
  CHECK(pickled.exit_code == 2);
  CHECK(pickled.err.find("weights.pt\" ends in .pt, and safetensors are "
                         "written, or an NPZ; call it .safetensors or .npz") !=
        std::string::npos);
  const std::string npz = TempPath("weights.Npz");
  TrainMlp({"--save-weights", npz});
  CHECK(ReadAll(npz).starts_with("PK"));
  CHECK(ReadAll(TempPath("digits.csv")) == SomeDigits());
}

TEST_CASE("nothing is written over the shards of a checkpoint") {
  const std::string saved = TempPath("sharded.st");
  TrainMlp({"--save", saved, "--save-as", "sharded"});
  const std::string shard =
      std::filesystem::directory_iterator(saved + ".shards")->path().string();
  const std::string bytes = ReadAll(shard);
  for (const char* const option : {"--continue", "--resume", "--save"}) {
    CAPTURE(option);
    const Outcome outcome =
        RunStowage(Mlp({option, saved, "--steps", "9", "--svg", shard}));
    CHECK(outcome.exit_code == 2);
    CHECK_MESSAGE(
        outcome.err.find("is in the folder that --") != std::string::npos,
        outcome.err);
    CHECK(ReadAll(shard) == bytes);
  }
}

TEST_CASE("checkpoints of steps take no input's name, and no output's") {
  const std::string weights = TempPath("kept.step-4.safetensors");
  TrainMlp({"--save-weights", weights});
  const std::string before = ReadAll(weights);
  const auto series = [](const std::string& name,
                         const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--save", TempPath(name), "--save-every",
                                    "2",      "--keep-last",  "2"};
    all.insert(all.end(), more.begin(), more.end());
    return RunStowage(Mlp(all));
  };
  const Outcome read = series("kept.safetensors", {"--init", weights});
  CHECK(read.exit_code == 2);
  CHECK(read.err.find("kept.step-4.safetensors\" is read by this run") !=
        std::string::npos);
  CHECK(ReadAll(weights) == before);
  const Outcome written =
      series("two.safetensors", {"--html", TempPath("two.step-6.safetensors")});
  CHECK(written.exit_code == 2);
  CHECK(written.err.find("has a name that checkpoints of steps of ") !=
        std::string::npos);
  // A run goes on from one of its own, which is the newest under another name.
  REQUIRE(series("three.safetensors", {}).exit_code == 0);
  CHECK(
      series("three.safetensors",
             {"--resume", TempPath("three.step-6.safetensors"), "--steps", "8"})
          .exit_code == 0);
}

// Whose header other programs read as JSON.
TEST_CASE("a checkpoint is safetensors, whatever its data is called") {
  const std::string data = WriteTemp("caf\xE9.csv", SomeDigits());
  const std::string path = TempPath("named.safetensors");
  std::vector<std::string> arguments = Mlp({"--save", path, "--steps", "2"});
  std::ranges::replace(arguments, TempPath("digits.csv"), data);
  const Outcome outcome = RunStowage(arguments);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  const std::string file = ReadAll(path);
  uint64_t size = 0;  // in little-endian
  REQUIRE(file.size() > sizeof(size));
  std::memcpy(&size, file.data(), sizeof(size));
  const Json header = Json::parse(file.substr(sizeof(size), size), nullptr,
                                  /*allow_exceptions=*/false);
  REQUIRE(header.is_object());
  CHECK(header.dump().find("caf\xEF\xBF\xBD.csv") != std::string::npos);
  // And the run that goes on from it is not said to be of other data.
  std::vector<std::string> on = Mlp({"--resume", path, "--steps", "3"});
  std::ranges::replace(on, TempPath("digits.csv"), data);
  const Outcome resumed = RunStowage(on);
  CHECK(resumed.exit_code == 0);
  CHECK(resumed.err.find("data") == std::string::npos);
}

TEST_CASE("results are printed though the checkpoint cannot be written") {
  const std::string path = TempPath("limited.safetensors");
  TrainMlp({"--save", path});
  const std::string before = ReadAll(path);
  const Outcome outcome = RunStowage(Mlp({"--seed", "2", "--save", path}),
                                     {.largest_file = 20'000});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.starts_with("mlp, 6 steps on cpu: training loss "));
  CHECK(outcome.err.find("limited.safetensors\" cannot be written: File too "
                         "large") != std::string::npos);
  CHECK(ReadAll(path) == before);
}

TEST_CASE("an image goes through a device, and does not replace it") {
  CHECK(RunStowage(Mlp({"--svg", "/dev/null"})).exit_code == 0);
}

TEST_CASE("a long run logs about twenty lines") {
  const Outcome outcome = RunStowage(Mlp({"--steps", "100"}));
  CHECK(outcome.exit_code == 0);
  std::istringstream in(outcome.err);
  int lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  CHECK(lines >= 15);
  CHECK(lines <= 25);
}

TEST_CASE("a gpt model trains on text and writes some") {
  const std::string text = WriteTemp("text.txt", SomeText());
  const std::vector<std::string> arguments = {
      "train", "--model", "gpt-nano", "--data", text,       "--batch", "2",
      "--seq", "16",      "--steps",  "2",      "--sample", "20"};
  const Outcome outcome = RunStowage(arguments);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("The model writes (temperature 0.8):\n") !=
        std::string::npos);
  CHECK(RunStowage(arguments).out.substr(0, 60) == outcome.out.substr(0, 60));
}

// Images of 4 x 4 in two classes, of which one is bright above, one below.
std::string SomeImages(const std::string& name, int count) {
  const auto idx = [](char rank, const std::string& dims,
                      const std::string& body) {
    return std::string("\0\0\x08", 3) + rank + dims + body;
  };
  const auto dim = [](int size) {
    return std::string(2, '\0') + static_cast<char>(size >> 8) +
           static_cast<char>(size & 0xFF);
  };
  std::string pixels, labels;
  for (int i = 0; i < count; ++i) {
    labels += static_cast<char>(i % 2);
    for (int at = 0; at < 16; ++at) {
      const bool bright = (at < 8) == (i % 2 == 0);
      pixels += static_cast<char>((bright ? 128 : 0) + (i * 7 + at * 13) % 100);
    }
  }
  const std::string folder = TempPath(name);
  std::filesystem::create_directories(folder);
  WriteTemp(name + "/train-images-idx3-ubyte",
            idx(3, dim(count) + dim(4) + dim(4), pixels));
  WriteTemp(name + "/train-labels-idx1-ubyte", idx(1, dim(count), labels));
  return folder;
}

TEST_CASE("a model of images takes the sizes of the data, and resumes") {
  const std::string folder = SomeImages("images", 300);
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"train", "--model", "mlp",      "--data",
                                    folder,  "--batch", "16",       "--steps",
                                    "12",    "--json",  "--device", "cpu"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(all);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return JsonLines(outcome.out);
  };
  const std::vector<Json> whole = train({});
  REQUIRE(whole.size() == 13);
  CHECK(whole.back()["accuracy"] > 0.9);
  CHECK(AllocatedNothing(whole.back()));
  const std::string saved = TempPath("images.ckpt");
  train({"--stop-at", "5", "--save", saved});
  const std::vector<Json> rest = train({"--resume", saved});
  REQUIRE(rest.size() == 8);
  for (size_t i = 0; i + 1 < rest.size(); ++i) {
    CHECK(rest[i]["step"] == whole[i + 5]["step"]);
    CHECK(rest[i]["loss"] == whole[i + 5]["loss"]);
  }
  CHECK(rest.back()["validation_loss"] == whole.back()["validation_loss"]);

  // Other images of the same labels and means are other data.
  const std::string images = folder + "/train-images-idx3-ubyte";
  std::string bytes = ReadAll(images);
  std::swap_ranges(bytes.begin() + 16, bytes.begin() + 32, bytes.begin() + 48);
  std::ofstream(images, std::ios::binary) << bytes;
  const Outcome other =
      RunStowage({"train", "--model", "mlp", "--data", folder, "--batch", "16",
                  "--steps", "12", "--resume", saved, "--device", "cpu"});
  CHECK(other.exit_code == 0);
  CHECK(other.err.find("resume: data was ") != std::string::npos);

  // A label by mistake makes classes that nothing is of.
  bytes = ReadAll(folder + "/train-labels-idx1-ubyte");
  bytes[bytes.size() - 2] = 9;
  std::ofstream(folder + "/train-labels-idx1-ubyte", std::ios::binary) << bytes;
  const Outcome ten = RunStowage({"train", "--model", "mlp", "--data", folder,
                                  "--steps", "1", "--device", "cpu"});
  CHECK(ten.err.find("of the 10 classes of ") != std::string::npos);
  CHECK((ten.err.find(", 7 have no image to train with") != std::string::npos ||
         ten.err.find(", 8 have no image to train with") != std::string::npos));

  const Outcome inside =
      RunStowage({"train", "--model", "mlp", "--data", folder, "--save",
                  folder + "/train-labels-idx1-ubyte"});
  CHECK(inside.exit_code == 2);
  CHECK(inside.err.find("is in the folder that --data reads") !=
        std::string::npos);
  const Outcome text = RunStowage(
      {"train", "--model", "gpt-nano", "--data", folder, "--steps", "1"});
  CHECK(text.exit_code == 2);
}

TEST_CASE("a unet learns a label for each pixel from an .npz") {
  // Bright pixels are of class 1.
  std::string pixels, labels;
  for (int i = 0; i < 5 * 16 * 16; ++i) {
    const bool bright = i * 7 % 11 < 4;
    pixels += static_cast<char>(bright ? 200 : 20);
    labels += static_cast<char>(bright);
  }
  const std::string data =
      WriteTemp("pixels.npz", *NpzBytes(std::vector<NamedArray>{
                                  {"x", {{DType::kU8, {5, 1, 16, 16}}, pixels}},
                                  {"y", {{DType::kU8, {5, 16, 16}}, labels}}}));
  const Outcome outcome =
      RunStowage({"train", "--model", "unet", "--data", data, "--batch", "2",
                  "--steps", "2", "--optimizer", "sgd", "--json", "--device",
                  "cpu", "--no-plan-cache"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::vector<Json> lines = JsonLines(outcome.out);
  REQUIRE(lines.size() == 3);
  // At first about log 2 for each pixel.
  CHECK(lines[0]["loss"] < 1.5);
  CHECK(lines[0]["loss"] > 0.3);
  // A share of one image's 256 pixels.
  const double right = lines[2]["accuracy"].get<double>() * 256;
  CHECK(right == doctest::Approx(std::round(right)));
}

TEST_CASE("momentum and sgd train too") {
  for (const char* optimizer : {"sgd", "momentum"}) {
    const std::vector<Json> lines =
        TrainMlp({"--optimizer", optimizer, "--steps", "40"});
    INFO(optimizer);
    CHECK(lines[39]["loss"] < lines[0]["loss"]);
  }
}

TEST_CASE("adapters train alone, beside the layers of a built-in model") {
  const std::string weights = TempPath("adapted.safetensors");
  const std::vector<Json> lines =
      TrainMlp({"--lora-rank", "2", "--lora-targets", "fc?.weight", "--steps",
                "40", "--lr", "0.05", "--save-weights", weights});
  CHECK(lines[39]["loss"] < lines[0]["loss"]);
  const std::string header = ReadAll(weights).substr(0, 4096);
  CHECK(header.find("fc1.lora_A.weight") != std::string::npos);
  // Two moments for each number of the adapters, and none of the layers.
  const Outcome plan =
      RunStowage({"plan", "--model", "mlp", "--lora-rank", "2", "--optimizer",
                  "adamw", "--lora-targets", "fc?.weight", "--json"});
  REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  const Outcome whole =
      RunStowage({"plan", "--model", "mlp", "--optimizer", "adamw", "--json"});
  const auto state = [](const Outcome& outcome) -> int64_t {
    return Json::parse(outcome.out)["regions"]["state"];
  };
  CHECK(state(plan) < state(whole) / 4);
  const Outcome lonely =
      RunStowage({"plan", "--model", "mlp", "--lora-targets", "fc?.weight"});
  CHECK(lonely.exit_code == 2);
  CHECK(lonely.err.find("--lora-targets is given, and no adapters are wanted; "
                        "give --lora-rank with it") != std::string::npos);
}

TEST_CASE("what is printed to a closed stdout goes into no file of the run") {
  const std::string folder = TempPath("closed");
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/run.safetensors";
  const Outcome outcome =
      RunStowage(Mlp({"--save", path}), {.closed = {0, 1, 2}});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.empty());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path() != path) CHECK(entry.file_size() == 0);
  }
  CHECK(RunStowage(Mlp({"--init", path, "--steps", "1"})).exit_code == 0);
}

TEST_CASE("a budget too small exits 1 before anything is trained") {
  const Outcome text = RunStowage(Mlp({"--budget", "64KiB"}));
  CHECK(text.exit_code == 1);
  CHECK(text.out.empty());
  CHECK(text.err.starts_with("stowage: [plan] budget 64.0 KiB is below the "));

  const Outcome json = RunStowage(Mlp({"--budget", "64KiB", "--json"}));
  CHECK(json.exit_code == 1);
  const Json object = Json::parse(json.out);
  CHECK(object["fits"] == false);
  CHECK(object["budget_bytes"] == 65536);
  CHECK(object["minimum_budget_bytes"] > 65536);
  CHECK(object["peak_live"].size() > 0);
  const std::string error = object["error"];
  CHECK(error.find("largest live: ") != std::string::npos);
  for (const char* const flag : {"none", "recompute", "offload", "auto"}) {
    CHECK(error.find(StrCat(" with --fit ", flag)) != std::string::npos);
  }
  CHECK(json.err.find(error) != std::string::npos);
}

TEST_CASE("a device that is not there exits 3 with the reason") {
  const Outcome outcome = RunStowage(Mlp({"--device", "cuda"}));
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("stowage: [gpu] "));
}

TEST_CASE("without a GPU, auto is the CPU and says why, in one line") {
  const Outcome outcome = RunStowage(Mlp({"--device", "auto", "--json"}));
  CHECK(outcome.exit_code == 0);
  CHECK(JsonLines(outcome.out).back()["device"] == "cpu");
  CHECK(outcome.err.starts_with("device: cpu, since [gpu] "));
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  const Outcome bf16 = RunStowage(Mlp({"--device", "auto", "--dtype", "bf16"}));
  CHECK(bf16.exit_code == 0);
  CHECK(bf16.err.starts_with("device: cpu, since [gpu] "));
}

TEST_CASE("bf16 trains on the CPU, to losses near those of f32") {
  const std::vector<Json> f32 = TrainMlp({"--steps", "40"});
  const std::vector<Json> bf16 = TrainMlp({"--steps", "40", "--dtype", "bf16"});
  CHECK(bf16[39]["loss"] < 0.7 * bf16[0]["loss"].get<double>());
  bool same = true;
  for (size_t i = 0; i < 40; ++i) {
    const auto wide = f32[i]["loss"].get<double>();
    CHECK(bf16[i]["loss"].get<double>() == doctest::Approx(wide).epsilon(0.05));
    same = same && bf16[i]["loss"] == f32[i]["loss"];
  }
  CHECK_FALSE(same);
}

TEST_CASE("a transformer trains in bf16 on the CPU, by the command") {
  const std::string text =
      WriteTemp("text.txt", std::string(400, 'a') + std::string(400, 'b'));
  const auto losses = [&](const char* dtype) {
    const Outcome outcome =
        RunStowage({"train", "--model", "gpt-nano", "--data", text, "--batch",
                    "2", "--seq", "32", "--steps", "4", "--device", "cpu",
                    "--dtype", dtype, "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return JsonLines(outcome.out);
  };
  const std::vector<Json> f32 = losses("f32");
  const std::vector<Json> bf16 = losses("bf16");
  CHECK(bf16[3]["loss"] < bf16[0]["loss"]);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(bf16[i]["loss"].get<double>() ==
          doctest::Approx(f32[i]["loss"].get<double>()).epsilon(0.02));
  }
  CHECK(bf16.back()["arena_bytes"] < f32.back()["arena_bytes"]);
}

TEST_CASE("a run begins with the weights of another program's file") {
  const std::string weights = TempPath("weights.safetensors");
  const auto values = [](const std::string& npz) {
    const auto arrays = ParseNpz(ReadAll(npz), npz);
    REQUIRE(arrays.ok());
    std::map<std::string, std::vector<float>> values;
    for (const NamedArray& each : *arrays) {
      values[each.name] = ValuesOf<float>(each.array);
    }
    return values;
  };
  const std::string before = TempPath("before.npz");
  const std::string again = TempPath("again.npz");
  TrainMlp({"--save-weights", weights});
  TrainMlp({"--save-weights", before});
  // Updates that are 0 in f32 give the weights back.
  TrainMlp({"--init", weights, "--save-weights", again, "--optimizer", "sgd",
            "--lr", "1e-30", "--clip-norm", "1e-30", "--seed", "5"});
  CHECK(values(again) == values(before));

  // The same under other names, one tensor called as no param is.
  std::string renamed = ReadAll(weights);
  for (const auto& [from, to] : {std::pair("\"fc1.weight\"", "\"ln1.weight\""),
                                 std::pair("\"fc3.bias\"", "\"xx3.bias\"")}) {
    renamed.replace(renamed.find(from), std::string(from).size(), to);
  }
  const std::string path = WriteTemp("renamed.safetensors", renamed);
  const Outcome refused = RunStowage(Mlp({"--init", path}));
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("lacks 2 of 6 params: \"fc1.weight\", \"fc3.bias\"; "
                         "it has 2 tensors that no param takes: "
                         "\"ln1.weight\", \"xx3.bias\"") != std::string::npos);
  const Outcome taken = RunStowage(
      Mlp({"--init", path, "--init-rename", "ln*=fc*", "--init-allow-missing",
           "fc3.*", "--init-allow-unused", "xx*"}));
  INFO(taken.err);
  CHECK(taken.exit_code == 0);
  CHECK(
      taken.err.find(StrCat("init: 5 params have the weights of ", path,
                            "\ninit: fc3.bias is not in it and begins as the "
                            "seed says\ninit: xx3.bias of it is not used\n")) !=
      std::string::npos);
  const Outcome transposed =
      RunStowage(Mlp({"--init", weights, "--init-transpose", "fc1.*"}));
  CHECK(transposed.exit_code == 2);
  CHECK(transposed.err.find("a rule transposes it, though it fits as it is") !=
        std::string::npos);
  const Outcome both =
      RunStowage(Mlp({"--init", weights, "--resume", weights}));
  CHECK(both.exit_code == 2);
  const Outcome itself =
      RunStowage(Mlp({"--init", weights, "--save-weights", weights}));
  CHECK(itself.err.find("is what --init reads") != std::string::npos);
}

TEST_CASE("files and batches that no memory holds are refused in words") {
  const std::string huge = TempPath("huge");
  WriteTemp("huge", "1");
  std::filesystem::resize_file(huge, int64_t{10} << 30);
  const std::string fifo = TempPath("data_fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  struct Row {
    std::vector<std::string> more;
    int exit_code;
    std::string message;
  };
  const Row rows[] = {
      {{"--data", huge}, 2, "has 10737418240 bytes; at most 2147483647"},
      {{"--data", "/dev/zero"}, 2, "is not a regular file"},
      {{"--data", "/proc/self/mem"}, 2, "cannot be read: "},
      {{"--data", fifo}, 2, "is not a regular file"},
      {{"--resume", huge}, 2, "is damaged: "},
      {{"--resume", "/dev/zero"}, 2, "it is a pipe or a device"},
      {{"--resume", fifo}, 2, "it is a pipe or a device"},
      {{"--batch", "100000000000"}, 3, "[memory] a batch of 100000000000 "},
  };
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(Mlp(row.more));
    INFO(outcome.err);
    CHECK(outcome.exit_code == row.exit_code);
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
  std::filesystem::remove(huge);
}

TEST_CASE("bad input exits 2 and says what is wrong") {
  const std::string empty = WriteTemp("empty", "");
  const std::string binary = WriteTemp("binary", std::string("\x7f"
                                                             "ELF\0\0\1",
                                                             7));
  const std::string digits = WriteTemp("digits.csv", SomeDigits());
  const std::string text = WriteTemp("text.txt", SomeText());
  const std::string shorter = WriteTemp("short.txt", "a few words");
  const std::string missing = TempPath("missing");
  const std::vector<std::string> mlp = {"--model", "mlp", "--data", digits};
  const std::vector<std::string> gpt = {"--model", "gpt-nano", "--data", text};
  struct Row {
    std::vector<std::string> base;
    std::vector<std::string> more;
    std::string message;  // part of it
  };
  const Row rows[] = {
      {{"--model", "nope", "--data", digits}, {}, "there is no model \"nope\""},
      {{"--model", "mlp", "--data", missing}, {}, "missing"},
      {{"--model", "mlp", "--data", empty}, {}, "empty"},
      {{"--model", "mlp", "--data", binary}, {}, "binary"},
      {{"--model", "mlp", "--data", text}, {}, "text.txt"},
      {{"--model", "unet", "--data", digits},
       {},
       "is no .npz, and unet learns a label for each pixel; give an .npz with "
       "\"x\" (N, C, H, W) and \"y\" (N, H, W)"},
      {{"--model", "unet", "--data", TempPath("")},
       {},
       "is a folder, which holds a label for each image"},
      {{"--model", "gpt-nano", "--data", missing}, {}, "missing"},
      {{"--model", "gpt-nano", "--data", empty}, {}, "empty"},
      {{"--model", "gpt-nano", "--data", binary}, {}, "binary"},
      {{"--model", "gpt-nano", "--data", shorter}, {}, "short.txt"},
      {mlp, {"--batch", "0"}, "[model] batch 0 for mlp is below 1"},
      {gpt, {"--seq", "257"}, "[model] seq 257 for gpt-nano is out of range"},
      {gpt, {"--seq", "0"}, "[model] seq 0 for gpt-nano is out of range"},
      {mlp, {"--lr", "nan"}, "--lr: \"nan\" is no number"},
      {mlp, {"--lr", "0"}, "[train] learning rate 0 is not a positive number"},
      {mlp, {"--lr=-0.1"}, "[train] learning rate -0.1 is not a positive "},
      {mlp, {"--lr", "inf"}, "--lr: \"inf\" is no number"},
      {mlp, {"--steps", "0"}, "[train] steps 0 is below 1"},
      {mlp,
       {"--steps", "400", "--stop-at", "500"},
       "[train] stop-at 500 is out of range"},
      {gpt, {"--sample=-1"}, "[train] sample -1 is negative"},
      {mlp, {"--budget", "abc"}, "[budget] "},
      {mlp, {"--budget", "0"}, "[budget] the size is 0"},
      {mlp, {"--budget=-1MiB"}, "[budget] "},
      {mlp, {"--dtype", "f64"}, "[train] dtype f64 cannot be trained with"},
      {mlp, {"--loss-scale", "big"}, "[loss-scale] \"big\" is neither"},
      {mlp, {"--loss-scale", "0"}, "[loss-scale] \"0\" is neither"},
      {mlp, {"--loss-scale", "1e39"}, "[loss-scale] \"1e39\" is neither"},
      {mlp, {"--device", "tpu"}, "[device] there is no device \"tpu\""},
      {mlp,
       {"--save-every", "2"},
       "[train] --save-every needs a file to write"},
      {mlp, {"--keep-last", "2"}, "[train] --keep-last needs a file to write"},
      {mlp, {"--keep-last", "0"}, "[train] keep-last 0 is below 1"},
      {mlp, {"--save-every=-1"}, "[train] save-every -1 is out of range"},
      {mlp,
       {"--steps", "9223372036854775807"},
       "[train] steps 9223372036854775807 is out of range"},
      {mlp,
       {"--init-transpose", "*"},
       "[train] --init-transpose says how the file of --init is read"},
      {mlp, {"--init", missing, "--init-rename", "x"}, "\"x\" is no rename"},
      {mlp,
       {"--on-nonfinite", "x"},
       "[train] on-nonfinite has no choice \"x\""},
      {mlp,
       {"--recompute-keep", "h1"},
       "[recompute] --recompute-keep \"h1\" says nothing"},
      {mlp,
       {"--recompute", "auto", "--recompute-always", "nobody"},
       "has no value \"nobody\" to be always recomputed"},
      {mlp, {"--recompute", "all"}, "[recompute] there is no choice \"all\""},
      {mlp, {"--micro-batches", "x"}, "[micro-batches] \"x\" is no number "},
      {mlp, {"--optimizer", "x"}, "[optimizer] there is no optimizer \"x\""},
      {mlp, {"--steps", "1", "--save", "/nowhere/x"}, "/nowhere/x"},
      {mlp, {"--steps", "1", "--svg", "/nowhere/x"}, "/nowhere/x"},
      {mlp, {"--seed=-1"}, "--seed: Value -1 not in range 0 to"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> arguments = {"train"};
    arguments.insert(arguments.end(), row.base.begin(), row.base.end());
    arguments.insert(arguments.end(), row.more.begin(), row.more.end());
    const Outcome outcome = RunStowage(arguments);
    INFO(row.message);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
}

TEST_CASE("a cache folder that cannot be written costs notes and no run") {
  // A product of 256 x 64 by 64 x 128 is large enough to be timed.
  std::string csv;
  for (int row = 0; row < 256; ++row) {
    for (int i = 0; i < 64; ++i) csv += StrCat((row * 7 + i) % 17, ",");
    csv += StrCat(row % 10, "\n");
  }
  const std::string file = WriteTemp("no_cache_folder", "");
  const Outcome outcome =
      RunStowage({"train", "--model", "mlp", "--batch", "256", "--steps", "2",
                  "--json", "--data", WriteTemp("large_batch.csv", csv),
                  "--device", "cpu", "--plan-cache", file});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.find("[plan cache] cannot make the folder") !=
        std::string::npos);
  CHECK(outcome.err.find(StrCat("[cpu] ")) != std::string::npos);
  CHECK(JsonLines(outcome.out).size() == 3);
}

}  // namespace
}  // namespace stowage::testing
