// Tiny models as transformers and ggml's package write them, with their logits
// (tests/goldens/make_pretrained_goldens.py), and files that describe what is not there.

#include "nn/pretrained.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/gguf.h"
#include "ir/graph.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;
using testing::ReadAll;

constexpr int64_t kSeq = 12;
const std::string kGoldens = "tests/goldens/pretrained/";

PretrainedModel Open(const std::string& path) {
  auto model = PretrainedModel::Open(path);
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  return *std::move(model);
}

std::vector<float> Logits(const PretrainedModel& model) {
  const auto graph =
      model.Build(ModelPurpose::kGenerate, {.batch = 1, .seq = kSeq});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto cpu = MakeCpuBackend({.threads = 2});
  auto session = Session::Create(
      {{"logits", *graph, *PlanMemory(*graph, {.device = cpu->Needs()})}},
      *cpu);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  Runner& runner = session->front();
  for (const PretrainedParam& param : model.params()) {
    std::vector<float> numbers(static_cast<size_t>(param.shape.num_elements()));
    REQUIRE(model.ReadFloats(param, 0, numbers).ok());
    const Status written = runner.Write(param.name, numbers);
    REQUIRE_MESSAGE(written.ok(), written.error().message);
  }
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kSeq; ++i) tokens.push_back((7 * i + 3) % 64);
  REQUIRE(runner.Write("tokens", tokens).ok());
  REQUIRE(runner.Step() == StepCode::kOk);
  std::vector<float> logits(static_cast<size_t>(kSeq * model.vocabulary()));
  REQUIRE(runner.Read("logits", &logits).ok());
  return logits;
}

TEST_CASE("logits of every family are those of transformers to 1e-5") {
  std::map<std::string, std::vector<float>> ours;
  std::ifstream in(kGoldens + "logits.csv");
  int rows = 0;
  for (std::string line; std::getline(in, line); ++rows) {
    std::istringstream fields(line);
    std::string name, field;
    std::getline(fields, name, ',');
    std::getline(fields, field, ',');
    const size_t position = std::stoul(field);
    INFO(name);
    INFO(position);
    if (!ours.contains(name)) ours[name] = Logits(Open(kGoldens + name));
    double largest = 0, difference = 0;
    size_t count = 0;
    for (; std::getline(fields, field, ','); ++count) {
      const double golden = std::stod(field);
      const double got = ours[name][position * 64 + count];
      largest = std::max(largest, std::abs(golden));
      REQUIRE(std::isfinite(got));  // std::max passes NaN over
      difference = std::max(difference, std::abs(got - golden));
    }
    CHECK(count == 64);
    CHECK(difference <= 1e-5 * largest);
  }
  CHECK(rows == 33);
}

TEST_CASE("what a file says of its model becomes a config") {
  const PretrainedModel llama = Open(kGoldens + "llama");
  CHECK(llama.model().family == "llama");
  CHECK(llama.max_seq() == 32);
  const auto& config = std::get<LlamaConfig>(llama.model().config);
  CHECK(config.layers == 2);
  CHECK(config.heads == 4);
  CHECK(config.kv_heads == 2);
  CHECK(config.head_size == 8);
  CHECK(config.rope_base == 500000);
  CHECK(config.eps == 1e-5);
  CHECK(config.qkv_bias);
  CHECK(config.out_bias);
  CHECK(config.mlp_bias);
  CHECK_FALSE(config.tied_head);
  CHECK(config.rope_factors.size() == 4);
  CHECK(llama.file().tensors().size() == llama.params().size());

  const PretrainedModel gguf = Open(kGoldens + "llama.gguf");
  const auto& same = std::get<LlamaConfig>(gguf.model().config);
  CHECK(same.out_bias);
  REQUIRE(same.rope_factors.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(same.rope_factors[i] - config.rope_factors[i]) <= 1e-6);
  }
  CHECK(LlamaParameterCount(same) == LlamaParameterCount(config));
  int64_t elements = 0;
  for (const PretrainedParam& param : gguf.params()) {
    elements += param.shape.num_elements();
  }
  CHECK(elements == LlamaParameterCount(config));

  const auto mistral = Open(kGoldens + "mistral").model();
  CHECK(std::get<LlamaConfig>(mistral.config).window == 4);
  CHECK(std::get<LlamaConfig>(mistral.config).rope_factors.back() == 2);
  const auto qwen3 = Open(kGoldens + "qwen3.gguf").model();
  CHECK(std::get<LlamaConfig>(qwen3.config).qk_norm == QkNorm::kEachHead);
  const auto qwen2 = Open(kGoldens + "qwen2.gguf").model();
  CHECK(std::get<LlamaConfig>(qwen2.config).tied_head);
  CHECK(std::get<LlamaConfig>(qwen2.config).qkv_bias);
  CHECK_FALSE(std::get<LlamaConfig>(qwen2.config).out_bias);
  const auto gpt2 = Open(kGoldens + "gpt2").model();
  CHECK(std::get<GptConfig>(gpt2.config).max_seq == 32);
}

