// Runs a published language model in f32 for bench/pretrained_logits.py, which compares it with
// transformers; and with an adapter, on the quantized base, for bench/finetune_peft.py, which
// compares it with PEFT:
//
//   pretrained_logits [--adapter FOLDER] PATH GREEDY OUT TOKEN...
//
// Writes the logits of the tokens to OUT, f32, row by row, and prints a line of JSON: times,
// the arena's bytes, and the next GREEDY tokens by greedy decoding.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/must.h"
#include "cpu/cpu_backend.h"
#include "ir/graph.h"
#include "nn/model_options.h"
#include "planner/fit/fit.h"
#include "runtime/session.h"
#include "train/adapter_files.h"
#include "train/fine_tuning.h"

namespace {

using namespace stowage;
using bench::Must;

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

int main(int argc, char** argv) {
  const bool adapted = argc > 2 && std::string(argv[1]) == "--adapter";
  const std::string adapter = adapted ? argv[2] : "";
  if (adapted) argv += 2, argc -= 2;
  if (argc < 5) {
    std::fprintf(stderr,
                 "usage: pretrained_logits [--adapter FOLDER] PATH GREEDY OUT "
                 "TOKEN...\n");
    return 2;
  }
  std::vector<int32_t> tokens;
  for (int i = 4; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  const auto given = static_cast<int64_t>(tokens.size());
  const int64_t greedy = std::atoll(argv[2]);
  const int64_t seq = given + greedy;

  const double start = Seconds();
  FineTuningOptions options;
  if (adapted) {
    options.lora = Must(ReadAdapterRules(adapter));
  } else {
    options.lora.reset();
  }
  const FineTuning model = Must(FineTuning::Open(argv[1], options));
  const double opened = Seconds();
  const Graph graph = Must(model.ModelOf(ModelPurpose::kGenerate, seq)(1));
  const auto cpu = MakeCpuBackend({.threads = 2});
  const PlannedGraph program =
      Must(PlanProgram(graph, {.device = cpu->Needs()}));
  Session session =
      Must(Session::Create({{"logits", program.graph, program.plan}}, *cpu));
  Runner& runner = session.front();
  const double built = Seconds();
  Must(model.LoadBase(runner));
  if (adapted) Must(LoadAdapter(model, adapter, runner));
  const double loaded = Seconds();

  // What follows a token does not change what is said of it, so that the tokens yet to
  // come may be any.
  tokens.resize(static_cast<size_t>(seq), 0);
  const int64_t vocabulary = model.base().vocabulary();
  std::vector<float> logits(static_cast<size_t>(seq * vocabulary));
  double step = 0;
  for (int64_t at = given; at <= seq; ++at) {
    Must(runner.Write("tokens", tokens));
    const double before = Seconds();
    if (runner.Step() != StepCode::kOk) return 70;
    if (at == given) step = Seconds() - before;
    if (at == seq) break;
    Must(runner.Read("logits", &logits));
    const auto row = logits.begin() + (at - 1) * vocabulary;
    tokens[static_cast<size_t>(at)] =
        static_cast<int32_t>(std::max_element(row, row + vocabulary) - row);
  }
  Must(runner.Read("logits", &logits));
  std::ofstream(argv[3], std::ios::binary)
      .write(reinterpret_cast<const char*>(logits.data()),
             given * vocabulary * 4);

  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"open_seconds\":%.4f,\"build_seconds\":%.4f,\"load_seconds\":%.4f,"
      "\"step_seconds\":%.4f,\"arena_bytes\":%lld,\"peak_rss_bytes\":%lld,"
      "\"greedy\":[",
      opened - start, built - opened, loaded - built, step,
      static_cast<long long>(program.plan.arena_bytes()),
      static_cast<long long>(usage.ru_maxrss) * 1024);
  for (int64_t i = given; i < seq; ++i) {
    std::printf("%s%d", i == given ? "" : ",", tokens[static_cast<size_t>(i)]);
  }
  std::printf("]}\n");
  return 0;
}
