// Parsers of models: their configs, ONNX graphs, weights in several files, adapters.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/safetensors.h"
#include "formats/weights_file.h"
#include "ir/tensor_type.h"
#include "nn/llama.h"
#include "nn/lora.h"
#include "nn/pretrained.h"
#include "onnx/onnx.h"
#include "tests/fuzz/fuzz.h"
#include "train/adapter_files.h"

using namespace stowage;
using stowage::testing::Check;
using stowage::testing::Folder;

namespace {

using NamesAndShapes = std::vector<std::pair<std::string, Shape>>;

// A safetensors file of zeros.
std::string SafetensorsBytes(const NamesAndShapes& tensors) {
  SafetensorsHeader header;
  Bytes end = 0;
  for (const auto& [name, shape] : tensors) {
    const TensorType type = {DType::kF32, shape};
    header.tensors.push_back(
        {.name = name, .type = type, .begin = end, .end = end + type.bytes()});
    end += type.bytes();
  }
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += text;
  file.append(static_cast<size_t>(end), '\0');
  return file;
}

// adapter_config.json: rules that are taken are put beside the layers of a small Llama.
FUZZ_TARGET(adapter_config)(const uint8_t* data, size_t size) {
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

// ONNX files become a graph or an error, whatever the sizes. The corpus is models of ONNX's own
// tests (libonnx-testdata 1.12, Apache-2.0).
FUZZ_TARGET(onnx)(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result<OnnxModel> model = ParseOnnx(bytes, "fuzz/model.onnx");
  if (!model.ok()) return 0;
  OnnxBuildOptions options;
  for (const OnnxInput& input : model->inputs()) {
    for (const OnnxDim& dim : input.dims) {
      if (!dim.symbol.empty()) options.dims[dim.symbol] = 2;
    }
  }
  const Result<Graph> forward = model->Build(options);
  if (!forward.ok()) return 0;
  options.loss = OnnxLoss{};
  const Result<Graph> trained = model->Build(options);
  (void)trained.ok();
  return 0;
}

// One layer, two heads of 2 elements that share their keys, and weights that only
// some configs want.
const char* const kWeights = "model.safetensors";

void WriteLlama(Folder& folder) {
  folder.Write(
      kWeights,
      SafetensorsBytes({{"model.embed_tokens.weight", {8, 4}},
                        {"model.norm.weight", {4}},
                        {"lm_head.weight", {8, 4}},
                        {"model.layers.0.input_layernorm.weight", {4}},
                        {"model.layers.0.self_attn.q_proj.weight", {4, 4}},
                        {"model.layers.0.self_attn.k_proj.weight", {2, 4}},
                        {"model.layers.0.self_attn.v_proj.weight", {2, 4}},
                        {"model.layers.0.self_attn.o_proj.weight", {4, 4}},
                        {"model.layers.0.post_attention_layernorm.weight", {4}},
                        {"model.layers.0.mlp.gate_proj.weight", {6, 4}},
                        {"model.layers.0.mlp.up_proj.weight", {6, 4}},
                        {"model.layers.0.mlp.down_proj.weight", {4, 6}}}));
}

void WriteGpt(Folder& folder) {
  folder.Write(kWeights, SafetensorsBytes({{"wte.weight", {8, 4}},
                                           {"wpe.weight", {5, 4}},
                                           {"h.0.ln_1.weight", {4}},
                                           {"h.0.ln_1.bias", {4}},
                                           {"h.0.attn.c_attn.weight", {4, 12}},
                                           {"h.0.attn.c_attn.bias", {12}},
                                           {"h.0.attn.c_proj.weight", {4, 4}},
                                           {"h.0.attn.c_proj.bias", {4}},
                                           {"h.0.ln_2.weight", {4}},
                                           {"h.0.ln_2.bias", {4}},
                                           {"h.0.mlp.c_fc.weight", {4, 16}},
                                           {"h.0.mlp.c_fc.bias", {16}},
                                           {"h.0.mlp.c_proj.weight", {16, 4}},
                                           {"h.0.mlp.c_proj.bias", {4}},
                                           {"ln_f.weight", {4}},
                                           {"ln_f.bias", {4}}}));
}

void Open(const std::string& path) {
  const auto model = PretrainedModel::Open(path);
  if (!model.ok()) {
    Check(model.error().code == ErrorCode::kInvalidArgument ||
          model.error().code == ErrorCode::kUnsupported);
    return;
  }
  const int64_t seq = std::min<int64_t>(model->max_seq(), 3);
  for (const ModelPurpose purpose :
       {ModelPurpose::kTrain, ModelPurpose::kGenerate}) {
    Check(model->Build(purpose, {.batch = 2, .seq = seq}).ok());
  }
}

// config.json beside the weights of a small Llama, and beside those of a small GPT-2; and
// GGUF files, weights and all. A model that opens is built, with sequences of a few tokens.
FUZZ_TARGET(published_model)(const uint8_t* data, size_t size) {
  static Folder llama, gpt;
  [[maybe_unused]] static const bool written = [] {
    WriteLlama(llama);
    WriteGpt(gpt);
    return true;
  }();
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  if (content.starts_with("GGUF")) {
    static Folder folder;
    folder.Write("model.gguf", content);
    Open(folder.path() + "/model.gguf");
    return 0;
  }
  for (Folder* const folder : {&llama, &gpt}) {
    folder->Write("config.json", content);
    Open(folder->path());
  }
  return 0;
}

// model.safetensors.index.json over two files: weights that open are those of the files
// that it names, each once, and can be read.
FUZZ_TARGET(weights_index)(const uint8_t* data, size_t size) {
  static Folder folder;
  [[maybe_unused]] static const bool written = [] {
    folder.Write("config.json", "{}");
    folder.Write("a", SafetensorsBytes({{"x", {2}}, {"y.z", {3, 2}}}));
    folder.Write("b", SafetensorsBytes({{"w", {1}}}));
    return true;
  }();
  folder.Write("model.safetensors.index.json",
               {reinterpret_cast<const char*>(data), size});
  const Result<WeightsFile> file = WeightsFile::Open(folder.path());
  if (!file.ok()) return 0;
  const size_t count = file->tensors().size();
  Check(count >= 1 && count <= 3);
  Check((file->Find("x") != nullptr) == (file->Find("y.z") != nullptr));
  for (const WeightTensor& tensor : file->tensors()) {
    Check(file->Find(tensor.name) == &tensor);
    std::vector<float> numbers(static_cast<size_t>(tensor.shape.num_elements()),
                               1);
    Check(file->ReadFloats(tensor, 0, numbers).ok());
    for (const float number : numbers) Check(number == 0);
  }
  return 0;
}

}  // namespace