TEST_CASE("rows that a file keeps in pairs are put back, whole or in part") {
  const PretrainedModel model = Open(kGoldens + "llama.gguf");
  int turned = 0;
  for (const PretrainedParam& param : model.params()) {
    INFO(param.name);
    const int64_t rows = param.shape[0];
    const int64_t size = param.shape.num_elements() / rows;
    const WeightTensor& tensor = model.tensor(param);
    std::vector<float> as_filed(static_cast<size_t>(rows * size));
    REQUIRE(model.file().ReadFloats(tensor, 0, as_filed).ok());
    std::vector<float> floats(as_filed.size());
    REQUIRE(model.ReadFloats(param, 0, floats).ok());
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    REQUIRE(model.ReadBytes(param, 0, bytes).ok());
    std::vector<float> from_bytes(as_filed.size());
    Dequantize(tensor.type, bytes, from_bytes);
    CHECK(from_bytes == floats);
    std::vector<float> last(static_cast<size_t>(size));
    REQUIRE(model.ReadFloats(param, rows - 1, last).ok());
    CHECK(std::equal(last.begin(), last.end(), floats.end() - size));
    if (param.in_file.in_order()) {
      CHECK(floats == as_filed);
      continue;
    }
    ++turned;
    // Heads of 8 rows: 0, 1, 2, ... of the file are 0, 4, 1, 5, 2, 6, 3, 7.
    constexpr int64_t kOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t ours = row / 8 * 8 + kOrder[row % 8];
      CHECK(std::equal(as_filed.begin() + row * size,
                       as_filed.begin() + (row + 1) * size,
                       floats.begin() + ours * size));
    }
  }
  CHECK(turned == 8);  // weights and biases of q and k, in two layers
}

// --- What is refused ---------------------------------------------------------

// A copy of a golden folder, whose config.json has `from` replaced by `to`.
std::string Changed(const std::string& model, std::string_view from,
                    std::string_view to) {
  const char* const root = std::getenv("TEST_TMPDIR");
  const fs::path folder =
      fs::path(root == nullptr ? "/tmp" : root) / "pretrained" / model;
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(kGoldens + model)) {
    std::string bytes = ReadAll(entry.path());
    if (entry.path().filename() == "config.json") {
      const size_t at = bytes.find(from);
      REQUIRE_MESSAGE(at != std::string::npos, "no ", from);
      bytes.replace(at, from.size(), to);
    }
    std::ofstream(folder / entry.path().filename(), std::ios::binary) << bytes;
  }
  return folder.string();
}

// The message, without the path that it opens with.
std::string Refusal(const std::string& path) {
  const auto model = PretrainedModel::Open(path);
  REQUIRE_FALSE(model.ok());
  const std::string start = StrCat("[weights] ", Quoted(path), " ");
  REQUIRE_MESSAGE(model.error().message.starts_with(start),
                  model.error().message);
  return model.error().message.substr(start.size());
}

