#ifndef STOWAGE_TRAIN_FINE_TUNING_H_
#define STOWAGE_TRAIN_FINE_TUNING_H_

// Fine-tunes a published model: all of its weights, or low-rank adapters beside them
// (nn/lora.h), whose states are a hundred times smaller. Beside adapters the base is frozen,
// and its matrices stay in the format of the file, for example in four bits a number
// (nn/pretrained.h).
//
//   Result<FineTuning> tuning = FineTuning::Open("SmolLM2-135M.Q4_1.gguf",
//                                                {.lora = LoraRules{.rank = 8}});
//   Result<Training> training = Train(
//       {.model = tuning->ModelOf(ModelPurpose::kTrain, 256),
//        .batch = 1,
//        .training = {.groups = tuning->groups()},
//        .budget = 200'000'000});
//   training->Initialize(/*seed=*/1);
//   Status loaded = tuning->LoadBase(training->step());
//
// Loading reads the file once, a few hundred kilobytes at a time, into the arena; there is
// never a second copy.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/param_groups.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "nn/contrastive.h"
#include "nn/encoder.h"
#include "nn/lora.h"
#include "nn/losses.h"
#include "nn/model_options.h"
#include "nn/pretrained.h"
#include "nn/quantized_params.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "train/step_builder.h"

namespace stowage {

class PissaStarts;  // train/lora_weights.h

/// Param groups that freeze everything but adapters, for TrainOptions::groups. The learning
/// rate of lora_B, and as in PEFT of magnitudes with `dora`, is `plus` times that of lora_A
/// (LoRA+, Hayou et al. 2024).
std::vector<ParamGroup> LoraGroups(double plus = 1, bool dora = false);

struct FineTuningOptions {
  /// Absent: every weight is trained. Without targets: PEFT's "all-linear", all linear layers
  /// but the head.
  std::optional<LoraRules> lora = LoraRules{.targets = {}};
  double lora_plus = 1;  // `plus` of LoraGroups
  /// Adapters begin by PiSSA (train/lora_weights.h); matrices with an adapter then have type
  /// `dtype`.
  bool pissa = false;
  /// The type of activations, and of params that are not quantized.
  DType dtype = DType::kF32;
  bool weighted_targets = false;  // ModelOptions::weighted_targets
  bool packed = false;            // ModelOptions::packed
  std::optional<PreferenceRules> preference = {};  // ModelOptions::preference
  /// Absent: the model predicts tokens. Else it is an encoder that classifies texts
  /// (PretrainedModel::OpenClassifier). Without targets, all linear layers of its blocks have
  /// adapters; the head is trained whole, like PEFT's modules_to_save.
  std::optional<ClassifierOptions> classifier = {};
  /// The model embeds texts (PretrainedModel::OpenEmbedder), with ModelOptions::embedding.
  std::optional<EmbeddingRules> embedding = {};
  EmbedderOptions embedder = {};  // beside `embedding`
};

class FineTuning {
 public:
  /// Errors: those of PretrainedModel::Open, ModelOf's graphs and CheckPissa; PiSSA without
  /// adapters, or with DoRA. Precondition: not both a classifier and an embedding.
  static Result<FineTuning> Open(const std::string& path,
                                 const FineTuningOptions& options = {});

  const PretrainedModel& base() const { return *base_; }
  /// The options, with the targets filled in.
  const FineTuningOptions& options() const { return options_; }
  /// The encoder that classifies texts; null for other models.
  const EncoderConfig* classifier() const {
    return options_.classifier ? base_->encoder() : nullptr;
  }

  /// Builds graphs for a purpose, for examples of `seq` tokens, with a key-value cache of
  /// `cache` positions if given (ModelOptions::cache). May outlive this. Errors of the
  /// function: those of PretrainedModel::Build, WithLora and WithQuantizedParams.
  ModelFn ModelOf(ModelPurpose purpose, int64_t seq,
                  std::optional<int64_t> cache = {}) const;

  /// The initial adapters of PiSSA; null without it.
  PissaStarts* pissa() const { return pissa_.get(); }

  /// LoraGroups, preceded by the head of a classifier; empty without adapters.
  std::vector<ParamGroup> groups() const;

  /// Sets the base's params of `runner` to the file's weights, all or none (AllOrNone in
  /// runtime/values.h), and adapters to the initial values of DoRA or PiSSA
  /// (train/lora_weights.h). Errors: kIo; those of Runner::WritePart, StartDora and
  /// PissaStarts::Of.
  Status LoadBase(Runner& runner) const;

  /// The part that checkpoints of adapters omit: the base, identified by the content of its
  /// files, which are read. Empty if every weight is trained. Error kIo.
  Result<CheckpointBase> BaseOfCheckpoints() const;

  /// Whether the param is trained.
  bool IsTrained(std::string_view param) const;
  /// The number of trained elements, and the bytes of frozen params.
  int64_t trainable_params() const;
  Bytes frozen_bytes() const;

 private:
  FineTuning() = default;
  Status ChoosePissa(const Graph& adapted);
  bool has_dora() const { return options_.lora && options_.lora->dora; }
  Result<Graph> Build(ModelPurpose purpose, int64_t batch, int64_t seq,
                      std::optional<int64_t> cache = {}) const;

  /// Whether the param is of a head, which is trained whole beside adapters.
  bool IsTrainedHead(std::string_view param) const;

  std::shared_ptr<const PretrainedModel> base_;
  FineTuningOptions options_;
  WeightTypes in_blocks_;
  std::vector<ValueInfo> squared_norms_;  // of DoRA
  std::shared_ptr<PissaStarts> pissa_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_FINE_TUNING_H_
