// Plans the fine-tuning of published models, without weights, and prints a Markdown table with
// a row per model:
//
//   finetune_plans [DEVICE] [SEQ]     default: cuda and 2048
//
// The base is in blocks of Q4_K, 4.5 bits per element, with norms and biases in bf16; all linear
// layers except the head have adapters of rank 16; activations are bf16, the optimizer is
// AdamW, the batch 1. Sizes of models are those of their config.json.

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "bench/must.h"
#include "ir/graph.h"
#include "nn/llama.h"
#include "nn/lora.h"
#include "nn/quantized_params.h"
#include "planner/fit/memory_optimizations.h"
#include "train/device.h"
#include "train/training.h"

namespace {

using namespace stowage;
using bench::Must;

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::vector<LlamaConfig> PublishedModels() {
  LlamaConfig qwen = {.name = "Qwen2.5-0.5B", .layers = 24, .heads = 14};
  qwen.kv_heads = 2;
  qwen.width = 896;
  qwen.hidden = 4864;
  qwen.vocabulary = 151936;
  qwen.max_seq = 32768;
  qwen.rope_base = 1e6;
  qwen.tied_head = true;
  qwen.qkv_bias = true;
  LlamaConfig small = {.name = "Llama-3.2-1B", .layers = 16, .heads = 32};
  small.kv_heads = 8;
  small.width = 2048;
  small.hidden = 8192;
  small.vocabulary = 128256;
  small.max_seq = 131072;
  small.rope_base = 5e5;
  small.tied_head = true;
  LlamaConfig large = small;
  large.name = "Llama-3.1-8B";
  large.layers = 32;
  large.width = 4096;
  large.hidden = 14336;
  large.tied_head = false;
  std::vector<LlamaConfig> models = {qwen, small, large};
  for (LlamaConfig& model : models) model.out_in = true;
  // Family, name, layers, heads, those of keys, elements of a head, width, hidden, tokens.
  const auto add = [&](std::string_view family, std::string_view name,
                       const std::array<int64_t, 7>& sizes) {
    const LlamaFamily* const found = FindLlamaFamily(family);
    LlamaConfig model = found->traits;
    model.name = name;
    model.layers = sizes[0];
    model.heads = sizes[1];
    model.kv_heads = sizes[2];
    model.head_size = sizes[3];
    model.width = sizes[4];
    model.hidden = sizes[5];
    model.vocabulary = sizes[6];
    model.max_seq = 4096;
    if (model.window_rope_base > 0) model.window = 512;
    model.layer_kinds = LayerKindsOf(*found, model);
    models.push_back(std::move(model));
  };
  add("gemma3", "Gemma-3-1B", {26, 4, 1, 256, 1152, 6912, 262144});
  add("olmo2", "OLMo-2-1B", {16, 16, 16, 128, 2048, 8192, 100352});
  add("smollm3", "SmolLM3-3B", {36, 16, 4, 128, 2048, 11008, 128256});
  add("phi3", "Phi-3-mini-4k", {32, 32, 32, 96, 3072, 8192, 32064});
  add("mistral", "Mistral-Nemo-12B", {40, 32, 8, 128, 5120, 14336, 131072});
  add("phi3", "Phi-4-14B", {40, 40, 10, 128, 5120, 17920, 100352});
  return models;
}

Result<Graph> Adapted(const LlamaConfig& config, int64_t batch, int64_t seq) {
  STOWAGE_ASSIGN_OR_RETURN(
      Graph graph,
      BuildLlama(config, ModelPurpose::kTrain,
                 {.batch = batch, .seq = seq, .dtype = DType::kBF16}));
  STOWAGE_ASSIGN_OR_RETURN(
      graph, WithLora(graph, {.rank = 16, .targets = {"*_proj.weight"}}));
  WeightTypes types;
  for (const std::string& name : ReadableInBlocks(graph)) {
    if (IsLoraParam(name)) continue;
    // Qwen2.5-0.5B is 896 wide, no multiple of 256: llama.cpp falls back so, too.
    const int64_t row = graph.value(*graph.Find(name)).type.shape.back();
    types[name] = row % 256 == 0 ? WeightType::kQ4_K : WeightType::kQ5_0;
  }
  return WithQuantizedParams(graph, types);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "cuda";
  const int64_t seq = argc > 2 ? std::atoll(argv[2]) : 2048;
  const DeviceNeeds needs = Must(NeedsOfDevice(device, DType::kBF16, 2));
  std::printf(
      "| model | base | as it is | smallest, recomputed | with offload | "
      "planned in |\n|---|---|---|---|---|---|\n");
  for (const LlamaConfig& config : PublishedModels()) {
    const auto spec = [&](bool offload) {
      TrainingSpec training = {
          .model = [config,
                    seq](int64_t batch) { return Adapted(config, batch, seq); },
          .training = {.groups = {{.pattern = "*.lora_A.weight"},
                                  {.pattern = "*.lora_B.weight"},
                                  {.pattern = "*", .frozen = true}}}};
      MemoryOptimizations optimizations = NoOptimizations();
      optimizations.recompute = Recompute::kAuto;
      if (offload) optimizations.offload = OffloadChoice::kAuto;
      training.optimizations = optimizations;
      return training;
    };
    const double start = Seconds();
    TrainingPlanner planner = Must(TrainingPlanner::Make(spec(false), needs));
    const FittedStep given = Must(planner.step().fitter().AsGiven());
    const Bytes smallest = Must(planner.step().SmallestBudget());
    const double planned = Seconds() - start;
    TrainingPlanner with_offload =
        Must(TrainingPlanner::Make(spec(true), needs));
    const Bytes offloaded = Must(with_offload.step().SmallestBudget());
    std::printf("| %s | %s | %s | %s | %s | %.1f and %.1f s |\n",
                config.name.c_str(),
                FormatBytes(given.plan.regions.weights).c_str(),
                FormatBytes(given.plan.arena_bytes()).c_str(),
                FormatBytes(smallest).c_str(), FormatBytes(offloaded).c_str(),
                planned, Seconds() - start - planned);
    std::fflush(stdout);
  }
  return 0;
}
