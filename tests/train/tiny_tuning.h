#ifndef STOWAGE_TESTS_TRAIN_TINY_TUNING_H_
#define STOWAGE_TESTS_TRAIN_TINY_TUNING_H_

// The tiny models of tests/goldens/pretrained, tuned as PEFT tunes them in
// tests/goldens/make_adapter_goldens.py.
//
//   const AdapterGoldens goldens = ReadAdapterGoldens();
//   TinyTuning tiny(FineTuning::Open(kTinyModels + "gpt2", options));
//   CHECK(RelativeDifference(tiny.TakeSteps(3), goldens.at("dora-gpt2").at("losses")) < 1e-5);

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/backend.h"
#include "train/fine_tuning.h"
#include "train/training.h"

namespace stowage::testing {

inline const std::string kTinyModels = "tests/goldens/pretrained/";
inline const std::string kAdapterGoldens = "tests/goldens/adapters/";

/// By the name of a run, then what, as training.csv has them.
using AdapterGoldens =
    std::map<std::string, std::map<std::string, std::vector<double>>>;
AdapterGoldens ReadAdapterGoldens();

/// The largest difference, over the largest expected number.
double RelativeDifference(const std::vector<float>& actual,
                          const std::vector<double>& expected);

/// An empty folder of this test.
std::filesystem::path EmptyFolder(const std::string& name);

/// A training of a tuning with its base loaded, by AdamW without decay at a rate of 0.01.
class TinyTuning {
 public:
  explicit TinyTuning(Result<FineTuning> tuning);

  const FineTuning& tuning() const { return tuning_; }
  Training& training() { return *training_; }
  Runner& step() { return training_->step(); }

  /// Its losses.
  std::vector<float> TakeSteps(int64_t count);
  /// Of the last of 12 tokens.
  std::vector<float> Logits();
  std::vector<float> Param(const std::string& name);

 private:
  FineTuning tuning_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Training> training_;
  int64_t done_ = 0;
};

/// Writes the model merged to a folder beside the config.json of another, and opens it.
TinyTuning Merged(TinyTuning& tiny, const std::string& config_of,
                  const std::filesystem::path& folder);
/// Writes the adapter to a folder.
void SaveTo(TinyTuning& tiny, const std::filesystem::path& folder);
/// The model beside the adapter of a folder.
TinyTuning WithAdapter(const std::string& model, const std::string& folder);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TRAIN_TINY_TUNING_H_
