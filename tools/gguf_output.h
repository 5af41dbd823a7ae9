#ifndef STOWAGE_TOOLS_GGUF_OUTPUT_H_
#define STOWAGE_TOOLS_GGUF_OUTPUT_H_

// What `stowage finetune` writes as GGUF files: --save-merged and --save-adapter, where their
// names end in .gguf. All that such a file cannot hold is known before the first step.

#include <optional>
#include <string_view>

#include "base/files.h"
#include "base/result.h"
#include "runtime/session.h"
#include "tools/train_flags.h"
#include "tools/tuning.h"
#include "train/gguf_export.h"

namespace stowage::tools {

/// Whether a path ends in ".gguf", in letters of either case.
bool IsGgufPath(std::string_view path);

class GgufOutput {
 public:
  /// Claims what these flags ask for. Errors: those of OutputFile::Claim, ParseGgufMix,
  /// GgufTokenizerKeys and GgufExport::Plan; kInvalidArgument for a --merged-type without
  /// such a file.
  static Result<GgufOutput> Open(const TrainFlags& flags, const Tuning* tuning);

  // Write what is asked for. Errors: those of SaveAdapterGguf and of GgufExport::Write.
  Status SaveAdapter(const Tuning& tuning, const Runner& runner) const;
  Status SaveMerged(const Tuning& tuning, const Runner& runner) const;

 private:
  std::optional<OutputFile> merged_file_, adapter_file_;
  std::optional<GgufExport> merged_;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_GGUF_OUTPUT_H_
