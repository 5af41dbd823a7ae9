// Tiny models with adapters, written as GGUF files and read again.

#include "train/gguf_export.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/files.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/gguf.h"
#include "formats/quantize.h"
#include "formats/weights_file.h"
#include "nn/model_options.h"
#include "runtime/values.h"
#include "tests/support/files.h"
#include "train/fine_tuning.h"
#include "train/merged_model.h"
#include "train/training.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSeq = 4;
const std::string kModels = "tests/goldens/pretrained/";

FineTuning Open(const std::string& path,
                const FineTuningOptions& options = {}) {
  auto tuning = FineTuning::Open(path, options);
  REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
  return *std::move(tuning);
}

FineTuning OpenGolden(const std::string& name) {
  return Open(kModels + name,
              {.lora = LoraRules{.rank = 3, .alpha = 5, .targets = {}}});
}

Training Start(const FineTuning& tuning, Backend& backend) {
  auto training = Train(
      {.model = tuning.ModelOf(ModelPurpose::kTrain, kSeq),
       .batch = 1,
       .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning.groups()},
       .programs = {{.name = "generate",
                     .model = tuning.ModelOf(ModelPurpose::kGenerate, kSeq)}}},
      backend);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(1);
  const Status loaded = tuning.LoadBase(training->step());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  return *std::move(training);
}

std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kSeq; ++i)
    tokens.push_back((7 * (i + first) + 3) % 64);
  return tokens;
}

// A run of which every adapter has learnt something.
Training Trained(const FineTuning& tuning, Backend& backend) {
  Training training = Start(tuning, backend);
  Runner& step = training.step();
  for (int64_t i = 1; i <= 3; ++i) {
    REQUIRE(step.Write("tokens", Tokens(0)).ok());
    REQUIRE(step.Write("targets", Tokens(1)).ok());
    REQUIRE(step.Write("lr", 0.02f).ok());
    REQUIRE(step.Write("step", i).ok());
    REQUIRE(step.Step() == StepCode::kOk);
  }
  return training;
}

std::vector<float> Logits(Training& training) {
  Runner& generate = *training.Find("generate");
  REQUIRE(generate.Write("tokens", Tokens(0)).ok());
  REQUIRE(generate.Step() == StepCode::kOk);
  std::vector<float> logits(static_cast<size_t>(kSeq * 64));
  REQUIRE(generate.Read("logits", &logits).ok());
  return logits;
}

std::optional<GgufMix> Mix(std::string_view name) {
  const auto mix = ParseGgufMix(name);
  REQUIRE(mix.ok());
  return *mix;
}

std::string Merge(const FineTuning& tuning, Training& training,
                  const std::optional<GgufMix>& mix,
                  const GgufMetadata& tokenizer = {}) {
  const auto plan = GgufExport::Plan(tuning, mix, tokenizer);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const std::string path = testing::EmptyFolder("merged") + "/merged.gguf";
  const auto file = OutputFile::Claim(path);
  REQUIRE(file.ok());
  const Status written = plan->Write(tuning, training.step(), *file);
  REQUIRE_MESSAGE(written.ok(), written.error().message);
  return path;
}

WeightsFile OpenFile(const std::string& path) {
  auto file = WeightsFile::Open(path);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  return *std::move(file);
}

std::vector<float> Floats(const WeightsFile& file, std::string_view name) {
  const WeightTensor* const tensor = file.Find(name);
  REQUIRE_MESSAGE(tensor != nullptr, std::string(name));
  std::vector<float> numbers(static_cast<size_t>(tensor->shape.num_elements()));
  REQUIRE(file.ReadFloats(*tensor, 0, numbers).ok());
  return numbers;
}

std::vector<std::byte> RawBytes(const WeightsFile& file,
                                std::string_view name) {
  const WeightTensor* const tensor = file.Find(name);
  REQUIRE(tensor != nullptr);
  std::vector<std::byte> bytes(static_cast<size_t>(tensor->bytes));
  REQUIRE(file.ReadBytes(*tensor, 0, bytes).ok());
  return bytes;
}

// The merged model as safetensors, beside its config.json.
std::string MergedFolder(const FineTuning& tuning, Training& training,
                         const std::string& model) {
  const std::string folder = testing::EmptyFolder("whole");
  fs::copy_file(StrCat(kModels, model, "/config.json"),
                folder + "/config.json");
  const auto file = OutputFile::Claim(folder + "/model.safetensors");
  REQUIRE(file.ok());
  REQUIRE(SaveMerged(tuning, training.step(), *file).ok());
  return folder;
}

