#ifndef STOWAGE_TRAIN_GGUF_EXPORT_H_
#define STOWAGE_TRAIN_GGUF_EXPORT_H_

// What was tuned, as GGUF files, which llama.cpp and what is built on it run: the model
// with its adapters merged, or the adapters alone.
//
//   Result<GgufExport> merged = GgufExport::Plan(tuning, *ParseGgufMix("q4_k_m"), tokenizer);
//   ...  // training; what cannot be written is known before
//   Status saved = merged->Write(tuning, training.step(), *OutputFile::Claim("tuned.gguf"));
//   saved = SaveAdapterGguf(tuning, training.step(), *OutputFile::Claim("adapter.gguf"));
//
// A base that is a GGUF file keeps its metadata, its tensors' order and, unless a mix is
// asked for, their types; a tensor that has no adapter and keeps its type is copied byte for
// byte. Others are W + alpha / rank B A in floats, and quantized once (formats/quantize.h).
// A base of Hugging Face's gets the keys and names that llama.cpp's converter gives it
// (nn/gguf_form.h), and its tokenizer's keys from the caller (text/gguf_tokenizer.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "formats/gguf.h"
#include "nn/gguf_form.h"
#include "nn/pretrained.h"
#include "runtime/session.h"
#include "train/fine_tuning.h"

namespace stowage {

class GgufExport {
 public:
  /// What a file of this base holds, by the types of `mix`; without, those of a base that is
  /// a GGUF file, and f16 for others. The values of `tokenizer` are added. Errors:
  /// kUnsupported for a classifier (nn/encoder.h); those of AddGgufKeys; kNotFinite, naming the tensor, where the base has NaN or infinity in what
  /// is quantized, which is read for that; kIo. Precondition: the tuning has adapters.
  static Result<GgufExport> Plan(const FineTuning& tuning,
                                 const std::optional<GgufMix>& mix,
                                 const GgufMetadata& tokenizer);

  const std::vector<GgufTensorToWrite>& tensors() const { return tensors_; }

  /// Writes it by all of the machine's threads, a few rows of each at a time; of a tensor
  /// that GGUF files hold transposed, all rows. Errors, which name the tensor, with the file untouched: kNotFinite; kInvalidArgument
  /// for numbers too large for their type; kIo. Precondition: the tuning of Plan.
  Status Write(const FineTuning& tuning, const Runner& runner,
               const OutputFile& file) const;

 private:
  // Where a tensor's numbers come from.
  struct Source {
    std::optional<size_t> param = {};  // of the base's params()
    std::optional<size_t> tensor =
        {};  // of its file's tensors(), as it lies there
    bool is_transposed = false;
    GgufRows rows = {};
    std::vector<float> numbers = {};  // else these
  };

  void AddTensorsOfGguf(const PretrainedModel& base,
                        const std::optional<GgufMix>& mix);
  void AddTensorsOfFolder(const PretrainedModel& base, const GgufMix& mix);
  Status CheckTypes(const FineTuning& tuning) const;
  Status CheckBase(const PretrainedModel& base) const;
  Status WriteTensor(const FineTuning& tuning, const Runner& runner, size_t at,
                     const OutputFile::WritePart& write) const;

  GgufMetadata metadata_;
  std::vector<GgufTensorToWrite> tensors_;
  std::vector<Source> sources_;  // of each tensor
};

/// Error kUnsupported: an adapter that llama.cpp cannot apply, as DoRA's or a classifier's.
/// Precondition: the tuning has adapters.
Status CheckGgufAdapter(const FineTuning& tuning);

/// Writes the adapter of `runner` as llama.cpp reads it beside a GGUF file of the base:
/// tensors called NAME.lora_a and NAME.lora_b, in f32. Precondition: the tuning has adapters.
/// Errors: those of CheckGgufAdapter; kIo; kNotFinite, with the file untouched, where a weight
/// is NaN or infinite.
Status SaveAdapterGguf(const FineTuning& tuning, const Runner& runner,
                       const OutputFile& file);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GGUF_EXPORT_H_
