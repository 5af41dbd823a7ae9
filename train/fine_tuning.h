#ifndef STOWAGE_TRAIN_FINE_TUNING_H_
#define STOWAGE_TRAIN_FINE_TUNING_H_

// A published model that goes on learning: all of its weights, or low-rank
// adapters beside them (nn/lora.h), which take a hundredth of the states. Beside
// adapters the base is frozen, and its matrices lie in the arena as they lie in the
// file, in four bits a number if that is what the file has (nn/pretrained.h).
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
// Loading reads the file once, a few hundred kilobytes at a time, into the arena: there
// is never a second copy.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
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

/// Everything but adapters (nn/lora.h) frozen, for TrainOptions::groups. The learning rate
/// of lora_B, and as in PEFT of magnitudes with `dora`, is `plus` times that of lora_A (LoRA+,
/// Hayou et al. 2024).
std::vector<ParamGroup> LoraGroups(double plus = 1, bool dora = false);

struct FineTuningOptions {
  /// Absent: every weight is trained. Without targets: those that PEFT calls
  /// "all-linear", which are all linear layers but the head.
  std::optional<LoraRules> lora = LoraRules{.targets = {}};
  double lora_plus = 1;  // of LoraGroups
  /// Adapters begin as PiSSA's, and the base as what is left (train/lora_weights.h); matrices with
  /// an adapter are of `dtype` then.
  bool pissa = false;
  /// Of activations, and of params that are not in blocks.
  DType dtype = DType::kF32;
  bool weighted_targets = false;  // ModelOptions::weighted_targets
  bool packed = false;            // ModelOptions::packed
  std::optional<PreferenceRules> preference = {};  // ModelOptions::preference
  /// Absent: the model predicts tokens. Else it is an encoder that classifies texts
  /// (PretrainedModel::OpenClassifier). Without targets, adapters are beside all linear
  /// layers of its blocks; the head is trained whole, as PEFT's modules_to_save are.
  std::optional<ClassifierOptions> classifier = {};
};

class FineTuning {
 public:
  /// Errors: those of PretrainedModel::Open, of ModelOf's graphs and of CheckPissa; PiSSA
  /// without adapters, or with DoRA's.
  static Result<FineTuning> Open(const std::string& path,
                                 const FineTuningOptions& options = {});

  const PretrainedModel& base() const { return *base_; }
  /// With the targets filled in.
  const FineTuningOptions& options() const { return options_; }

  /// The graph for a purpose, for a number of examples of `seq` tokens, with a cache of
  /// ModelOptions::cache where one is given. May outlive this. Errors of the graphs:
  /// those of PretrainedModel::Build, WithLora and WithQuantizedParams.
  ModelFn ModelOf(ModelPurpose purpose, int64_t seq,
                  std::optional<int64_t> cache = {}) const;

  /// What adapters began with by PiSSA; null without.
  PissaStarts* pissa() const { return pissa_.get(); }

  /// LoraGroups, before them the head of a classifier; empty without adapters.
  std::vector<ParamGroup> groups() const;

  /// Gives the base's params of `runner` the file's weights, or none (AllOrNone in
  /// runtime/check_programs.h), and adapters what they begin with by DoRA (train/lora_weights.h) or
  /// PiSSA. Errors: kIo; those of Runner::WritePart, StartDora and PissaStarts::Of.
  Status LoadBase(Runner& runner) const;

  /// What checkpoints of the adapters leave out: the base, told by what its files hold.
  /// Nothing where every weight is trained. Reads the files. Error kIo.
  Result<CheckpointBase> BaseOfCheckpoints() const;

  /// Whether a param of that name is trained.
  bool IsTrained(std::string_view param) const;
  /// Elements that are trained, and bytes that are frozen.
  int64_t trainable_params() const;
  Bytes frozen_bytes() const;

 private:
  FineTuning() = default;
  Status ChoosePissa(const Graph& adapted);
  bool has_dora() const { return options_.lora && options_.lora->dora; }
  Result<Graph> Build(ModelPurpose purpose, int64_t batch, int64_t seq,
                      std::optional<int64_t> cache = {}) const;

  /// Whether a param is of a head, which is trained whole beside adapters.
  bool IsTrainedHead(std::string_view param) const;

  std::shared_ptr<const PretrainedModel> base_;
  FineTuningOptions options_;
  WeightTypes in_blocks_;
  std::vector<ValueInfo> squared_norms_;  // of DoRA
  std::shared_ptr<PissaStarts> pissa_;
};

// Which lengths of sequences to have programs for. An example is padded to the length of
// its program, and what is padded is computed for nothing; each length is a program to
// plan and to keep.
//
//   std::vector<int64_t> lengths = ChooseLengths(inputs, /*most=*/8);
//   for (size_t i = 1; i < lengths.size(); ++i) {   // the longest is the model itself
//     spec.shapes.push_back({.name = StrCat("of ", lengths[i]),
//                            .model = tuning.ModelOf(ModelPurpose::kTrain, lengths[i])});
//   }

/// What lengths but the longest are multiples of.
inline constexpr int64_t kLengthStep = 16;

/// At most `most` lengths, the longest first, for inputs of so many tokens each: multiples
/// of kLengthStep, and the longest input, for which the sum over inputs of the shortest
/// length that holds each is the least; of several such choices one of the fewest. Takes
/// time with `most` times the square of the multiples, by dynamic programming over them.
/// Preconditions: there are inputs, all of at least 1; most >= 1.
std::vector<int64_t> ChooseLengths(const std::vector<int64_t>& inputs,
                                   size_t most);

/// Which of the lengths, the longest first, a sequence of that many tokens takes: the
/// position of the shortest that holds it; 0, the longest, where none does. Linear.
size_t ShortestThatHolds(std::span<const int64_t> lengths, int64_t tokens);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_FINE_TUNING_H_