TEST_CASE("what ours cannot do is named, and so is what does not fit") {
  const std::string of_floats =
      "; quantized weights are read from GGUF files alone: convert the folder, "
      "or take its original in floats";
  struct Row {
    std::string model;
    std::string_view from, to;
    std::string message;
  };
  const Row rows[] = {
      {"llama", "\"architectures\"", "\"buildings\"",
       "cannot be taken: [json] there is no value \"architectures.0\""},
      {"llama", "\"silu\"", "\"relu\"",
       "has a \"hidden_act\" of \"relu\"; those that are known are silu, "
       "swish, "
       "gelu, gelu_new, gelu_fast and gelu_pytorch_tanh"},
      {"llama", "\"rope_type\": \"llama3\"", "\"rope_type\": \"dynamic\"",
       "has a scaling of rope of type \"dynamic\"; linear, llama3, longrope "
       "and yarn are known here"},
      {"llama", "\"factor\": 4.0", "\"factors\": 4.0",
       "cannot be taken: [json] there is no value \"rope_parameters.factor\""},
      {"llama", "\"factor\": 4.0", "\"factor\": 0",
       "cannot be taken: [model] a Llama 3 scaling of rope has a factor of 0; "
       "expected a finite number above 0"},
      {"qwen2", "\"rope_theta\": 1000000.0", "\"rope_theta\": 0",
       "has a base of rope of 0; expected a finite number above 0"},
      {"llama", "\"high_freq_factor\": 4.0", "\"high_freq_factor\": 1.0",
       "cannot be taken: [model] a Llama 3 scaling of rope has a "
       "high_freq_factor of 1 and a low_freq_factor of 1; expected the first "
       "above the second"},
      {"llama", "\"high_freq_factor\": 4.0", "\"high_freq_factor\": 0",
       "cannot be taken: [model] a Llama 3 scaling of rope has a "
       "high_freq_factor of 0; expected a finite number above 0"},
      {"llama", "\"mlp_bias\": true",
       "\"quantization_config\": {\"quant_method\": \"awq\"}",
       "has a \"quantization_config\" (quant_method awq)" + of_floats},
      {"llama", "\"mlp_bias\": true",
       "\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8, "
       "\"group_size\": 128, \"desc_act\": false}",
       "has a \"quantization_config\" (quant_method gptq, bits 8, group_size "
       "128, desc_act false)" +
           of_floats},
      {"llama", "\"mlp_bias\": true",
       "\"quantization_config\": {\"quant_method\": \"bitsandbytes\", "
       "\"load_in_4bit\": true, \"bnb_4bit_quant_type\": \"nf4\", "
       "\"bnb_4bit_use_double_quant\": true}",
       "has a \"quantization_config\" (quant_method bitsandbytes, "
       "load_in_4bit true, bnb_4bit_quant_type nf4, "
       "bnb_4bit_use_double_quant true)" +
           of_floats},
      {"llama", "\"mlp_bias\": true", "\"quantization_config\": {\"x\": 1}",
       "has a \"quantization_config\"" + of_floats},
      {"llama", "\"mlp_bias\": true", "\"mlp_bias\": false",
       "has 6 tensors that the model does not know: "
       "\"model.layers.0.mlp.down_proj.bias\", "
       "\"model.layers.0.mlp.gate_proj.bias\", "
       "\"model.layers.0.mlp.up_proj.bias\", "
       "\"model.layers.1.mlp.down_proj.bias\", "
       "\"model.layers.1.mlp.gate_proj.bias\" and 1 more"},
      {"llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1000000000",
       "would have 1000000000 layers, and has 35 tensors"},
      {"llama", "\"head_dim\": 8", "\"head_dim\": 1000000000",
       "would have 4 heads of 1000000000 elements, more than its largest "
       "tensor, of 2048"},
      {"llama", "\"hidden_size\": 32", "\"hidden_size\": 0",
       "has a \"hidden_size\" of 0; expected 1 to 2147483647"},
      {"llama", "\"vocab_size\": 64", "\"vocab_size\": 65",
       "has \"model.embed_tokens.weight\" as F16(64, 32); the param "
       "\"model.embed_tokens.weight\" is (65, 32) of floats"},
      {"qwen3", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
       "has 11 tensors that the model does not know: "
       "\"model.layers.1.input_layernorm.weight\", "
       "\"model.layers.1.mlp.down_proj.weight\", "
       "\"model.layers.1.mlp.gate_proj.weight\", "
       "\"model.layers.1.mlp.up_proj.weight\", "
       "\"model.layers.1.post_attention_layernorm.weight\" and 6 more"},
      {"qwen2", "\"tie_word_embeddings\": true",
       "\"tie_word_embeddings\": false",
       "lacks 1 tensors of the model that it describes: \"lm_head.weight\""},
      {"qwen2", "\"full_attention\"", "\"sliding_attention\"",
       "has layers of type \"sliding_attention\", and no "
       "\"use_sliding_window\" of true"},
      {"gpt2", "\"gelu_new\"", "\"relu\"",
       "has a \"activation_function\" of \"relu\"; here it is \"gelu_new\""},
      {"gpt2", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-06",
       "has a \"layer_norm_epsilon\" of 1e-06; here it is 1e-05"},
      {"gpt2", "\"add_cross_attention\": false",
       "\"add_cross_attention\": true",
       "has a \"add_cross_attention\" of true, which no model here knows"},
  };
  const std::string unknown =
      Refusal(Changed("llama", "LlamaForCausalLM", "FalconForCausalLM"));
  CHECK(
      unknown.starts_with("has the architecture \"FalconForCausalLM\"; those "
                          "that are read are LlamaForCausalLM, "));
  CHECK(unknown.ends_with(
      " and GPT2LMHeadModel, and with ForSequenceClassification, Model, "
      "ForMaskedLM or ForPreTraining behind it Bert, Roberta, XLMRoberta, "
      "DistilBert and Electra"));
  for (const Row& row : rows) {
    INFO(row.model);
    INFO(std::string(row.to));
    CHECK(Refusal(Changed(row.model, row.from, row.to)) == row.message);
  }
}