TEST_CASE("a merged model in f32 is the one in safetensors, bit for bit") {
  for (const std::string name : {"llama", "qwen2", "qwen3", "mistral", "yarn",
                                 "llama.gguf", "qwen2.gguf", "qwen3.gguf"}) {
    INFO(name);
    const FineTuning tuning = OpenGolden(name);
    const auto cpu = MakeCpuBackend({.threads = 1});
    Training training = Trained(tuning, *cpu);
    const std::string folder =
        MergedFolder(tuning, training, name.substr(0, name.find('.')));
    const FineTuning whole = Open(folder);
    const FineTuning gguf = Open(Merge(tuning, training, Mix("f32")));
    REQUIRE(gguf.base().params().size() == whole.base().params().size());
    for (const PretrainedParam& param : whole.base().params()) {
      INFO(param.name);
      std::vector<float> expected(
          static_cast<size_t>(param.shape.num_elements()));
      REQUIRE(whole.base().ReadFloats(param, 0, expected).ok());
      const auto same = std::ranges::find(gguf.base().params(), param.name,
                                          &PretrainedParam::name);
      REQUIRE(same != gguf.base().params().end());
      std::vector<float> numbers(expected.size());
      REQUIRE(gguf.base().ReadFloats(*same, 0, numbers).ok());
      CHECK(numbers == expected);
    }
    Training of_folder = Start(whole, *cpu), of_gguf = Start(gguf, *cpu);
    // Where rope is scaled, factors that are f32 in a GGUF file are double in ours.
    if (name.starts_with("llama")) continue;
    CHECK(Logits(of_gguf) == Logits(of_folder));
  }
}

// Which llama.cpp reads, and this library does not yet.
TEST_CASE("GPT-2's layers are transposed, and its embeddings are not") {
  const FineTuning tuning = OpenGolden("gpt2");
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Trained(tuning, *cpu);
  const WeightsFile gguf = OpenFile(Merge(tuning, training, Mix("f32")));
  const WeightsFile whole = OpenFile(MergedFolder(tuning, training, "gpt2"));
  CHECK(gguf.tensors().size() == whole.tensors().size());
  CHECK(Floats(gguf, "token_embd.weight") ==
        Floats(whole, "transformer.wte.weight"));
  CHECK(Floats(gguf, "position_embd.weight") ==
        Floats(whole, "transformer.wpe.weight"));
  CHECK(Floats(gguf, "blk.1.attn_qkv.bias") ==
        Floats(whole, "transformer.h.1.attn.c_attn.bias"));
  const auto ours = Floats(gguf, "blk.1.attn_qkv.weight");
  const auto theirs = Floats(whole, "transformer.h.1.attn.c_attn.weight");
  CHECK(gguf.Find("blk.1.attn_qkv.weight")->shape == Shape{96, 32});
  for (size_t out = 0; out < 96; ++out) {
    for (size_t in = 0; in < 32; ++in) {
      REQUIRE(ours[out * 32 + in] == theirs[in * 96 + out]);
    }
  }
}

TEST_CASE("a GGUF base keeps its metadata, its types and what has no adapter") {
  const FineTuning tuning =
      Open(kModels + "llama.gguf",
           {.lora = LoraRules{.rank = 2, .targets = {"q_proj", "down_proj"}}});
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Trained(tuning, *cpu);
  const WeightsFile before = OpenFile(kModels + "llama.gguf");
  const WeightsFile after = OpenFile(Merge(tuning, training, {}));
  const WeightsFile merged = OpenFile(Merge(tuning, training, Mix("f32")));
  const auto& tensors = before.gguf()->tensors();
  REQUIRE(after.gguf()->tensors().size() == tensors.size());
  int adapted = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const GgufTensor& tensor = after.gguf()->tensors()[i];
    INFO(tensor.name);
    CHECK(tensor.name == tensors[i].name);  // in the same order
    CHECK(tensor.type == tensors[i].type);
    CHECK(tensor.shape == tensors[i].shape);
    const bool has_adapter =
        tensor.name.find("attn_q.weight") != std::string::npos ||
        tensor.name.find("ffn_down.weight") != std::string::npos;
    const auto bytes = RawBytes(after, tensor.name);
    CHECK((bytes == RawBytes(before, tensor.name)) == !has_adapter);
    if (!has_adapter) continue;
    ++adapted;
    const auto numbers = Floats(merged, tensor.name);
    std::vector<std::byte> expected(bytes.size());
    REQUIRE(Quantize(tensor.type, numbers, expected).ok());
    CHECK(bytes == expected);
  }
  CHECK(adapted == 4);
  CHECK(after.gguf()->values().size() == before.gguf()->values().size() + 1);
  for (const auto& entry : before.gguf()->values()) {
    const std::string& key = entry.first;
    INFO(key);
    const GgufValue* const same = after.gguf()->Find(key);
    REQUIRE(same != nullptr);
    CHECK(after.gguf()->BytesOf(*same) == before.gguf()->BytesOf(entry.second));
  }
  CHECK(*after.gguf()->Int("general.quantization_version") == 2);
  CHECK(after.gguf()->Find("general.file_type") == nullptr);
  CHECK(*merged.gguf()->Int("general.file_type") == 0);
  CHECK(after.Find("blk.0.attn_v.weight")->type != WeightType::kF32);
}

