// stowage finetune with tiny models, a tokenizer of 57 tokens and a few lines; and what
// `train` does with such a tokenizer.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

constexpr char kModels[] = "tests/goldens/pretrained/";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string Story() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += StrCat("The ship sails at noon. ", "The cook reads. ",
                   i % 2 == 0 ? "Then he sleeps.\n" : "Nobody sings.\n");
  }
  return WriteTemp("story.txt", text);
}

std::vector<std::string> Arguments(const std::string& model,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"finetune",
                                        "--weights",
                                        kModels + model,
                                        "--tokenizer",
                                        LettersTokenizer(),
                                        "--threads",
                                        "2",
                                        "--seq",
                                        "16"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("adapters learn a text, are saved, and go on from there") {
  const std::string folder = TempPath("adapter");
  const Outcome first = RunStowage(Arguments(
      "llama.gguf", {"--data", Story(), "--steps", "40", "--lr", "0.01",
                     "--batch", "4", "--save-adapter", folder, "--json"}));
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  const std::vector<Json> lines = JsonLines(first.out);
  REQUIRE(lines.size() == 41);
  const Json& done = lines.back();
  const double before = done["base_validation_loss"];
  const double after = done["validation_loss"];
  CHECK(after < before - 0.5);
  CHECK(AllocatedNothing(done));
  CHECK(done["trainable_params"] > 0);
  CHECK(done["frozen_bytes"] > 0);
  CHECK(std::filesystem::exists(folder + "/adapter_config.json"));
  CHECK(std::filesystem::exists(folder + "/adapter_model.safetensors"));

  const Outcome second = RunStowage(
      Arguments("llama.gguf", {"--data", Story(), "--steps", "1", "--batch",
                               "4", "--adapter", folder, "--json"}));
  REQUIRE_MESSAGE(second.exit_code == 0, second.err);
  // It begins where the other ended.
  CHECK(JsonLines(second.out).back()["base_validation_loss"] == after);
}

TEST_CASE("a run that was stopped goes on to the same losses") {
  const std::string checkpoint = TempPath("run.safetensors");
  const auto arguments = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--data", Story(), "--steps", "6",
                                    "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return Arguments("qwen2.gguf", all);
  };
  const Outcome whole = RunStowage(arguments({}));
  REQUIRE_MESSAGE(whole.exit_code == 0, whole.err);
  const Outcome half =
      RunStowage(arguments({"--stop-at", "3", "--save", checkpoint}));
  REQUIRE_MESSAGE(half.exit_code == 0, half.err);
  const Outcome rest = RunStowage(arguments({"--resume", checkpoint}));
  REQUIRE_MESSAGE(rest.exit_code == 0, rest.err);
  const std::vector<Json> all = JsonLines(whole.out),
                          later = JsonLines(rest.out);
  REQUIRE(later.size() == 4);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(later[i]["loss"] == all[i + 3]["loss"]);
  }
  CHECK(later.back()["validation_loss"] == all.back()["validation_loss"]);

  // Its adapters mean something else by another alpha; other dropouts are told.
  const Outcome alpha =
      RunStowage(arguments({"--resume", checkpoint, "--lora-alpha", "3"}));
  CHECK(alpha.exit_code == 2);
  CHECK(
      Contains(alpha.err, "is of a run with --lora-alpha 16, this one has 3"));
  const Outcome dropout =
      RunStowage(arguments({"--resume", checkpoint, "--lora-dropout", "0.5"}));
  CHECK(Contains(dropout.err, "resume: lora-dropout was 0, is 0.5\n"));

  // The base is not in it, and another one is none.
  const std::string base = StrCat(kModels, "qwen2.gguf");
  CHECK(Contains(ReadAll(checkpoint), "q_proj.lora_A.weight"));
  CHECK(!Contains(ReadAll(checkpoint), "embed_tokens"));
  std::string bytes = ReadAll(base);
  bytes.back() ^= 1;
  std::vector<std::string> beside_other = arguments({"--resume", checkpoint});
  std::ranges::replace(beside_other, base, WriteTemp("other.gguf", bytes));
  const Outcome refused = RunStowage(beside_other);
  CHECK(refused.exit_code == 2);
  CHECK(Contains(refused.err, "trained beside a base that it leaves out"));
  CHECK(Contains(refused.err, StrCat(bytes.size(), " bytes of weights")));
}

