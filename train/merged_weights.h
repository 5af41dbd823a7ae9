#ifndef STOWAGE_TRAIN_MERGED_WEIGHTS_H_
#define STOWAGE_TRAIN_MERGED_WEIGHTS_H_

// Weights of a published model with its adapters' share added, a few rows at a time.
//
//   Status merged = SaveMerged(tuning, training.step(), *OutputFile::Claim("whole"));
//
//   STOWAGE_ASSIGN_OR_RETURN(const MergedRows rows,
//                            MergedRows::Of(tuning, training.step(), param));
//   Status read = rows.Read(/*first=*/0, numbers);   // W + alpha / rank B A
//
// With DoRA the rows of each output then have its magnitude as their norm (nn/lora.h).

#include <cstdint>
#include <span>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "nn/pretrained.h"
#include "runtime/session.h"
#include "train/fine_tuning.h"
#include "train/lora_matrices.h"

namespace stowage {

/// The rows of a param of the base, with the adapter's share.
class MergedRows {
 public:
  /// `tuning` and `param`, which is one of its base, must outlive this. Precondition: the
  /// tuning has adapters. With DoRA, reads the param once. Errors: those of reading the
  /// adapter's params; kIo.
  static Result<MergedRows> Of(const FineTuning& tuning, const Runner& runner,
                               const PretrainedParam& param);

  /// Whether the param's layer has an adapter; else these are the base's numbers.
  bool is_adapted() const { return lora_.rank > 0; }

  /// Reads rows from `first` on, of a vector numbers: as many as `to` holds.
  /// Preconditions: as PretrainedModel::ReadFloats. Error kIo.
  Status Read(int64_t first, std::span<float> to) const;

 private:
  MergedRows(const PretrainedModel& base, const PretrainedParam& param)
      : base_(&base), param_(&param) {}
  Status FindScales(std::span<const float> magnitudes);
  void AddShare(int64_t row, std::span<float> numbers) const;

  const PretrainedModel* base_;
  const PretrainedParam* param_;
  LoraMatrices lora_;
  double factor_ = 0;
  std::vector<double> scales_;  // of outputs, with DoRA
};

/// Writes all weights of the model to a safetensors file, under Hugging Face's names, those
/// of adapted layers with the adapter merged, in elements of the tuning's dtype. Beside the model's config.json, others read it as any model. It
/// takes a few rows at a time and never the whole. Of a classifier, whose head is trained
/// whole, all that is trained is as the runner has it. Precondition: the tuning has adapters
/// or is a classifier. Errors: kIo; kNotFinite, with the file untouched, where a weight is
/// NaN or infinite.
Status SaveMerged(const FineTuning& tuning, const Runner& runner,
                  const OutputFile& file);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_MERGED_WEIGHTS_H_