TEST_CASE("weights of a type that is not read are named") {
  const fs::path folder =
      Changed("llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  for (const char* const name :
       {"model.safetensors.index.json", "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors"}) {
    REQUIRE(fs::remove(folder / name));
  }
  const std::string header =
      R"({"model.embed_tokens.weight": {"dtype": "F64", "shape": [64, 32],)"
      R"( "data_offsets": [0, 16384]}})";
  std::ofstream(folder / "model.safetensors", std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header
      << std::string(16384, '\0');
  CHECK(Refusal(folder.string()) ==
        "has no tensor of a type that is read; \"model.embed_tokens.weight\" "
        "is f64(64, 32)");
}

TEST_CASE("of Qwen the layers from max_window_layers on have the window") {
  const std::string config = ReadAll(kGoldens + "qwen2/config.json");
  const std::string rest = config.substr(config.find("\"layer_types\""));
  const auto window = [&](std::string_view full) {
    const auto model = Open(Changed(
        "qwen2", rest,
        StrCat(R"("max_position_embeddings": 32, "num_attention_heads": 4,
                  "num_hidden_layers": 2, "num_key_value_heads": 2,
                  "sliding_window": 4, "tie_word_embeddings": true,
                  "use_sliding_window": true, "vocab_size": 64,
                  "max_window_layers": )",
               full, "}")));
    const auto& found = std::get<LlamaConfig>(model.model().config);
    // Of two layers the second alone.
    CHECK(found.layer_kinds.empty() == (full != "1"));
    if (full == "1") CHECK_FALSE(found.layer_kinds[0].has_window);
    if (full == "1") CHECK(found.layer_kinds[1].has_window);
    return found.window;
  };
  CHECK(window("0") == 4);
  CHECK(window("1") == 4);
  CHECK(window("2") == 0);
  CHECK(window("9223372036854775807") == 0);
  CHECK(window("-9223372036854775808") == 4);
}

TEST_CASE("an absent window is the family's, and a null window is none") {
  const std::string config = ReadAll(kGoldens + "qwen2/config.json");
  const std::string rest = config.substr(config.find("\"layer_types\""));
  const auto window = [&](std::string_view more) {
    const auto model = Open(Changed(
        "qwen2", rest,
        StrCat(R"("max_position_embeddings": 32, "num_attention_heads": 4,
                  "num_hidden_layers": 2, "num_key_value_heads": 2,
                  "tie_word_embeddings": true, "vocab_size": 64,
                  "max_window_layers": 0, )",
               more, "}")));
    return std::get<LlamaConfig>(model.model().config).window;
  };
  // As in transformers' Qwen2Config and MistralConfig.
  CHECK(window(R"("use_sliding_window": true)") == 4096);
  CHECK(window(R"("use_sliding_window": false)") == 0);
  CHECK(window(R"("use_sliding_window": true, "sliding_window": null)") == 0);
  const auto mistral = [&](std::string_view now) {
    const auto model = Open(Changed("mistral", "\"sliding_window\": 4,", now));
    return std::get<LlamaConfig>(model.model().config).window;
  };
  CHECK(mistral("") == 4096);
  CHECK(mistral("\"sliding_window\": null,") == 0);
}

// Writes the bytes of one tensor of a folder over another's.
void CopyTensor(const std::string& folder, std::string_view from,
                std::string_view to) {
  const PretrainedModel model = Open(folder);
  const WeightTensor source = *model.file().Find(from);
  const WeightTensor target = *model.file().Find(to);
  REQUIRE(source.bytes == target.bytes);
  std::vector<std::byte> bytes(static_cast<size_t>(source.bytes));
  REQUIRE(model.file().ReadBytes(source, 0, bytes).ok());
  const fs::path path = fs::path(folder) / StrCat("model-0000", target.file + 1,
                                                  "-of-00002.safetensors");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(target.begin);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file.good());
}