TEST_CASE("a gpt model learns the tokens of a tokenizer, and writes some") {
  const std::string text = Story();
  const std::string tokenizer = LettersTokenizer();
  const std::string checkpoint = TempPath("tokens.safetensors");
  const auto arguments = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "train",   "--model", "gpt-nano", "--data", text,      "--tokenizer",
        tokenizer, "--batch", "4",        "--seq",  "16",      "--steps",
        "40",      "--lr",    "0.01",     "--save", checkpoint};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Outcome json = RunStowage(arguments({"--json"}));
  REQUIRE_MESSAGE(json.exit_code == 0, json.err);
  // As many tokens as the tokenizer has: nothing is sure at first.
  CHECK(JsonLines(json.out).front()["loss"].get<double>() ==
        doctest::Approx(std::log(57)).epsilon(0.05));
  CHECK(JsonLines(json.out).back()["validation_loss"] < 3.2);
  const Outcome words = RunStowage(arguments({"--sample", "20"}));
  REQUIRE_MESSAGE(words.exit_code == 0, words.err);
  CHECK(Contains(words.out, "The model writes (temperature 0.8):\n"));
  // The checkpoint says by what its run read.
  const Outcome resumed = RunStowage(
      {"train", "--model", "gpt-nano", "--data", text, "--tokenizer",
       WriteTemp("other.json", ReadAll(tokenizer)), "--batch", "4", "--seq",
       "16", "--steps", "41", "--resume", checkpoint, "--json"});
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(resumed.err.find(
            "resume: tokenizer was tokenizer.json (57 tokens, XXH64 ") !=
        std::string::npos);
  CHECK(resumed.err.find(", is other.json (57 tokens, XXH64 ") !=
        std::string::npos);
  // Characters are another model.
  CHECK(
      RunStowage({"train", "--model", "gpt-nano", "--data", text, "--batch",
                  "4", "--seq", "16", "--steps", "41", "--resume", checkpoint})
          .exit_code == 2);
  const Outcome images = RunStowage({"train", "--model", "mlp", "--data",
                                     WriteTemp("some.csv", SomeDigits()),
                                     "--tokenizer", tokenizer});
  CHECK(images.exit_code == 2);
  CHECK(images.err.find("[tokenizer] mlp reads no text") != std::string::npos);
}

TEST_CASE("a run that trains all weights saves all of them") {
  const std::string checkpoint = TempPath("full.safetensors");
  const auto arguments = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--data", Story(),  "--steps",
                                    "4",      "--full", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return Arguments("qwen2.gguf", all);
  };
  const Outcome whole = RunStowage(arguments({}));
  REQUIRE_MESSAGE(whole.exit_code == 0, whole.err);
  const Outcome half =
      RunStowage(arguments({"--stop-at", "2", "--save", checkpoint}));
  REQUIRE_MESSAGE(half.exit_code == 0, half.err);
  const Outcome rest = RunStowage(arguments({"--resume", checkpoint}));
  REQUIRE_MESSAGE(rest.exit_code == 0, rest.err);
  CHECK(JsonLines(rest.out).back()["validation_loss"] ==
        JsonLines(whole.out).back()["validation_loss"]);
}

TEST_CASE(
    "examples are learnt by their answers, cut or dropped where too long") {
  // The last tenth is held out.
  std::string lines =
      R"({"prompt": "The ship ", "completion": "sails at noon and more"})"
      "\n";
  for (int i = 0; i < 20; ++i) {
    lines += R"({"prompt": "The cook ", "completion": "reads."})"
             "\n";
  }
  const std::string data = WriteTemp("pairs.jsonl", lines);
  const Outcome run = RunStowage(
      Arguments("qwen2.gguf", {"--data", data, "--steps", "30", "--lr", "0.01",
                               "--batch", "3", "--json"}));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  CHECK(Contains(run.err,
                 "finetune: 21 examples, 1 cut and 0 dropped at 16 tokens"));
  const Json done = JsonLines(run.out).back();
  CHECK(done["validation_loss"] <
        0.5 * done["base_validation_loss"].get<double>());
  const Outcome dropped =
      RunStowage(Arguments("qwen2.gguf", {"--data", data, "--steps", "1",
                                          "--too-long", "drop", "--json"}));
  REQUIRE_MESSAGE(dropped.exit_code == 0, dropped.err);
  CHECK(Contains(dropped.err,
                 "finetune: 21 examples, 0 cut and 1 dropped at 16 tokens"));
}

std::string ManyLengths() {
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    // Of 22, 17 and 8 tokens, the last of which is never read.
    const char* const text = i % 5 == 0   ? "The ship sails at noon."
                             : i % 5 == 1 ? "The ship sails not"
                                          : "He reads";
    lines += StrCat("{\"text\": \"", text, "\"}\n");
  }
  return WriteTemp("lengths.jsonl", lines);
}

TEST_CASE(
    "lengths are chosen by the data, and a batch takes the shortest that holds "
    "it") {
  const std::string data = ManyLengths();
  const Outcome run = RunStowage(
      Arguments("qwen2.gguf", {"--data", data, "--seq", "32", "--lengths",
                               "auto", "--steps", "27", "--json"}));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const std::vector<Json> told = JsonLines(run.out);
  const Json& done = told.back();
  // A pass takes each example once, in the length that it asks for.
  int64_t tokens = 0;
  for (size_t i = 0; i < 27; ++i) tokens += told[i]["tokens"].get<int64_t>();
  CHECK(tokens == done["positions_computed"]);
  // Of 27 examples to learn from, six read 21 tokens, six 16, the others less.
  CHECK(done["lengths"] == Json({21, 16}));
  CHECK(done["positions_computed"] == 6 * 21 + 21 * 16);
  CHECK(done["positions_if_padded"] == 27 * 21);
  const Outcome given = RunStowage(
      Arguments("qwen2.gguf", {"--data", data, "--seq", "32", "--lengths",
                               "8,24", "--steps", "1", "--json"}));
  REQUIRE_MESSAGE(given.exit_code == 0, given.err);
  CHECK(JsonLines(given.out).back()["lengths"] == Json({32, 24, 8}));
  for (const char* wrong : {"8,40", "x", "0", "8;9"}) {
    const Outcome refused = RunStowage(Arguments(
        "qwen2.gguf", {"--data", data, "--seq", "32", "--lengths", wrong}));
    CHECK(refused.exit_code == 2);
    CHECK(Contains(refused.err, StrCat("lengths \"", wrong,
                                       "\" are neither auto nor numbers from "
                                       "1 to 32")));
  }
}

