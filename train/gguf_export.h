#ifndef STOWAGE_TRAIN_GGUF_EXPORT_H_
#define STOWAGE_TRAIN_GGUF_EXPORT_H_

// Writes fine-tuned models as GGUF files for llama.cpp: either the model with its adapters merged,
// or only the adapters.
//
//   Result<GgufExport> merged = GgufExport::Plan(tuning, *ParseGgufMix("q4_k_m"), tokenizer);
//   ...  // training; Plan has found all errors of the formats
//   Status saved = merged->Write(tuning, training.step(), *OutputFile::Claim("tuned.gguf"));
//   saved = SaveAdapterGguf(tuning, training.step(), *OutputFile::Claim("adapter.gguf"));
//
// If the base is a GGUF file, the result has the metadata and the order of the tensors of that
// file. It also has the types of its tensors, unless a mix of types is given (GgufMix in
// nn/gguf_form.h). A tensor that has no adapter and keeps its type is copied byte for byte. The
// numbers of other tensors, W + alpha / rank B A if they have an adapter, are computed in floating
// point and quantized once (formats/quantize.h). If the base is a Hugging Face folder, the result
// has the keys and names of llama.cpp's converter (nn/gguf_form.h), and the caller provides the
// tokenizer's keys (text/gguf_tokenizer.h).

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
  /// Determines the contents of the file. `mix` determines the types of the tensors. Without a mix,
  /// tensors have their types in the base if the base is a GGUF file, and the mix is "f16"
  /// otherwise. The keys of `tokenizer` are added, and replace keys of the same names. Requires
  /// that the tuning has adapters. Reads the weights of the base to check them. Returns
  /// kUnsupported if the model classifies (nn/encoder.h) or embeds texts, or if an adapter would be
  /// merged into a tensor whose type cannot be written. Returns kNotFinite, with the tensor's name,
  /// if a weight is NaN or infinite, and kIo if reading fails. Propagates errors of AddGgufKeys.
  static Result<GgufExport> Plan(const FineTuning& tuning,
                                 const std::optional<GgufMix>& mix,
                                 const GgufMetadata& tokenizer);

  const std::vector<GgufTensorToWrite>& tensors() const { return tensors_; }

  /// Writes the model of `runner`, using all CPU threads. Each tensor is processed a few rows at a
  /// time, except for a tensor that GGUF stores transposed, which is processed whole. `tuning` must
  /// be the tuning that was given to Plan. Returns kNotFinite, with the name, if a weight is NaN or
  /// infinite. Returns kInvalidArgument, naming the tensor, if a weight is too large for the
  /// tensor's type. Returns kIo if reading the base or writing fails. On an error, the file is
  /// unchanged.
  Status Write(const FineTuning& tuning, const Runner& runner,
               const OutputFile& file) const;

 private:
  // The source of a tensor's values: a param of the model, a tensor in the file of the base, or
  // `numbers`.
  struct Source {
    std::optional<size_t> param = {};  // index in the base's params()
    std::optional<size_t> tensor =
        {};  // index in the tensors() of its file, copied unchanged
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
  std::vector<Source> sources_;  // the source of each tensor
};

/// Returns kUnsupported if llama.cpp cannot apply the adapter, which is the case if it uses DoRA,
/// or if the model classifies or embeds texts. Requires that the tuning has adapters.
Status CheckGgufAdapter(const FineTuning& tuning);

/// Writes the adapter of `runner` as a GGUF file that llama.cpp applies to a GGUF file of the base.
/// The tensors are NAME.lora_a and NAME.lora_b, in f32. Requires that the tuning has adapters.
/// Propagates errors of CheckGgufAdapter. Returns kNotFinite if a weight is NaN or infinite, and
/// kIo if writing fails. On an error, the file is unchanged.
Status SaveAdapterGguf(const FineTuning& tuning, const Runner& runner,
                       const OutputFile& file);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GGUF_EXPORT_H_
