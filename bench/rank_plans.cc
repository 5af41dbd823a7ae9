// Plans large models on many ranks, without weights, and prints Markdown tables: for each model
// the arena and the bytes sent, by number of ranks and sharding:
//
//   rank_plans [SEQ]     default: 1024 tokens
//
// One text per rank; bf16 with AdamW, 14 bytes per param with the gradient, and for comparison
// 8-bit AdamW, 7; the workspace is the CPU's with two threads; nothing is recomputed. Beside
// each are DeepSpeed's estimates of params, gradients and states alone, 18 bytes per 16-bit
// param, without offloading:
// estimate_zero2_model_states_mem_needs, 4 P + 16 P / N, and
// estimate_zero3_model_states_mem_needs, 4 L + 18 P / N, for P params of which the
// largest layer has L (deepspeed/runtime/zero/stage_1_and_2.py and stage3.py).

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "bench/must.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "nn/gpt.h"
#include "nn/llama.h"
#include "nn/model_options.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/plan.h"
#include "train/device.h"
#include "train/step_builder.h"
#include "train/training.h"

namespace {

using namespace stowage;
using bench::Must;

struct Model {
  std::string name;
  double params, largest_layer;
  ModelFn build;
};

std::vector<Model> Models(int64_t seq) {
  const GptConfig gpt = {.name = "GPT-2 1.5B",
                         .layers = 48,
                         .heads = 25,
                         .width = 1600,
                         .vocabulary = 50257,
                         .max_seq = 1024};
  LlamaConfig llama = {.name = "Llama-3.1-8B", .layers = 32, .heads = 32};
  llama.kv_heads = 8;
  llama.width = 4096;
  llama.hidden = 14336;
  llama.vocabulary = 128256;
  llama.max_seq = 131072;
  llama.rope_base = 5e5;
  const auto options = [seq](int64_t batch) {
    return ModelOptions{.batch = batch, .seq = seq, .dtype = DType::kBF16};
  };
  return {
      {gpt.name, static_cast<double>(GptParameterCount(gpt)), 50257.0 * 1600,
       [=](int64_t batch) {
         return BuildGpt(gpt, ModelPurpose::kTrain, options(batch));
       }},
      {llama.name, static_cast<double>(LlamaParameterCount(llama)),
       128256.0 * 4096, [=](int64_t batch) {
         return BuildLlama(llama, ModelPurpose::kTrain, options(batch));
       }}};
}

// How a rank's step is split, and updated.
struct Column {
  Sharding shard;
  AdamW adamw = {};
};
const Column kColumns[] = {
    {Sharding::kNone},
    {Sharding::kStates},
    {Sharding::kGradients},
    {Sharding::kWeights},
    {Sharding::kWeights, {.moments = Moments::kDynamic8, .rest_bits = 8}}};

}  // namespace

int main(int argc, char** argv) {
  const int64_t seq = argc > 1 ? std::atoll(argv[1]) : 1024;
  const DeviceNeeds device = Must(NeedsOfDevice("cpu", DType::kBF16, 2));
  for (const Model& model : Models(seq)) {
    std::printf(
        "\n%s, %.2f billion params, one text of %lld tokens a rank; GB\n\n"
        "| ranks | none | states | gradients | weights | weights, adamw8bit | "
        "ZeRO-2's formula | ZeRO-3's | sent: none | weights | seconds to plan "
        "|\n|---|---|---|---|---|---|---|---|---|---|---|\n",
        model.name.c_str(), model.params / 1e9, static_cast<long long>(seq));
    for (const int64_t ranks : {2, 8, 64, 1024}) {
      const auto start = std::chrono::steady_clock::now();
      std::string arenas;
      double sent[4] = {};
      for (const auto& [shard, adamw] : kColumns) {
        TrainingPlanner planner = Must(
            TrainingPlanner::Make({.model = model.build,
                                   .batch = ranks,
                                   .ranks = {.ranks = ranks, .shard = shard},
                                   .training = {.optimizer = adamw},
                                   .optimizations = NoOptimizations()},
                                  device));
        const TrainingPlan plan = Must(planner.Plan());
        char cell[32];
        std::snprintf(cell, sizeof(cell), " %.2f |",
                      static_cast<double>(plan.arena_bytes()) / 1e9);
        arenas += cell;
        sent[static_cast<size_t>(shard)] =
            static_cast<double>(WireBytes(plan.step.graph)) / 1e9;
      }
      const auto n = static_cast<double>(ranks);
      const std::chrono::duration<double> seconds =
          std::chrono::steady_clock::now() - start;
      std::printf("| %lld |%s %.2f | %.2f | %.2f | %.2f | %.1f |\n",
                  static_cast<long long>(ranks), arenas.c_str(),
                  model.params * (4 + 16 / n) / 1e9,
                  (4 * model.largest_layer + 18 * model.params / n) / 1e9,
                  sent[0], sent[3], seconds.count());
      std::fflush(stdout);
    }
  }
  return 0;
}