TEST_CASE(
    "states that one length keeps on the host all do, and no loss changes") {
  const auto run = [data =
                        ManyLengths()](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--data",      data,   "--seq",   "32",
                                    "--lengths",   "auto", "--batch", "2",
                                    "--lora-rank", "16",   "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = RunStowage(Arguments("qwen2.gguf", all));
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    return JsonLines(outcome.out);
  };
  const auto losses = [](const std::vector<Json>& lines) {
    std::vector<double> found;
    for (const Json& line : lines) {
      if (line.contains("loss")) found.push_back(line["loss"]);
    }
    return found;
  };
  const auto smallest = [&](const std::string& offload) -> int64_t {
    return run({"--dry-run", "--recompute", "auto", "--offload", offload})
        .back()["minimum_budget_bytes"];
  };
  const std::vector<double> expected = losses(run({"--steps", "6"}));
  CHECK(expected.size() == 6);
  // Below what recomputing reaches, the longest has something on the host.
  const int64_t unmoved = smallest("none");
  const int64_t moved = smallest("auto");
  for (const int64_t budget : {unmoved - 1, moved + (unmoved - moved) / 2}) {
    CAPTURE(budget);
    const std::vector<Json> lines =
        run({"--steps", "6", "--recompute", "auto", "--offload", "auto",
             "--budget", StrCat(budget)});
    CHECK(lines.back()["host_bytes"] > 0);
    CHECK(losses(lines) == expected);
  }
}

TEST_CASE("what is only read counts for nothing in the loss") {
  // Of two equal examples, one is held out.
  const auto loss = [](const std::string& example) -> double {
    const std::string data = WriteTemp("one.jsonl", example + example);
    const Outcome run = RunStowage(
        Arguments("qwen2.gguf", {"--data", data, "--steps", "1", "--json"}));
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    return JsonLines(run.out).back()["base_validation_loss"];
  };
  // 8 and 6 tokens; nothing comes before the first.
  const double prompt = loss("{\"text\": \"The cook \"}\n");
  const double answer =
      loss("{\"prompt\": \"The cook \", \"completion\": \"reads.\"}\n");
  const double whole = loss("{\"text\": \"The cook reads.\"}\n");
  CHECK(std::abs(prompt - answer) > 0.01);
  CHECK(std::abs(13 * whole - (7 * prompt + 6 * answer)) < 1e-4);
}

// The model whose texts end with a token of its vocabulary.
std::string Gpt2WithEnd() {
  namespace fs = std::filesystem;
  const fs::path folder = TempPath("gpt2");
  fs::create_directories(folder);
  fs::copy(std::string(kModels) + "gpt2", folder,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  Json config = Json::parse(ReadAll(folder / "config.json"));
  config["bos_token_id"] = config["eos_token_id"] = 2;
  fs::remove(folder / "config.json");
  std::ofstream(folder / "config.json") << config.dump();
  return folder.string();
}

TEST_CASE("packed examples give the losses that they give alone") {
  // Eleven are learnt, one is held out.
  std::string data;
  for (int i = 0; i < 12; ++i) {
    data += StrCat(R"({"prompt": "A", "completion": " man )",
                   std::string(static_cast<size_t>(i % 7), 'a' + i), "\"}\n");
  }
  data = WriteTemp("says.jsonl", data);
  // A window, positions that are added, and norms of queries and keys among them.
  const std::string models = kModels;
  for (const std::string& model :
       {models + "llama", models + "mistral", models + "qwen3", Gpt2WithEnd(),
        models + "qwen2.gguf"}) {
    CAPTURE(model);
    const std::vector<std::string> shared = {
        "--data", data,  "--seq",      "30",       "--optimizer", "sgd",
        "--lr",   "0.3", "--schedule", "constant", "--json"};
    const auto run = [&](std::vector<std::string> more) {
      more.insert(more.end(), shared.begin(), shared.end());
      std::vector<std::string> words = Arguments("", more);
      *(std::ranges::find(words, "--weights") + 1) = model;
      const Outcome outcome = RunStowage(words);
      REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
      return JsonLines(outcome.out);
    };
    const Json plan = run({"--pack", "--dry-run"}).back();
    const int64_t positions = plan["positions_computed"];
    CHECK(positions * 2 <= plan["positions_if_padded"].get<int64_t>());
    CHECK(positions >= plan["tokens_per_pass"].get<int64_t>());
    // All of a pass in a batch, whose order is then nothing.
    const std::vector<Json> alone = run({"--batch", "11", "--steps", "4"});
    const std::vector<Json> packed =
        run({"--pack", "--batch", StrCat(positions / 30), "--steps", "4"});
    REQUIRE(packed.size() == alone.size());
    for (size_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      const double loss = alone[i]["loss"];
      CHECK(std::abs(packed[i]["loss"].get<double>() - loss) <= 2e-6 * loss);
    }
    CHECK(packed.back()["validation_loss"].get<double>() ==
          doctest::Approx(alone.back()["validation_loss"].get<double>())
              .epsilon(2e-6));
    // In micro-batches, and stopped on the way.
    const std::string saved = TempPath("packed.safetensors");
    const std::vector<std::string> twice = {"--pack", "--batch", "2", "--steps",
                                            "4"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), twice.begin(), twice.end());
      return run(more);
    };
    const std::vector<Json> whole = with({});
    const std::vector<Json> parts = with({"--micro-batches", "2"});
    with({"--stop-at", "2", "--save", saved});
    const std::vector<Json> resumed = with({"--resume", saved});
    for (size_t i = 0; i < 4; ++i) {
      const double loss = whole[i]["loss"];
      CHECK(std::abs(parts[i]["loss"].get<double>() - loss) <= 2e-6 * loss);
      if (i >= 2) CHECK(resumed[i - 2]["loss"] == whole[i]["loss"]);
    }
  }
}

