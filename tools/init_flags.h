#ifndef STOWAGE_TOOLS_INIT_FLAGS_H_
#define STOWAGE_TOOLS_INIT_FLAGS_H_

// --init, a file of weights to start from, and the options of its names and layouts.
//
//   AddInitOptions(options, &flags);
//   Result<WeightRules> rules = ReadInitRules("train", flags);
//   LoadWeights(step, flags.file, *rules);

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/weights.h"
#include "tools/options.h"

namespace stowage::tools {

struct InitFlags {
  std::string file;  // "" for none
  std::vector<std::string> rename, transpose, allow_missing, allow_unused;
};

/// Declares the options.
void AddInitOptions(Options& options, InitFlags* flags);

/// The rules for the file; `command` tags the messages. Errors kInvalidArgument: a malformed
/// rename; rules without a file.
Result<WeightRules> ReadInitRules(std::string_view command,
                                  const InitFlags& flags);

/// Lines on the params and tensors of the file at `path`, for stderr.
std::string WeightsText(const std::string& path, const LoadedWeights& loaded);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_INIT_FLAGS_H_
