#ifndef STOWAGE_TRAIN_GGUF_EXPORT_H_
#define STOWAGE_TRAIN_GGUF_EXPORT_H_

// Writes tuned models as GGUF files for llama.cpp: the model with its adapters merged, or the
// adapters alone.
//
//   Result<GgufExport> merged = GgufExport::Plan(tuning, *ParseGgufMix("q4_k_m"), tokenizer);
//   ...  // training; Plan has found all errors of the formats
//   Status saved = merged->Write(tuning, training.step(), *OutputFile::Claim("tuned.gguf"));
//   saved = SaveAdapterGguf(tuning, training.step(), *OutputFile::Claim("adapter.gguf"));
//
// A base that is a GGUF file keeps its metadata, the order of its tensors and, unless a mix is
// given, their types; a tensor without an adapter whose type stays is copied byte for byte.
// Others are W + alpha / rank B A in floats, quantized once (formats/quantize.h). A Hugging
// Face base gets the keys and names of llama.cpp's converter (nn/gguf_form.h), and the
// tokenizer's keys from the caller (text/gguf_tokenizer.h).

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
  /// Determines the contents of the file, with the types of `mix`; without, those of a base
  /// that is a GGUF file, and f16 for others. The keys of `tokenizer` are added. Errors:
  /// kUnsupported for a classifier (nn/encoder.h); those of AddGgufKeys; kNotFinite, with the
  /// tensor's name, if the base has NaN or infinity in weights to quantize, which are read;
  /// kIo. Precondition: the tuning has adapters.
  static Result<GgufExport> Plan(const FineTuning& tuning,
                                 const std::optional<GgufMix>& mix,
                                 const GgufMetadata& tokenizer);

  const std::vector<GgufTensorToWrite>& tensors() const { return tensors_; }

  /// Writes the file with all threads of the machine, a few rows of each tensor at a time; of
  /// a tensor that GGUF stores transposed, all rows. Errors, with the tensor's name and the
  /// file unchanged: kNotFinite; kInvalidArgument for numbers too large for their type; kIo.
  /// Precondition: the tuning of Plan.
  Status Write(const FineTuning& tuning, const Runner& runner,
               const OutputFile& file) const;

 private:
  // The source of a tensor's numbers: a param, a tensor of the file, or `numbers`.
  struct Source {
    std::optional<size_t> param = {};  // index in the base's params()
    std::optional<size_t> tensor =
        {};  // index in its file's tensors(), copied unchanged
    bool is_transposed = false;
    GgufRows rows = {};
    std::vector<float> numbers = {};
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

/// Error kUnsupported: an adapter that llama.cpp cannot apply, such as DoRA or a classifier's.
/// Precondition: the tuning has adapters.
Status CheckGgufAdapter(const FineTuning& tuning);

/// Writes the adapter of `runner` as llama.cpp reads it beside a GGUF file of the base:
/// tensors NAME.lora_a and NAME.lora_b in f32. Errors: those of CheckGgufAdapter; kIo;
/// kNotFinite, with the file unchanged, for a weight that is NaN or infinite. Precondition:
/// the tuning has adapters.
Status SaveAdapterGguf(const FineTuning& tuning, const Runner& runner,
                       const OutputFile& file);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GGUF_EXPORT_H_