TEST_CASE("what cannot be packed is refused by name") {
  const auto refused = [](const std::vector<std::string>& more) {
    const Outcome outcome = RunStowage(Arguments("llama", more));
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK(Contains(refused({"--data", Story(), "--pack"}),
                 "[pack] --pack is for the examples of a .jsonl file, and "));
  const std::string pairs = WriteTemp(
      "pairs.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "c"})");
  CHECK(Contains(refused({"--data", pairs, "--pack", "--objective", "dpo"}),
                 "--objective dpo are sequences of their own"));
}

TEST_CASE(
    "a dry run says what it takes and how fast it is, and changes nothing") {
  const std::string data = Story();
  const Outcome plan = RunStowage(
      Arguments("llama.gguf", {"--data", data, "--dry-run", "--json"}));
  REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  const Json told = Json::parse(plan.out);
  CHECK(told["fits"] == true);
  const int64_t smallest = told["minimum_budget_bytes"];
  CHECK(smallest <= told["arena_bytes"].get<int64_t>());
  CHECK(told["frozen_bytes"] > 0);
  const double seconds = told["predicted_step_seconds"];
  CHECK(seconds > 0);
  CHECK(told["predicted_tokens_per_second"].get<double>() ==
        doctest::Approx(16 / seconds));
  CHECK(told["predicted_by"] == "trial");
  const std::string made = TempPath("dry");
  CHECK(RunStowage(Arguments("llama.gguf",
                             {"--data", data, "--dry-run", "--save-adapter",
                              made + "/adapter", "--log", made + "/log/"}))
            .exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(made));
  const Outcome tight = RunStowage(
      Arguments("llama.gguf", {"--data", data, "--dry-run", "--recompute",
                               "auto", "--budget", StrCat(smallest)}));
  CHECK(tight.exit_code == 0);
  CHECK(Contains(tight.out, "the smallest budget that works"));
  CHECK(Contains(tight.out, "of its steps, which change nothing"));
  const Outcome refused = RunStowage(Arguments(
      "llama.gguf", {"--data", data, "--dry-run", "--budget", "20KB"}));
  CHECK(refused.exit_code == 1);
  CHECK(Contains(refused.err, "smallest budget that works"));
}

TEST_CASE("the model writes before and after, from the prompt on") {
  const Outcome run =
      RunStowage(Arguments("gpt2", {"--data", Story(), "--steps", "2",
                                    "--sample", "5", "--prompt", "The ship"}));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  CHECK(Contains(run.out,
                 "Before, the model writes (temperature 0.8):\nThe ship"));
  CHECK(Contains(run.out, "\nThe model writes (temperature 0.8):\nThe ship"));
  // What transformers would train with, and this does not.
  CHECK(Contains(run.err,
                 "config.json trains with attn_pdrop 0.1, embd_pdrop 0.1, "
                 "resid_pdrop 0.1, which is not applied here"));
}

// A folder of Qwen 2 whose conversations are ChatML's, and whose config.json knows other
// ends of texts than they have.
std::string ChatFolder(const std::string& ends) {
  const std::string folder = TempPath("chat");
  std::filesystem::remove_all(folder);
  std::filesystem::copy(StrCat(kModels, "qwen2"), folder);
  std::string config = ReadAll(folder + "/config.json");
  const std::string none = "\"eos_token_id\": null";
  const size_t at = config.find(none);
  REQUIRE(at != std::string::npos);
  config.replace(at, none.size(), StrCat("\"eos_token_id\": ", ends));
  WriteTemp("chat/config.json", config);
  WriteTemp("chat/chat_template.jinja",
            "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + "
            "m['content'] + '<|im_end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
            "{% endif %}");
  return folder;
}

TEST_CASE("an answer ends where its template or the model's files end it") {
  Json added = Json::array();
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
    added.push_back({{"id", 57 + added.size()},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += R"({"messages": [{"role": "user", "content": "Go"},)"
             R"( {"role": "assistant", "content": "Aye"}]})"
             "\n";
  }
  const std::string data = WriteTemp("talk.jsonl", lines);
  const std::string said = WriteTemp("said.txt", "Go\nGo\n\n");
  const auto answers = [&](const std::string& ends) {
    const Outcome run = RunStowage({"finetune",
                                    "--weights",
                                    ChatFolder(ends),
                                    "--tokenizer",
                                    LettersTokenizer(added),
                                    "--threads",
                                    "2",
                                    "--seq",
                                    "32",
                                    "--data",
                                    data,
                                    "--steps",
                                    "40",
                                    "--lr",
                                    "0.02",
                                    "--sample",
                                    "0",
                                    "--temperature",
                                    "0",
                                    "--chat"},
                                   {.input = said});
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    return run.out;
  };
  // Without its end an answer would go on to the next line, and on from there.
  const std::string out = answers("1");
  CHECK_MESSAGE(out.ends_with("\nAye\nAye\n"), out);
  // "y" ends it as one of several that config.json knows.
  const std::string earlier = answers("[1, 24]");
  CHECK_MESSAGE(earlier.ends_with("\nAy\nAy\n"), earlier);
}

// A folder of Qwen 2 with the tokenizer and its files beside it.
std::string WholeFolder(const Json& tokenizer_config,
                        const Json& post_processor = nullptr,
                        const std::string& ends = "null") {
  Json added = Json::array();
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
    added.push_back(
        {{"id", 57 + added.size()}, {"content", token}, {"special", true}});
  }
  const std::string folder = ChatFolder(ends);
  std::filesystem::remove(folder + "/chat_template.jinja");
  Json file = Json::parse(ReadAll(LettersTokenizer(added)));
  file["post_processor"] = post_processor;
  WriteTemp("chat/tokenizer.json", file.dump());
  WriteTemp("chat/tokenizer_config.json", tokenizer_config.dump());
  return folder;
}

// The loss of the first step on lines that are all alike.
double FirstLoss(const std::string& weights, const std::string& line) {
  std::string lines;
  for (int i = 0; i < 4; ++i) lines += line + "\n";
  const Outcome run = RunStowage({"finetune", "--weights", weights, "--data",
                                  WriteTemp("alike.jsonl", lines), "--steps",
                                  "1", "--seq", "24", "--batch", "1",
                                  "--sample", "0", "--threads", "2", "--json"});
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  return JsonLines(run.out).front()["loss"];
}

TEST_CASE("an end of texts that is no token is refused") {
  for (const char* const end :
       {"\"x\"", "1.5", "1099511627776", "[3, \"x\"]"}) {
    CAPTURE(end);
    const Outcome run = RunStowage(
        {"finetune", "--weights", WholeFolder(Json::object(), nullptr, end),
         "--data", WriteTemp("one.jsonl", "{\"text\": \"Aye Sir\"}\n"),
         "--steps", "1", "--seq", "24", "--batch", "1"});
    CHECK(run.exit_code == 2);
    CHECK_MESSAGE(Contains(run.err, "config.json\" has an \"eos_token_id"),
                  run.err);
  }
}

TEST_CASE("a resumed run of a text reports another tokenizer") {
  const std::string weights = StrCat(kModels, "llama.gguf");
  const std::string checkpoint = TempPath("resumed.safetensors");
  const auto run = [&](const std::string& tokenizer,
                       const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "finetune", "--weights", weights,   "--tokenizer", tokenizer,
        "--data",   Story(),     "--batch", "2",           "--seq",
        "8",        "--sample",  "0",       "--device",    "cpu"};
    all.insert(all.end(), more.begin(), more.end());
    return RunStowage(all);
  };
  const std::string tokenizer = LettersTokenizer();
  const Outcome first = run(tokenizer, {"--steps", "1", "--save", checkpoint});
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  // Another tokenizer by the same name: two letters have changed places.
  Json file = Json::parse(ReadAll(tokenizer));
  Json& vocabulary = file["model"]["vocab"];
  std::swap(vocabulary["a"], vocabulary["b"]);
  WriteTemp(std::filesystem::path(tokenizer).filename().string(), file.dump());
  const Outcome other =
      run(tokenizer, {"--steps", "2", "--resume", checkpoint});
  CHECK(other.exit_code == 0);
  CHECK_MESSAGE(Contains(other.err, "resume: tokenizer was "), other.err);
  const Outcome both = run(
      tokenizer, {"--steps", "2", "--resume", checkpoint, "--adapter", "a"});
  CHECK(both.exit_code == 2);
  CHECK(Contains(both.err, "--adapter excludes --resume"));
  const Outcome one =
      run(tokenizer, {"--steps", "1", "--save", TempPath("one.st"),
                      "--save-adapter", TempPath("one.st")});
  CHECK(one.exit_code == 2);
  CHECK_MESSAGE(Contains(one.err, "is what --save writes"), one.err);
}

