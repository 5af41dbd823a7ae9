#ifndef STOWAGE_TOOLS_PACKER_FLAGS_H_
#define STOWAGE_TOOLS_PACKER_FLAGS_H_

// --packer and --time-limit, shared by `plan` and `pack`.

#include <optional>
#include <string>

#include "base/result.h"
#include "planner/packing/packer.h"
#include "tools/options.h"

namespace stowage::tools {

struct PackerFlags {
  std::string packer = "greedy";
  std::optional<double> time_limit;
};

void AddPackerOptions(Options& options, PackerFlags* flags);

/// The options, with a time limit counted from now. Error when there is no such
/// packer, or it takes no time limit, or the limit is none.
Result<packing::PackOptions> ReadPackerFlags(const PackerFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PACKER_FLAGS_H_
