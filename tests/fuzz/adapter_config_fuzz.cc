// adapter_config.json: rules that are taken are put beside the layers of a small Llama.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nn/llama.h"
#include "nn/lora.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/folder.h"
#include "train/adapter_files.h"

using namespace stowage;
using stowage::testing::Check;
using stowage::testing::Folder;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Folder folder;
  static const Graph graph =
      BuildLlama({.name = "tiny",
                  .layers = 1,
                  .heads = 2,
                  .kv_heads = 1,
                  .width = 4,
                  .hidden = 6,
                  .vocabulary = 8,
                  .max_seq = 8},
                 ModelPurpose::kTrain, {.batch = 1, .seq = 3})
          .value();
  folder.Write("adapter_config.json",
               {reinterpret_cast<const char*>(data), size});
  const Result<LoraRules> rules = ReadAdapterRules(folder.path());
  if (!rules.ok()) {
    // kNotFound: layers that only a file of weights names, of which there is none.
    Check(rules.error().code == ErrorCode::kInvalidArgument ||
          rules.error().code == ErrorCode::kUnsupported ||
          rules.error().code == ErrorCode::kNotFound);
    return 0;
  }
  Check(!rules->targets.empty());
  const Result<Graph> adapted = WithLora(graph, *rules);
  if (!adapted.ok()) {
    Check(adapted.error().code == ErrorCode::kInvalidArgument);
    return 0;
  }
  Check(adapted->Leaves(Role::kParam).size() >
        graph.Leaves(Role::kParam).size());
  return 0;
}