TEST_CASE(
    "texts begin and end with the tokens that the tokenizer's files name") {
  const std::string text = R"({"text": "Aye Sir"})";
  const Json config = {{"eos_token", {{"content", "<|im_end|>"}}}};
  const auto of = [&](const std::string& line, const Json& files,
                      const Json& post_processor = nullptr,
                      const std::string& ends = "null") {
    return FirstLoss(WholeFolder(files, post_processor, ends), line);
  };
  const double plain = of(text, Json::object());
  const double ended = of(R"({"text": "Aye Sir<|im_end|>"})", Json::object());
  CHECK(plain != ended);
  CHECK(of(text, config) == ended);
  // It goes before what the model's config says, which is asked without it.
  CHECK(of(text, config, nullptr, "3") == ended);
  CHECK(of(text, Json::object(), nullptr, "58") == ended);
  const std::string folder = WholeFolder(Json::object());
  WriteTemp("chat/special_tokens_map.json", config.dump());
  CHECK(FirstLoss(folder, text) == ended);
  std::filesystem::remove(folder + "/special_tokens_map.json");
  WriteTemp("chat/generation_config.json", R"({"eos_token_id": [58, 3]})");
  CHECK(FirstLoss(folder, text) == ended);

  const Json begin = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<|im_start|>", {{"ids", {57}}}}}}};
  CHECK(of(text, config, begin) ==
        of(R"({"prompt": "<|im_start|>", "completion": "Aye Sir"})", config));
}

