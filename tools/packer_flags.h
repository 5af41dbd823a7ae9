#ifndef STOWAGE_TOOLS_PACKER_FLAGS_H_
#define STOWAGE_TOOLS_PACKER_FLAGS_H_

// --packer and --time-limit, shared by `plan` and `pack`.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "planner/packer.h"

namespace stowage::tools {

struct PackerFlags {
  std::string packer = "greedy";
  std::optional<double> time_limit;
};

void AddPackerOptions(CLI::App& command, PackerFlags* flags);

/// Error when there is no such packer, or not in this version, or it takes no
/// time limit.
Result<Packer> ReadPackerFlags(const PackerFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PACKER_FLAGS_H_
