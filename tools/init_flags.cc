#include "tools/init_flags.h"

#include <utility>

#include "base/strings.h"

namespace stowage::tools {

void AddInitOptions(Options& options, InitFlags* flags) {
  options.Add(
      "--init", &flags->file,
      "Start from the weights of this safetensors or NPZ file of any program");
  options.AddEach("--init-rename", &flags->rename,
                  "FROM=TO: rename tensors of the file that match the pattern "
                  "FROM to TO; may be repeated");
  options.AddEach(
      "--init-transpose", &flags->transpose,
      "Params whose matrices the file has transposed, by a pattern");
  options.AddEach("--init-allow-missing", &flags->allow_missing,
                  "Params that the file may lack, by a pattern; they are "
                  "initialized from the seed");
  options.AddEach("--init-allow-unused", &flags->allow_unused,
                  "Tensors of the file that may stay unused, by a pattern");
}

Result<WeightRules> ReadInitRules(std::string_view command,
                                  const InitFlags& flags) {
  const char* const rule = !flags.rename.empty()      ? "--init-rename"
                           : !flags.transpose.empty() ? "--init-transpose"
                           : !flags.allow_missing.empty()
                               ? "--init-allow-missing"
                           : !flags.allow_unused.empty() ? "--init-allow-unused"
                                                         : nullptr;
  if (flags.file.empty() && rule != nullptr) {
    return InvalidArgumentError("[", command, "] ", rule,
                                " says how the file of --init is read, and "
                                "there is none; give --init with it");
  }
  WeightRules rules{.transpose = flags.transpose,
                    .allow_missing = flags.allow_missing,
                    .allow_unused = flags.allow_unused};
  for (const std::string& text : flags.rename) {
    STOWAGE_ASSIGN_OR_RETURN(RenameRule renamed, ParseRenameRule(text));
    rules.rename.push_back(std::move(renamed));
  }
  return rules;
}

std::string WeightsText(const std::string& path, const LoadedWeights& loaded) {
  std::string text = StrCat("init: ", loaded.loaded,
                            " params have the weights ", "of ", path, "\n");
  for (const std::string& name : loaded.missing) {
    text +=
        StrCat("init: ", name, " is not in it and begins as the seed says\n");
  }
  for (const std::string& name : loaded.unused) {
    text += StrCat("init: ", name, " of it is not used\n");
  }
  return text;
}

}  // namespace stowage::tools