TEST_CASE("a chat template is found wherever transformers looks for it") {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "Go"}, )"
      R"({"role": "assistant", "content": "Aye"}]})";
  const std::string jinja =
      "{% for m in messages %}{{ m.role[0] }}\r\n{{ m.content }}"
      "<|im_end|>{% endfor %}{% if add_generation_prompt %}a\r\n{% endif %}";
  const double said = FirstLoss(
      WholeFolder(Json::object()),
      R"({"prompt": "u\nGo<|im_end|>a\n", "completion": "Aye<|im_end|>"})");
  const std::string folder = WholeFolder({{"chat_template", jinja}});
  CHECK(FirstLoss(folder, line) == said);
  CHECK(FirstLoss(folder + "/model.safetensors", line) == said);
  CHECK(FirstLoss(WholeFolder({{"chat_template",
                                {{{"name", "tools"}, {"template", "x"}},
                                 {{"name", "default"}, {"template", jinja}}}}}),
                  line) == said);
  WholeFolder({{"chat_template", "no"}});
  WriteTemp("chat/chat_template.jinja", jinja);
  CHECK(FirstLoss(folder, line) == said);
  WholeFolder(Json::object());
  WriteTemp("chat/chat_template.json", Json({{"chat_template", jinja}}).dump());
  CHECK(FirstLoss(folder, line) == said);
  std::filesystem::remove(folder + "/chat_template.json");

  const std::string data = WriteTemp("said.jsonl", line + "\n" + line + "\n");
  const auto refused = [&](const Json& config, const std::string& ends) {
    const Outcome run =
        RunStowage({"finetune", "--weights", WholeFolder(config, nullptr, ends),
                    "--data", data, "--seq", "24"});
    CHECK(run.exit_code == 2);
    return run.err;
  };
  CHECK(Contains(refused(Json::object(), "null"),
                 "has messages, and the model has no chat template; this is "
                 "line 1 of"));
  CHECK(Contains(
      refused({{"chat_template", {{{"name", "rag"}, {"template", "x"}}}}},
              "null"),
      "the model has a list of chat templates, \"rag\", and none of them is "
      "\"default\""));
  CHECK(Contains(refused({{"chat_template", 3}}, "null"),
                 "the model has a \"chat_template\" that is neither a text nor "
                 "a list of named ones"));
  CHECK(
      Contains(refused({{"chat_template", "{% call %}"}}, "null"),
               "has messages, and [text] the chat template \"{% call %}\" is "
               "not read: line 1: the tag \"call\", which is not known here"));
  CHECK(Contains(refused({{"eos_token", "the end"}}, "null"),
                 "[finetune] the \"eos_token\" \"the end\" of "));
}

TEST_CASE("an end of texts beyond the vocabulary is named where it is learnt") {
  const std::string lines = WriteTemp(
      "two.jsonl", "{\"text\": \"Aye\", \"id\": 7}\n{\"text\": \"Sir\"}\n");
  const std::string folder = WholeFolder(Json::object(), nullptr, "[64, 58]");
  const auto run = [&](const std::string& data) {
    return RunStowage({"finetune", "--weights", folder, "--data", data, "--seq",
                       "16", "--steps", "1", "--sample", "0"});
  };
  const Outcome refused = run(lines);
  CHECK(refused.exit_code == 2);
  CHECK(
      Contains(refused.err,
               "[finetune] \"config.json\" has the \"eos_token_id\" 64, which "
               "texts end with; expected one below 64, the model's "
               "vocabulary; correct it there"));
  CHECK(run(Story()).exit_code == 0);
  WriteTemp("chat/tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  const Outcome learnt = run(lines);
  CHECK(learnt.exit_code == 0);
  CHECK(Contains(learnt.err, "[examples] of the 2 examples of "));
  CHECK(Contains(learnt.err, "these keys are not read: \"id\" of 1\n"));
}

TEST_CASE("a resumed run tells that the model's settings changed") {
  const std::string folder = TempPath("settings");
  std::filesystem::copy(StrCat(kModels, "llama"), folder,
                        std::filesystem::copy_options::recursive |
                            std::filesystem::copy_options::overwrite_existing);
  const std::string checkpoint = TempPath("settings.safetensors");
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "finetune", "--weights", folder,  "--tokenizer", LettersTokenizer(),
        "--data",   Story(),     "--seq", "8",           "--batch",
        "2",        "--sample",  "0",     "--device",    "cpu"};
    all.insert(all.end(), more.begin(), more.end());
    return RunStowage(all);
  };
  const Outcome first = run({"--steps", "1", "--save", checkpoint});
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  const Outcome same = run({"--steps", "2", "--resume", checkpoint});
  CHECK(same.exit_code == 0);
  CHECK_MESSAGE(!Contains(same.err, "resume: settings"), same.err);
  Json config = Json::parse(ReadAll(folder + "/config.json"));
  config["rms_norm_eps"] = 0.5;
  WriteTemp("settings/config.json", config.dump());
  const Outcome other = run({"--steps", "2", "--resume", checkpoint});
  CHECK(other.exit_code == 0);
  CHECK_MESSAGE(Contains(other.err, "resume: settings was XXH64 "), other.err);
}

