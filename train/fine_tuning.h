#ifndef STOWAGE_TRAIN_FINE_TUNING_H_
#define STOWAGE_TRAIN_FINE_TUNING_H_

// Fine-tunes a published model. Trains either all weights or only low-rank adapters (nn/lora.h),
// which need about a hundred times less memory for optimizer states. With adapters, the published
// model, which is called the base, is frozen. In the arena, the base's matrices have the format
// that they have in the file, for example four bits per weight (nn/quantized_params.h).
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
// Loading reads the file once, a few hundred kilobytes at a time, into the arena. Memory never
// holds two copies of the weights.

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

/// Returns param groups for TrainOptions::groups that freeze all params except those of adapters.
/// The learning rate of lora_B is `plus` times the learning rate of lora_A (LoRA+, Hayou et al.
/// 2024). If `dora` is true, the learning rate of DoRA's magnitudes is also multiplied by `plus`,
/// as in PEFT.
std::vector<ParamGroup> LoraGroups(double plus = 1, bool dora = false);

struct FineTuningOptions {
  /// The adapters. If absent, every weight is trained. If `targets` is empty, all linear layers
  /// except the head have adapters, as with PEFT's "all-linear".
  std::optional<LoraRules> lora = LoraRules{.targets = {}};
  double lora_plus = 1;  // `plus` of LoraGroups
  /// Initializes adapters by PiSSA (train/lora_weights.h). In the arena, matrices with an adapter
  /// then have the type `dtype` instead of the file's type.
  bool pissa = false;
  /// The type of activations, and of params that are not quantized.
  DType dtype = DType::kF32;
  bool weighted_targets = false;  // ModelOptions::weighted_targets
  bool packed = false;            // ModelOptions::packed
  std::optional<PreferenceRules> preference = {};  // ModelOptions::preference
  /// If present, the model is an encoder that classifies texts (PretrainedModel::OpenClassifier).
  /// If `lora` has no targets, all linear layers of the encoder's blocks have adapters. The head is
  /// trained without adapters, like PEFT's modules_to_save. If both `classifier` and `embedding`
  /// are absent, the model predicts tokens.
  std::optional<ClassifierOptions> classifier = {};
  /// If present, the model embeds texts (PretrainedModel::OpenEmbedder), with
  /// ModelOptions::embedding.
  std::optional<EmbeddingRules> embedding = {};
  EmbedderOptions embedder = {};  // used with `embedding`
};

class FineTuning {
 public:
  /// Opens the model at `path` to fine-tune it. `options` must not have both a classifier and an
  /// embedding. Returns kInvalidArgument if the dtype is not f32, bf16 or f16, or if `pissa` is set
  /// without adapters or with DoRA. Propagates errors of PretrainedModel::Open, OpenClassifier and
  /// OpenEmbedder, of CheckPissa, and of the functions that ModelOf returns.
  static Result<FineTuning> Open(const std::string& path,
                                 const FineTuningOptions& options = {});

  const PretrainedModel& base() const { return *base_; }
  /// Returns the options, with the default targets filled in.
  const FineTuningOptions& options() const { return options_; }
  /// Returns the encoder that classifies texts, or null for other models.
  const EncoderConfig* classifier() const {
    return options_.classifier ? base_->encoder() : nullptr;
  }

  /// Returns a function that builds the graph for `purpose` and a batch of examples with `seq`
  /// tokens each. If `cache` is given, the graph has key-value caches of `cache` positions
  /// (ModelOptions::cache). The function may outlive this object. It propagates errors of
  /// PretrainedModel::Build, WithLora and WithQuantizedParams.
  ModelFn ModelOf(ModelPurpose purpose, int64_t seq,
                  std::optional<int64_t> cache = {}) const;

  /// Returns the object that computes the initial adapters of PiSSA, or null if `pissa` is not set.
  PissaStarts* pissa() const { return pissa_.get(); }

  /// Returns the param groups for TrainOptions::groups: groups that train the head of a classifier,
  /// and then LoraGroups. The result is empty without adapters.
  std::vector<ParamGroup> groups() const;

  /// Sets the base's params of `runner` to the file's weights. With DoRA or PiSSA, also sets the
  /// initial values of the adapters (train/lora_weights.h), and with PiSSA, subtracts them from the
  /// base. If an error occurs, none of these params have values (AllOrNone in runtime/values.h).
  /// Returns kIo if reading fails, and kInvalidArgument if a weight is not finite. Propagates
  /// errors of Runner::WritePart, StartDora and PissaStarts::Of.
  Status LoadBase(Runner& runner) const;

  /// Returns the names of the params that checkpoints of adapters omit, which are the frozen params
  /// of the base, and a digest of the base's files, which identifies the base. Reads the files. The
  /// result is empty if every weight is trained. Returns kIo if reading fails.
  Result<CheckpointBase> BaseOfCheckpoints() const;

  /// Returns whether `param` is trained.
  bool IsTrained(std::string_view param) const;
  /// trainable_params returns the number of elements of all trained params. frozen_bytes returns
  /// the number of bytes of all frozen params in the arena.
  int64_t trainable_params() const;
  Bytes frozen_bytes() const;

 private:
  FineTuning() = default;
  Status ChoosePissa(const Graph& adapted);
  bool has_dora() const { return options_.lora && options_.lora->dora; }
  Result<Graph> Build(ModelPurpose purpose, int64_t batch, int64_t seq,
                      std::optional<int64_t> cache = {}) const;

  /// Returns whether `param` belongs to the head of a classifier, which is trained without
  /// adapters.
  bool IsTrainedHead(std::string_view param) const;

  std::shared_ptr<const PretrainedModel> base_;
  FineTuningOptions options_;
  WeightTypes in_blocks_;
  std::vector<ValueInfo> squared_norms_;  // frozen params of DoRA
  std::shared_ptr<PissaStarts> pissa_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_FINE_TUNING_H_
