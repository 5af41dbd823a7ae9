#ifndef STOWAGE_TOOLS_INIT_FLAGS_H_
#define STOWAGE_TOOLS_INIT_FLAGS_H_

// Declares --init, which names a file of initial weights, and options that map the tensors of the
// file to params.
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
  std::string file;  // if empty, weights are initialized at random
  std::vector<std::string> rename, transpose, allow_missing, allow_unused;
};

/// Declares the options.
void AddInitOptions(Options& options, InitFlags* flags);

/// Returns the rules for loading the file (runtime/weights.h). Error messages begin with
/// "[command]". Returns kInvalidArgument if a --init-rename is malformed, or if rules are given
/// without --init.
Result<WeightRules> ReadInitRules(std::string_view command,
                                  const InitFlags& flags);

/// Returns lines for stderr that state the number of params loaded from the file at `path`, and
/// name missing params and unused tensors.
std::string WeightsText(const std::string& path, const LoadedWeights& loaded);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_INIT_FLAGS_H_