TEST_CASE("a prompt without tokens is refused") {
  const Outcome prompt = RunStowage(Arguments(
      "gpt2", {"--data", Story(), "--sample", "3", "--prompt", "12"}));
  CHECK(prompt.exit_code == 2);
  CHECK_MESSAGE(
      Contains(prompt.err, "[prompt] the tokenizer has no token for \"12\""),
      prompt.err);
}

TEST_CASE("a run that goes on says what counted for its beginning alone") {
  const std::string checkpoint = TempPath("begun.safetensors");
  const std::string adapter = TempPath("begun");
  const Outcome first = RunStowage(
      Arguments("gpt2", {"--data", Story(), "--steps", "1", "--sample", "0",
                         "--save-adapter", adapter}));
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  const auto go_on = [&](const char* stop) {
    return RunStowage(Arguments(
        "gpt2",
        {"--data", Story(), "--steps", "4", "--stop-at", stop, "--sample", "0",
         "--adapter", adapter, "--continue", checkpoint}));
  };
  const Outcome begun = go_on("1");
  REQUIRE_MESSAGE(begun.exit_code == 0, begun.err);
  CHECK(!Contains(begun.err, "counts for the beginning alone"));
  const Outcome later = go_on("2");
  CHECK(later.exit_code == 0);
  CHECK_MESSAGE(Contains(later.err, StrCat("continue: ", adapter,
                                           " counts for the beginning alone")),
                later.err);
}

TEST_CASE("samples are drawn among the likeliest") {
  const auto sample = [](const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--data",   Story(), "--steps",  "1",
                                    "--sample", "12",    "--prompt", "The ship",
                                    "--seed",   "3"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome run = RunStowage(Arguments("gpt2", all));
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    const size_t begin = run.out.find("):\n", run.out.find("The model writes"));
    return run.out.substr(begin, run.out.find("\n\n", begin) - begin);
  };
  const std::string likeliest = sample({"--temperature", "0"});
  CHECK(sample({"--temperature", "2", "--top-k", "1"}) == likeliest);
  CHECK(sample({"--temperature", "2", "--top-p", "0.000001"}) == likeliest);
  const std::string free = sample({"--temperature", "2"});
  CHECK(free != likeliest);
  CHECK(sample({"--temperature", "2", "--top-k", "64"}) ==
        sample({"--temperature", "2", "--top-k", "1000"}));
  for (const auto& [flag, value, what] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--temperature", "-1", "temperature is -1; expected 0 or more"},
           {"--top-k", "-1", "top-k is -1; expected 0"},
           {"--top-p", "0", "top-p is 0; expected a number in (0, 1]"}}) {
    const Outcome refused =
        RunStowage(Arguments("gpt2", {"--data", Story(), flag, value}));
    CHECK(refused.exit_code == 2);
    CHECK(Contains(refused.err, what));
  }
}