// A copy of a model whose matrices of Q4_0 are of IQ4_NL, as large and as many: its
// path.
std::string WithIq4Nl(const std::string& model) {
  std::ifstream in(model, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const WeightsFile file = OpenFile(model);
  for (const WeightTensor& tensor : file.tensors()) {
    if (tensor.type != WeightType::kQ4_0) continue;
    // Behind the name: the number of dimensions, two of them, the type.
    const size_t type = bytes.find(tensor.name) + tensor.name.size() + 4 + 16;
    REQUIRE(bytes[type] == 2);
    bytes[type] = 20;
  }
  const std::string path = testing::EmptyFolder("iq4_nl") + "/base.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST_CASE("types that are only read are kept, or refused before training") {
  const std::string path = WithIq4Nl(kModels + "llama.gguf");
  const WeightsFile before = OpenFile(path);
  REQUIRE(before.Find("blk.0.attn_v.weight")->type == WeightType::kIQ4_NL);
  const FineTuning beside = Open(
      path, {.lora = LoraRules{.rank = 2, .targets = {"layers.0.*.q_proj"}}});
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Trained(beside, *cpu);
  const WeightsFile after = OpenFile(Merge(beside, training, {}));
  CHECK(after.Find("blk.0.attn_v.weight")->type == WeightType::kIQ4_NL);
  CHECK(RawBytes(after, "blk.0.attn_v.weight") ==
        RawBytes(before, "blk.0.attn_v.weight"));

  const FineTuning adapted =
      Open(path, {.lora = LoraRules{.rank = 2, .targets = {"v_proj"}}});
  const auto plan = GgufExport::Plan(adapted, {}, {});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().code == ErrorCode::kUnsupported);
  CHECK(plan.error().message ==
        StrCat("[weights] ", Quoted(path),
               " has \"blk.0.attn_v.weight\" in IQ4_NL, which is read and not "
               "written, and an adapter would be merged into it; give "
               "--merged-type a type, such as q4_k_m"));
  CHECK(GgufExport::Plan(adapted, Mix("q8_0"), {}).ok());
}

TEST_CASE("a mix decides the types, and what the caller gives is added") {
  const FineTuning tuning = OpenGolden("qwen2");
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Trained(tuning, *cpu);
  GgufMetadata tokenizer;
  tokenizer.Set("tokenizer.ggml.model", "gpt2");
  const WeightsFile usual = OpenFile(Merge(tuning, training, {}, tokenizer));
  CHECK(*usual.gguf()->Text("tokenizer.ggml.model") == "gpt2");
  CHECK(*usual.gguf()->Int("general.file_type") == 1);
  CHECK(usual.Find("blk.0.attn_q.weight")->type == WeightType::kF16);
  CHECK(usual.Find("blk.0.attn_q.bias")->type == WeightType::kF32);
  CHECK(usual.Find("blk.0.attn_norm.weight")->type == WeightType::kF32);
  // Rows of 32 are no blocks of 256, and the head is the embedding.
  const WeightsFile mixed =
      OpenFile(Merge(tuning, training, Mix("q4_k_m"), tokenizer));
  CHECK(*mixed.gguf()->Int("general.file_type") == 15);
  CHECK(mixed.Find("token_embd.weight")->type == WeightType::kQ8_0);
  CHECK(mixed.Find("blk.0.attn_q.weight")->type == WeightType::kQ5_0);
  CHECK(mixed.Find("output.weight") == nullptr);
}

