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
// If the base is a GGUF file, the result has its metadata and the order of its tensors. It also
// has their types, unless a mix is given. A tensor that has no adapter and keeps its type is copied
// byte for byte. Other tensors are W + alpha / rank B A, computed in floating point and quantized
// once (formats/quantize.h). If the base is a Hugging Face folder, the result has the keys and
// names of llama.cpp's converter (nn/gguf_form.h), and the caller provides the tokenizer's keys
// (text/gguf_tokenizer.h).

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
  /// Determines the contents of the file. Its types are the types of `mix`. Without a mix, they are
  /// the types of a base that is a GGUF file, and f16 for other bases. The keys of `tokenizer` are
  /// added. Requires that the tuning has adapters. Reads the weights of the base to check them.
  /// Returns kUnsupported for a model that classifies (nn/encoder.h) or embeds texts, and if an
  /// adapter would be merged into a type that cannot be written. Returns kNotFinite, with the
  /// tensor's name, if a weight is NaN or infinite, and kIo if reading fails. Propagates errors of
  /// AddGgufKeys.
  static Result<GgufExport> Plan(const FineTuning& tuning,
                                 const std::optional<GgufMix>& mix,
                                 const GgufMetadata& tokenizer);

  const std::vector<GgufTensorToWrite>& tensors() const { return tensors_; }

  /// Writes the file with all threads of the machine. Each tensor is processed a few rows at a
  /// time, except that a tensor that GGUF stores transposed is processed whole. `tuning` must be
  /// the tuning that was given to Plan. Returns kNotFinite, naming the tensor, if a weight is NaN
  /// or infinite, kInvalidArgument, naming the tensor, if a weight is too large for its type, and
  /// kIo if writing fails. On an error, the file is unchanged.
  Status Write(const FineTuning& tuning, const Runner& runner,
               const OutputFile& file) const;

 private:
  // The source of a tensor's values: a param, a tensor of the file, or `numbers`.
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

/// Returns kUnsupported if llama.cpp cannot apply the adapter, for example because it uses DoRA or
/// belongs to a classifier. Requires that the tuning has adapters.
Status CheckGgufAdapter(const FineTuning& tuning);

/// Writes the adapter of `runner` as a GGUF file that llama.cpp applies to a GGUF file of the base.
/// The tensors are NAME.lora_a and NAME.lora_b, in f32. Requires that the tuning has adapters.
/// Propagates errors of CheckGgufAdapter. Returns kNotFinite if a weight is NaN or infinite; the
/// file is then unchanged. Returns kIo if writing fails.
Status SaveAdapterGguf(const FineTuning& tuning, const Runner& runner,
                       const OutputFile& file);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_GGUF_EXPORT_H_
