// Models of the families of decoders at the sizes of their published config.json, planned
// without weights: adapters beside a base in blocks of four bits.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "ir/graph.h"
#include "nn/layers.h"
#include "nn/llama.h"
#include "nn/lora.h"
#include "nn/quantized_params.h"
#include "planner/fit/memory_optimizations.h"
#include "train/device.h"
#include "train/fine_tuning.h"
#include "train/training.h"

namespace stowage {
namespace {

constexpr int64_t kSeq = 512;

struct Published {
  std::string_view family, name;
  int64_t layers, heads, kv_heads, head_size, width, hidden, vocabulary;
  bool tied_head;
  int64_t params;               // that transformers' model of the config has
  ExpertsOptions experts = {};  // sizes; the rest is the family's
};

// Sizes are those of config.json at huggingface.co: microsoft/Phi-3-mini-4k-instruct,
// microsoft/phi-4, microsoft/Phi-4-mini-instruct, mistralai/Mistral-Nemo-Base-2407,
// google/gemma-2-2b, google/gemma-3-1b-pt, HuggingFaceTB/SmolLM3-3B,
// allenai/OLMo-2-0425-1B, ibm-granite/granite-3.1-2b-base, EleutherAI/pythia-1b,
// EleutherAI/gpt-neox-20b, mistralai/Mixtral-8x7B-v0.1, Qwen/Qwen1.5-MoE-A2.7B,
// Qwen/Qwen3-30B-A3B-Base, allenai/OLMoE-1B-7B-0924.
const Published kPublished[] = {
    {"phi3", "Phi-3-mini-4k", 32, 32, 32, 96, 3072, 8192, 32064, false,
     3'821'079'552},
    {"phi3", "Phi-4", 40, 40, 10, 128, 5120, 17920, 100352, false,
     14'659'507'200},
    {"phi3", "Phi-4-mini", 32, 24, 8, 128, 3072, 8192, 200064, true,
     3'836'021'760},
    {"mistral", "Mistral-Nemo-12B", 40, 32, 8, 128, 5120, 14336, 131072, false,
     12'247'782'400},
    {"gemma2", "Gemma-2-2B", 26, 8, 4, 256, 2304, 9216, 256000, true,
     2'614'341'888},
    {"gemma3", "Gemma-3-1B", 26, 4, 1, 256, 1152, 6912, 262144, true,
     999'885'952},
    {"smollm3", "SmolLM3-3B", 36, 16, 4, 128, 2048, 11008, 128256, true,
     3'075'098'624},
    {"olmo2", "OLMo-2-1B", 16, 16, 16, 128, 2048, 8192, 100352, false,
     1'484'916'736},
    {"granite", "Granite-3.1-2B", 40, 32, 8, 64, 2048, 8192, 49155, true,
     2'533'531'648},
    {"gptneox", "Pythia-1B", 16, 8, 8, 256, 2048, 8192, 50304, false,
     1'011'781'632},
    {"gptneox", "GPT-NeoX-20B", 44, 64, 64, 96, 6144, 24576, 50432, false,
     20'554'567'680},
    {"mixtral",
     "Mixtral-8x7B",
     32,
     32,
     8,
     128,
     4096,
     14336,
     32000,
     false,
     46'702'792'704,
     {.count = 8, .per_token = 2, .hidden = 14336}},
    {"qwen2moe",
     "Qwen1.5-MoE-A2.7B",
     24,
     16,
     16,
     128,
     2048,
     5632,
     151936,
     false,
     14'315'784'192,
     {.count = 60, .per_token = 4, .hidden = 1408, .shared_hidden = 5632}},
    {"qwen3moe",
     "Qwen3-30B-A3B",
     48,
     32,
     4,
     128,
     2048,
     6144,
     151936,
     false,
     30'532'122'624,
     {.count = 128, .per_token = 8, .hidden = 768}},
    {"olmoe",
     "OLMoE-1B-7B",
     16,
     16,
     16,
     128,
     2048,
     1024,
     50304,
     false,
     6'919'161'856,
     {.count = 64, .per_token = 8, .hidden = 1024}},
};

LlamaConfig ConfigOf(const Published& published) {
  const LlamaFamily* const family = FindLlamaFamily(published.family);
  REQUIRE(family != nullptr);
  LlamaConfig config = family->traits;
  config.name = published.name;
  config.layers = published.layers;
  config.heads = published.heads;
  config.kv_heads = published.kv_heads;
  config.head_size = published.head_size;
  config.width = published.width;
  config.hidden = published.hidden;
  config.vocabulary = published.vocabulary;
  config.max_seq = 4096;
  config.experts.count = published.experts.count;
  config.experts.per_token = published.experts.per_token;
  config.experts.hidden = published.experts.hidden;
  config.experts.shared_hidden = published.experts.shared_hidden;
  config.tied_head = published.tied_head;
  if (config.window_rope_base > 0) config.window = 512;
  config.layer_kinds = LayerKindsOf(*family, config);
  return config;
}

Result<Graph> Adapted(const LlamaConfig& config, int64_t batch) {
  STOWAGE_ASSIGN_OR_RETURN(
      Graph graph,
      BuildLlama(config, ModelPurpose::kTrain,
                 {.batch = batch, .seq = kSeq, .dtype = DType::kBF16}));
  const bool is_plain = config.mlp == MlpLayers::kPlain;
  const std::vector<std::string> targets =
      is_plain ? std::vector<std::string>{"*.layers.*"}
               : std::vector<std::string>{"*_proj.weight"};
  STOWAGE_ASSIGN_OR_RETURN(graph,
                           WithLora(graph, {.rank = 16, .targets = targets}));
  WeightTypes types;
  for (const std::string& name : ReadableInBlocks(graph)) {
    if (IsLoraParam(name)) continue;
    const int64_t row = graph.value(*graph.Find(name)).type.shape.back();
    types[name] = row % 256 == 0 ? WeightType::kQ4_K : WeightType::kQ5_0;
  }
  return WithQuantizedParams(graph, types);
}

TEST_CASE("models of every family plan at their real sizes") {
  const auto needs = NeedsOfDevice("cpu", DType::kBF16, 2);
  REQUIRE(needs.ok());
  std::string_view last;
  for (const Published& published : kPublished) {
    INFO(std::string(published.name));
    const LlamaConfig config = ConfigOf(published);
    CHECK(LlamaParameterCount(config) == published.params);
    // One of each family, since planning takes seconds; of mixtures of experts, whose
    // layers have more nodes, the one of the fewest layers.
    if (std::exchange(last, published.family) == published.family) continue;
    if (published.experts.count > 0 && published.family != "olmoe") continue;
    MemoryOptimizations optimizations = NoOptimizations();
    optimizations.recompute = Recompute::kAuto;
    auto planner = TrainingPlanner::Make(
        {.model = [&](int64_t batch) { return Adapted(config, batch); },
         .batch = 1,
         .training = {.groups = LoraGroups()},
         .optimizations = optimizations},
        *needs);
    REQUIRE_MESSAGE(planner.ok(), planner.error().message);
    const auto given = planner->step().fitter().AsGiven();
    REQUIRE_MESSAGE(given.ok(), given.error().message);
    const auto smallest = planner->step().SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    // Blocks of 256 take 4.5 bits a number, norms 16.
    const Bytes base = given->plan.regions.weights;
    CHECK(base >= published.params * 9 / 16);
    CHECK(base <= published.params * 11 / 16);
    CHECK(*smallest < given->plan.arena_bytes());
    CHECK(*smallest > base);
    MESSAGE(std::string(published.name)
            << ": base " << base << ", arena " << given->plan.arena_bytes()
            << ", smallest " << *smallest);
  }
}

}  // namespace
}  // namespace stowage