TEST_CASE("an adapter's tensors are what was added to the base's") {
  for (const std::string name : {"llama.gguf", "qwen2.gguf", "qwen3.gguf"}) {
    INFO(name);
    const FineTuning tuning = OpenGolden(name);
    const auto cpu = MakeCpuBackend({.threads = 1});
    Training training = Trained(tuning, *cpu);
    const std::string path = testing::EmptyFolder("adapter") + "/adapter.gguf";
    const auto file = OutputFile::Claim(path);
    REQUIRE(file.ok());
    REQUIRE(SaveAdapterGguf(tuning, training.step(), *file).ok());
    const WeightsFile adapter = OpenFile(path);
    CHECK(*adapter.gguf()->Text("general.type") == "adapter");
    CHECK(*adapter.gguf()->Text("adapter.type") == "lora");
    CHECK(*adapter.gguf()->Real("adapter.lora.alpha") == 5);
    CHECK(*adapter.gguf()->Text("general.architecture") ==
          name.substr(0, name.find('.')));
    const WeightsFile base = OpenFile(kModels + name);
    const WeightsFile merged = OpenFile(Merge(tuning, training, Mix("f32")));
    int layers = 0;
    for (const WeightTensor& tensor : base.tensors()) {
      const WeightTensor* const a = adapter.Find(tensor.name + ".lora_a");
      const WeightTensor* const b = adapter.Find(tensor.name + ".lora_b");
      if (a == nullptr) continue;
      INFO(tensor.name);
      ++layers;
      REQUIRE(b != nullptr);
      const int64_t out = tensor.shape[0], in = tensor.shape[1];
      CHECK(a->shape == Shape{3, in});
      CHECK(b->shape == Shape{out, 3});
      const auto down = Floats(adapter, a->name), up = Floats(adapter, b->name);
      const auto before = Floats(base, tensor.name);
      const auto after = Floats(merged, tensor.name);
      double largest = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        const size_t row = i / static_cast<size_t>(in);
        const size_t column = i % static_cast<size_t>(in);
        double share = 0;
        for (size_t k = 0; k < 3; ++k) {
          share += double{up[row * 3 + k]} *
                   double{down[k * static_cast<size_t>(in) + column]};
        }
        largest = std::max(largest, std::abs(share));
        REQUIRE(std::abs(before[i] + 5.0 / 3 * share - after[i]) < 1e-6);
      }
      CHECK(largest > 1e-3);
    }
    CHECK(layers == 14);
    CHECK(adapter.tensors().size() == 28);
  }
}

// A folder with a golden model of which one weight has other bits.
std::string Damaged(const std::string& name, const std::string& tensor,
                    size_t number, uint16_t bits) {
  const std::string folder = testing::EmptyFolder("damaged");
  const WeightsFile file = OpenFile(kModels + name);
  const Bytes at = file.Find(tensor)->begin + static_cast<Bytes>(2 * number);
  std::string bytes = testing::ReadAll(kModels + name + "/model.safetensors");
  std::memcpy(bytes.data() + at, &bits, sizeof(bits));
  std::ofstream(folder + "/model.safetensors", std::ios::binary) << bytes;
  fs::copy_file(kModels + name + "/config.json", folder + "/config.json");
  return folder;
}

TEST_CASE("a base with NaN or infinity is refused before a step") {
  const std::string tensor = "model.layers.1.mlp.up_proj.weight";
  for (const auto& [bits, what] :
       {std::pair<uint16_t, const char*>{0x7E00, "nan"}, {0xFC00, "-inf"}}) {
    const std::string folder = Damaged("qwen2", tensor, 77, bits);
    const auto plan = GgufExport::Plan(Open(folder), Mix("q8_0"), {});
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code == ErrorCode::kNotFinite);
    CHECK(plan.error().message ==
          StrCat("[weights] ", Quoted(folder), " has ", what,
                 " at number 77 of ", Quoted(tensor),
                 "; a GGUF file is written of finite weights"));
  }
}

TEST_CASE("sums that their type cannot hold are refused, the file untouched") {
  const FineTuning tuning = OpenGolden("qwen2");
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Trained(tuning, *cpu);
  const auto plan = GgufExport::Plan(tuning, Mix("f16"), {});
  REQUIRE(plan.ok());
  const std::string path = testing::EmptyFolder("kept") + "/kept.gguf";
  std::ofstream(path) << "before";
  const auto file = OutputFile::Claim(path);
  REQUIRE(file.ok());
  const std::string up = "model.layers.1.mlp.up_proj.lora_B.weight";
  REQUIRE(
      WriteFloats(training.step(), up, 0, std::vector<float>(96, 1e9f)).ok());
  const Status large = plan->Write(tuning, training.step(), *file);
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().code == ErrorCode::kInvalidArgument);
  CHECK(large.error().message.starts_with(
      "[gguf] tensor \"blk.1.ffn_up.weight\" (32, 32), from number 0 on: "
      "[quantize] number 0 is "));
  CHECK(large.error().message.ends_with(", too large for F16; F32 holds it"));
  CHECK(testing::ReadAll(path) == "before");

  const float nan = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(WriteFloats(training.step(), up, 5, std::vector<float>(1, nan)).ok());
  for (const bool adapter : {false, true}) {
    const Status wrong = adapter
                             ? SaveAdapterGguf(tuning, training.step(), *file)
                             : plan->Write(tuning, training.step(), *file);
    REQUIRE_FALSE(wrong.ok());
    CHECK(wrong.error().code == ErrorCode::kNotFinite);
    CHECK(wrong.error().message.find(up) != std::string::npos);
  }
  CHECK(testing::ReadAll(path) == "before");
}

}  // namespace
}  // namespace stowage