TEST_CASE("what is wrong is told, and ends with 2") {
  const std::string data = Story();
  const auto error = [](const Outcome& outcome) {
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(Contains(
      error(RunStowage({"finetune", "--weights", StrCat(kModels, "gpt2"),
                        "--data", data, "--seq", "16"})),
      "tokenizer.json"));
  CHECK(Contains(
      error(RunStowage({"finetune", "--weights", StrCat(kModels, "gpt2"),
                        "--tokenizer", "tests/goldens/tokens/qwen.json",
                        "--seq", "16", "--data", data})),
      "tokens, the model 64; give the --tokenizer of this model"));
  CHECK(Contains(
      error(RunStowage(Arguments("gpt2", {"--data", data, "--seq", "33"}))),
      "[finetune] seq 33 is out of range; the model takes 1 to 32 tokens"));
  CHECK(Contains(error(RunStowage(
                     Arguments("gpt2", {"--data", data, "--full",
                                        "--save-adapter", TempPath("none")}))),
                 "--full trains no adapter"));
  CHECK(Contains(error(RunStowage(Arguments(
                     "gpt2", {"--data", data, "--lora-targets", "*.nothing"}))),
                 "[lora] no layer of \"gpt2\" is called \"*.nothing\""));
  CHECK(Contains(error(RunStowage(Arguments(
                     "gpt2", {"--data", data, "--too-long", "fold"}))),
                 "too-long has no choice \"fold\"; expected cut or drop"));
  CHECK(Contains(error(RunStowage(
                     Arguments("gpt2", {"--data", data, "--lora-alpha", "0"}))),
                 "alpha 0; expected a finite number other than 0"));
  for (const auto& [flag, value] :
       {std::pair("--prompt", "The"), std::pair("--temperature", "0"),
        std::pair("--top-k", "3"), std::pair("--top-p", "0.5")}) {
    CHECK(
        Contains(error(RunStowage(Arguments(
                     "gpt2", {"--data", data, flag, value, "--sample", "0"}))),
                 StrCat(flag, " is for samples, and --sample 0 draws none")));
  }
  // Of a model whose files have no template.
  CHECK(
      Contains(error(RunStowage(Arguments("gpt2", {"--data", data, "--chat"}))),
               "--chat needs a chat template: the model has no chat template"));
  const std::string broken = WriteTemp("broken.jsonl", "{\"text\": \"a\"\n");
  CHECK(Contains(error(RunStowage(Arguments("gpt2", {"--data", broken}))),
                 "this is line 1 of"));
}

TEST_CASE("a dry run draws its plan, and tells what it does not write") {
  const std::string page = TempPath("dry.html"), image = TempPath("dry.svg");
  const std::string save = TempPath("dry.safetensors");
  const auto dry = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--data", Story(), "--dry-run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunStowage(Arguments("llama.gguf", arguments));
  };
  const Outcome run = dry({"--html", page, "--svg", image, "--save", save});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(Contains(ReadAll(page), "<html"));
  CHECK(Contains(ReadAll(image), "<svg"));
  CHECK_FALSE(std::filesystem::exists(save));
  CHECK(Contains(run.err, StrCat("dry run: --save \"", save,
                                 "\" can be written, and is not\n")));
  const Outcome refused = dry({"--resume", TempPath("nowhere.st")});
  CHECK(refused.exit_code == 2);
  CHECK(Contains(refused.err, "nowhere.st"));
}

TEST_CASE("a checkpoint that cannot be written takes nothing else along") {
  const std::string folder = TempPath("small-adapter");
  const std::string checkpoint = TempPath("large.safetensors");
  // The checkpoint has 89 KB, the adapter 30.
  const Outcome run = RunStowage(
      Arguments("llama.gguf", {"--data", Story(), "--steps", "2", "--save",
                               checkpoint, "--save-adapter", folder}),
      {.largest_file = 60000});
  INFO(run.err);
  CHECK(run.exit_code == 2);
  CHECK(Contains(run.err, StrCat("\"", checkpoint, "\" cannot be written: ")));
  CHECK_FALSE(std::filesystem::exists(checkpoint));
  CHECK(std::filesystem::exists(folder + "/adapter_config.json"));
  CHECK(std::filesystem::file_size(folder + "/adapter_model.safetensors") >
        20000);
}

TEST_CASE("the bytes that a tokenizer has no token for are counted on stderr") {
  const std::string lines = WriteTemp(
      "hearts.jsonl", "{\"text\": \"Aye \\u2665\"}\n{\"text\": \"Sir\"}\n");
  const Outcome run = RunStowage(Arguments("llama.gguf", {"--data", lines}));
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(Contains(run.err, "[data] the tokenizer has no token for "));
  CHECK(Contains(run.err, " bytes of \"" + lines + "\", which are left out\n"));
}

// By its content, whatever it is called.
TEST_CASE("what is no text is not learnt as one") {
  struct Row {
    const char* name;
    std::string content;
    const char* message;
  };
  const Row rows[] = {
      {"utf16.txt", std::string("\xFF\xFEh\0e\0", 6), "it begins as UTF-16"},
      {"arrays.npz", std::string("PK\3\4\0\0", 6), "is a ZIP archive"},
      {"rows.parquet", "PAR1 all of it could be text PAR1",
       "is a Parquet file"},
      {"text.txt.zst", "\x28\xb5\x2f\xfd", "is compressed by Zstandard"},
      {"nul.txt", std::string("ab\0", 3), "byte 2 is NUL"},
      {"marked.txt", "\xEF\xBB\xBF{\"text\": \"a\"}\n",
       "in a file called .jsonl"},
      {"utf32.txt", std::string("\xFF\xFE\0\0a\0\0\0", 8),
       "it begins as UTF-32"},
      {"zipped.jsonl", "\x1f\x8b", "is compressed by gzip"},
      {"chats.json", "\n [{\"text\": \"a\"}]",
       "is JSON, which would be learnt"},
      {"lines.txt", "\n{\"text\": \"a\"}\n", "in a file called .jsonl"},
      {"talk.txt", "{\"messages\": [{\"role\": \"user\"}]}\n",
       "in a file called .jsonl"},
      {"latin1.txt", "caf\xe9 au lait", "byte 3 begins no character"},
      // Read as JSON lines.
      {"broken.JSONL", "{\"text\": \"a\"\n", "this is line 1 of"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string path = WriteTemp(row.name, row.content);
    const Outcome outcome = RunStowage(Arguments("gpt2", {"--data", path}));
    CHECK(outcome.exit_code == 2);
    INFO(outcome.err);
    CHECK(Contains(outcome.err, row.message));
  }
}

}  // namespace
}  // namespace stowage::testing