TEST_CASE("a head that differs from the embedding it is tied to is kept") {
  const std::string tied = Changed("llama", "\"tie_word_embeddings\": false",
                                   "\"tie_word_embeddings\": true");
  const PretrainedModel kept = Open(tied);
  CHECK(kept.params().size() == kept.file().tensors().size());
  CHECK_FALSE(std::get<LlamaConfig>(kept.model().config).tied_head);
  CHECK(Logits(kept) == Logits(Open(kGoldens + "llama")));

  CopyTensor(tied, "model.embed_tokens.weight", "lm_head.weight");
  const PretrainedModel equal = Open(tied);
  CHECK(equal.params().size() + 1 == equal.file().tensors().size());
  CHECK(std::get<LlamaConfig>(equal.model().config).tied_head);
}

// A file of GPT-2 to which a head is added: the embedding, or what is not.
std::string Gpt2WithHead(bool differs) {
  const std::string folder = Changed("gpt2", "\"gelu_new\"", "\"gelu_new\"");
  const fs::path path = fs::path(folder) / "model.safetensors";
  const PretrainedModel model = Open(folder);
  const WeightTensor* embedding = model.file().Find("transformer.wte.weight");
  REQUIRE(embedding != nullptr);
  std::vector<std::byte> head(static_cast<size_t>(embedding->bytes));
  REQUIRE(model.file().ReadBytes(*embedding, 0, head).ok());
  if (differs) std::swap(head.front(), head[head.size() / 2]);
  std::string bytes = ReadAll(path);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  std::string header = bytes.substr(8, size);
  const std::string data = bytes.substr(8 + size);
  const size_t end = header.rfind('}');
  header = StrCat(header.substr(0, end), ",\"lm_head.weight\":{\"dtype\":\"",
                  embedding->Describe().substr(0, 3), "\",\"shape\":[",
                  embedding->shape[0], ",", embedding->shape[1],
                  "],\"data_offsets\":[", data.size(), ",",
                  data.size() + head.size(), "]}}");
  size = header.size();
  bytes.assign(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += header + data;
  bytes.append(reinterpret_cast<const char*>(head.data()), head.size());
  std::ofstream(path, std::ios::binary) << bytes;
  return folder;
}

TEST_CASE("of GPT-2, too, a head that differs is kept, by its own name") {
  const PretrainedModel equal = Open(Gpt2WithHead(false));
  const auto& config = std::get<GptConfig>(equal.model().config);
  CHECK(config.tied_head);
  CHECK(Logits(equal) == Logits(Open(kGoldens + "gpt2")));

  const PretrainedModel kept = Open(Gpt2WithHead(true));
  GptConfig untied = config;
  untied.tied_head = false;
  CHECK_FALSE(std::get<GptConfig>(kept.model().config).tied_head);
  CHECK(kept.params().back().name == "lm_head.weight");
  CHECK(kept.PublishedName("lm_head.weight") == "lm_head.weight");
  CHECK(GptParameterCount(untied) ==
        GptParameterCount(config) + config.vocabulary * config.width);
  CHECK(Logits(kept) != Logits(equal));
}

TEST_CASE("of a GGUF file a factor of rope without a type is linear") {
  std::string bytes = ReadAll(kGoldens + "yarn.gguf");
  const std::string key = "qwen3.rope.scaling.type";
  const size_t at = bytes.find(key);
  REQUIRE(at != std::string::npos);
  bytes[at] = 'x';  // another family's
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(root == nullptr ? "/tmp" : root, "/untyped.gguf");
  std::ofstream(path, std::ios::binary) << bytes;
  const PretrainedModel model = Open(path);
  const auto& config = std::get<LlamaConfig>(model.model().config);
  const PretrainedModel whole = Open(kGoldens + "yarn.gguf");
  const double factor =
      whole.file().gguf()->Real("qwen3.rope.scaling.factor").value();
  CHECK(factor > 1);
  CHECK(config.rope_gain == 1);
  CHECK(config.rope_factors ==
        std::vector<double>(static_cast<size_t>(config.head_size / 2), factor));
}

TEST_CASE("rope is read under whatever name transformers reads it") {
  const auto config = [](std::string_view from, std::string_view to) {
    const PretrainedModel model = Open(Changed("llama", from, to));
    return std::get<LlamaConfig>(model.model().config);
  };
  CHECK(config("\"rope_parameters\"", "\"rope_scaling\"").rope_base == 500000);
  // Beside its parameters.
  const auto beside = config(
      "\"rope_theta\": 500000.0,\n  \"rope_type\": "
      "\"llama3\"\n },",
      "\"rope_type\": \"llama3\"}, \"rope_theta\": 7,");
  CHECK(beside.rope_base == 7);
  // Of both, the older.
  const auto both = config("\"mlp_bias\"",
                           "\"rope_scaling\": {\"type\": \"linear\", "
                           "\"factor\": 2, \"rope_theta\": 9}, \"mlp_bias\"");
  CHECK(both.rope_base == 9);
  CHECK(both.rope_factors == std::vector<double>(4, 2));
}

TEST_CASE("a GGUF file's family is checked key by key") {
  using testing::GgufBytes;
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string path = StrCat(root == nullptr ? "/tmp" : root, "/x.gguf");
  const auto refusal = [&](const GgufBytes& file) {
    std::ofstream(path, std::ios::binary) << file.bytes();
    return Refusal(path);
  };
  CHECK(refusal(GgufBytes().Start(3, 0, 0)) ==
        "cannot be taken: [gguf] there is no value \"general.architecture\"");
  const auto named = [](std::string_view name, uint64_t more) {
    return GgufBytes()
        .Start(3, 0, 1 + more)
        .Text("general.architecture")
        .U32(8)
        .Text(name);
  };
  CHECK(refusal(named("falcon", 0))
            .starts_with("has the architecture \"falcon\"; those that are read "
                         "are llama, qwen2, qwen3"));
  CHECK(refusal(named("llama", 2)
                    .Text("split.no")
                    .U32(4)
                    .U32(0)
                    .Text("split.count")
                    .U32(4)
                    .U32(3)) ==
        "is the first of 3 shards; its name must end in "
        "\"-00001-of-00003.gguf\"");
  CHECK(refusal(named("llama", 0)) ==
        "cannot be taken: [gguf] there is no value \"llama.block_count\"");
  CHECK(refusal(named("qwen2", 1).Text("qwen2.expert_count").U32(4).U32(8)) ==
        "has a \"qwen2.expert_count\" of 8, which no model here knows");
  CHECK(refusal(named("llama", 1).Text("llama.block_count").U32(4).U32(9)) ==
        "would have 9 layers, and has 0 tensors");
}

TEST_CASE("a YaRN scaling of numbers that cannot be is refused by name") {
  const std::string whole = ReadAll(kGoldens + "yarn.gguf");
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(root == nullptr ? "/tmp" : root, "/yarn.gguf");
  struct Row {
    std::string_view key, says;
  };
  for (const Row& row :
       {Row{"factor", "a factor"}, Row{"yarn_beta_fast", "a beta_fast"},
        Row{"yarn_beta_slow", "a beta_slow"}}) {
    for (const float number :
         {0.0f, -4.0f, std::numeric_limits<float>::infinity()}) {
      INFO(row.key << " " << number);
      std::string changed = whole;
      const std::string key = StrCat("qwen3.rope.scaling.", row.key);
      const size_t at = changed.find(key);
      REQUIRE(at != std::string::npos);
      // The key is followed by its type, 6 of an f32, and the number.
      std::memcpy(&changed[at + key.size() + 4], &number, sizeof(number));
      std::ofstream(path, std::ios::binary) << changed;
      CHECK(Refusal(path) ==
            StrCat("cannot be taken: [model] a YaRN scaling of rope has ",
                   row.says, " of ", number,
                   "; expected a finite number above 0"));
    }
  }
}

TEST_CASE(
    "a file that is cut anywhere is refused, and a model that lacks one") {
  const std::string whole = ReadAll(kGoldens + "qwen2.gguf");
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string path = StrCat(root == nullptr ? "/tmp" : root, "/cut.gguf");
  for (size_t size = 0; size < whole.size(); size += 97) {
    INFO(size);
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    CHECK_FALSE(PretrainedModel::Open(path).ok());
  }
  // Another name, of the same length.
  std::string renamed = whole;
  const std::string_view name = "blk.1.ffn_up.weight";
  renamed.replace(renamed.find(name), name.size(), "blk.1.ffn_xp.weight");
  std::ofstream(path, std::ios::binary) << renamed;
  CHECK(Refusal(path) ==
        "lacks 1 tensors of the model that it describes: "
        "\"blk.1.ffn_up.weight\"; it has 1 tensors that the model does not "
        "know: \"blk.1.ffn_xp.weight\"");
}

}  // namespace
}  // namespace stowage
