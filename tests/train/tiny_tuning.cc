#include "tests/train/tiny_tuning.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "autodiff/optimizer.h"
#include "base/output_file.h"
#include "cpu/cpu_backend.h"
#include "nn/model_options.h"
#include "runtime/floats.h"
#include "train/adapter_files.h"
#include "train/merged_weights.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSeq = 12;
constexpr int64_t kVocabulary = 64;

std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kSeq; ++i) {
    tokens.push_back((7 * (i + first) + 3) % kVocabulary);
  }
  return tokens;
}

void Must(const Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.error().message);
}

template <typename T>
T Must(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.error().message);
  return *std::move(result);
}

}  // namespace

AdapterGoldens ReadAdapterGoldens() {
  AdapterGoldens goldens;
  std::ifstream in(kAdapterGoldens + "training.csv");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string run, what, number;
    std::getline(fields, run, ',');
    std::getline(fields, what, ',');
    std::vector<double>& numbers = goldens[run][what];
    while (std::getline(fields, number, ',')) {
      numbers.push_back(std::stod(number));
    }
  }
  return goldens;
}

double RelativeDifference(const std::vector<float>& actual,
                          const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double difference = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::isfinite(actual[i]));  // std::max passes NaN over
    difference =
        std::max(difference, std::abs(double{actual[i]} - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

fs::path EmptyFolder(const std::string& name) {
  const char* const temp = std::getenv("TEST_TMPDIR");
  const fs::path folder = fs::path(temp ? temp : "/tmp") / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TinyTuning::TinyTuning(Result<FineTuning> tuning)
    : tuning_(Must(std::move(tuning))),
      backend_(MakeCpuBackend({.threads = 2})) {
  TrainingSpec spec = {
      .model = tuning_.ModelOf(ModelPurpose::kTrain, kSeq),
      .batch = 1,
      .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning_.groups()},
      .programs = {{.name = "generate",
                    .model = tuning_.ModelOf(ModelPurpose::kGenerate, kSeq)}}};
  training_ =
      std::make_unique<Training>(Must(Train(std::move(spec), *backend_)));
  training_->Initialize(1);
  Must(tuning_.LoadBase(step()));
}

std::vector<float> TinyTuning::TakeSteps(int64_t count) {
  std::vector<float> losses;
  for (int64_t i = 0; i < count; ++i) {
    Must(step().Write("tokens", Tokens(0)));
    Must(step().Write("targets", Tokens(1)));
    Must(step().Write("lr", 0.01f));
    Must(step().Write("step", ++done_));
    REQUIRE(step().Step() == StepCode::kOk);
    losses.push_back(Must(step().ReadScalar("loss")));
  }
  return losses;
}

std::vector<float> TinyTuning::Logits() {
  Runner& generate = *training_->Find("generate");
  Must(generate.Write("tokens", Tokens(0)));
  REQUIRE(generate.Step() == StepCode::kOk);
  const std::vector<float> logits = Must(ReadFloats(generate, "logits"));
  return {logits.end() - kVocabulary, logits.end()};
}

std::vector<float> TinyTuning::Param(const std::string& name) {
  return Must(ReadFloats(step(), name));
}

TinyTuning Merged(TinyTuning& tiny, const std::string& config_of,
                  const fs::path& folder) {
  fs::copy_file(kTinyModels + config_of + "/config.json",
                folder / "config.json");
  const OutputFile file =
      Must(OutputFile::Claim((folder / "model.safetensors").string()));
  Must(SaveMerged(tiny.tuning(), tiny.step(), file));
  return TinyTuning(FineTuning::Open(folder.string(), {.lora = {}}));
}

void SaveTo(TinyTuning& tiny, const fs::path& folder) {
  const AdapterFiles files = Must(AdapterFiles::Claim(folder.string()));
  Must(SaveAdapter(tiny.tuning(), tiny.step(), files));
}

TinyTuning WithAdapter(const std::string& model, const std::string& folder) {
  TinyTuning tiny(FineTuning::Open(kTinyModels + model,
                                   {.lora = Must(ReadAdapterRules(folder))}));
  Must(LoadAdapter(tiny.tuning(), folder, tiny.step()));
  return tiny;
}

}  // namespace stowage::testing
