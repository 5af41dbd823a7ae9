// A file as PyTorch's safetensors writes it for a gpt-nano of PyTorch's own layers
// (tests/goldens/make_weights_goldens.py), loaded by rules: five steps agree.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/safetensors.h"
#include "ir/graph.h"
#include "nn/models.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::ReadAll;

// --- The formula of make_goldens.py ----------------------------------------

uint64_t Bits(std::string_view name, int64_t index) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  uint64_t z = hash + (static_cast<uint64_t>(index) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Uniform(std::string_view name, int64_t index) {
  return static_cast<double>(Bits(name, index) >> 11) * 0x1p-52 - 1.0;
}

std::vector<int32_t> Integers(const std::string& name, int64_t count) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<int32_t>(Bits(name, i) % 96));
  }
  return values;
}

// --- The file ---------------------------------------------------------------

// What gpt_nano_torch.csv says, by kind and index.
std::map<std::string, std::string> Goldens() {
  std::map<std::string, std::string> goldens;
  std::ifstream in("tests/goldens/gpt_nano_torch.csv");
  for (std::string line; std::getline(in, line);) {
    const size_t comma = line.rfind(',');
    goldens[line.substr(0, comma)] = line.substr(comma + 1);
  }
  REQUIRE(goldens.size() == 8);
  return goldens;
}

// Element `i` of a tensor of the file, whose matrices but for embeddings are
// (out, in), where the formula's are (in, out).
float Element(const SafeTensor& tensor, int64_t i) {
  std::string name = tensor.name;
  const bool vector = tensor.type.shape.rank() == 1;
  if (name == "lm_head.weight") name = "transformer.wte.weight";
  name = name.substr(std::string_view("transformer.").size());
  const bool embedding = name == "wte.weight" || name == "wpe.weight";
  if (embedding) name = name.substr(0, 3);
  if (!vector && !embedding) {
    const int64_t in = tensor.type.shape[1], out = tensor.type.shape[0];
    i = i % in * out + i / in;
  }
  const double u = Uniform(name, i);
  const bool gain = vector && name.ends_with(".weight");
  return static_cast<float>(gain ? 1 + 0.125 * u
                                 : (vector ? 0.0625 : 0.25) * u);
}

// The file that PyTorch wrote, to the bit.
std::string TorchFile() {
  std::string file = ReadAll("tests/goldens/gpt_nano_torch.header");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  REQUIRE(file.size() == 8 + length);
  const std::map<std::string, std::string> goldens = Goldens();
  const int64_t bytes = std::stoll(goldens.at("bytes,0"));
  const auto header =
      ParseSafetensorsHeader(std::string_view(file).substr(8),
                             bytes - static_cast<int64_t>(file.size()));
  REQUIRE_MESSAGE(header.ok(), header.error().message);
  for (const SafeTensor& tensor : header->tensors) {
    for (int64_t i = 0; i < tensor.type.shape.num_elements(); ++i) {
      const float value = Element(tensor, i);
      file.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : file) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  REQUIRE(hash == std::stoull(goldens.at("fnv1a64,0"), nullptr, 16));
  return file;
}

WeightRules Rules() {
  return {.rename = {{"transformer.*", "*"},
                     {"wte.weight", "wte"},
                     {"wpe.weight", "wpe"}},
          .transpose = {"h.*.weight"},
          .allow_missing = {},
          .allow_unused = {"lm_head.weight"}};
}

TEST_CASE(
    "PyTorch's file loads by rules, and five steps are PyTorch's to 1e-4") {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(folder == nullptr ? "/tmp" : folder, "/torch.safetensors");
  std::ofstream(path, std::ios::binary) << TorchFile();

  auto forward = BuildModel("gpt-nano", ModelPurpose::kTrain, {});
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Graph step = *BuildTrainStep(
      *forward, "loss",
      {.optimizer =
           AdamW{.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1}});
  const auto cpu = MakeCpuBackend({.threads = 2});
  auto session = Session::Create(
      {{"train", step, *PlanMemory(step, {.device = cpu->Needs()})}}, *cpu);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  Runner& train = session->front();

  // As it is, the names do not fit; with names alone, the matrices do not.
  session->Initialize(1);
  WeightRules rules;
  auto loaded = LoadWeights(train, path, rules);
  REQUIRE_FALSE(loaded.ok());
  CHECK(
      loaded.error().message ==
      StrCat("[weights] ", Quoted(path),
             " lacks 52 of 52 params: \"wte\", \"wpe\", "
             "\"h.0.ln_1.weight\", \"h.0.ln_1.bias\", "
             "\"h.0.attn.c_attn.weight\" and 47 more; it has 53 tensors that "
             "no param takes: \"lm_head.weight\", "
             "\"transformer.h.0.attn.c_attn.bias\", "
             "\"transformer.h.0.attn.c_attn.weight\", "
             "\"transformer.h.0.attn.c_proj.bias\", "
             "\"transformer.h.0.attn.c_proj.weight\" and 48 more; rename what "
             "is called otherwise, or allow params to be missing and tensors "
             "to be unused"));
  rules = Rules();
  rules.transpose.clear();
  loaded = LoadWeights(train, path, rules);
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().message ==
        StrCat("[weights] ", Quoted(path),
               " has \"transformer.h.0.attn.c_attn.weight\" as f32(384, 128), "
               "the param \"h.0.attn.c_attn.weight\" is f32(128, 384): it fits "
               "only transposed; if the file has it so, give a rule that "
               "transposes \"h.0.attn.c_attn.weight\""));

  loaded = LoadWeights(train, path, Rules());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(loaded->loaded == 52);
  CHECK(loaded->missing.empty());
  CHECK(loaded->unused == std::vector<std::string>{"lm_head.weight"});
  REQUIRE(train.Write("lr", 0x1p-8f).ok());
  const std::map<std::string, std::string> goldens = Goldens();
  for (int64_t i = 1; i <= 5; ++i) {
    CAPTURE(i);
    for (const char* name : {"tokens", "targets"}) {
      REQUIRE(train.Write(name, Integers(StrCat(name, ":", i), 8 * 64)).ok());
    }
    REQUIRE(train.Write("step", i).ok());
    REQUIRE(train.Step() == StepCode::kOk);
    const double golden = std::stod(goldens.at(StrCat("loss,", i)));
    CHECK(std::abs(*train.ReadScalar("loss") - golden) <= 1e-4 * golden);
  }
}

}  // namespace
}  // namespace stowage
