#include "tools/packer_flags.h"

#include "base/strings.h"

namespace stowage::tools {

void AddPackerOptions(CLI::App& command, PackerFlags* flags) {
  command
      .add_option("--packer", flags->packer,
                  "linear or greedy (best is not in this version)")
      ->capture_default_str();
  command.add_option("--time-limit", flags->time_limit,
                     "Seconds to search (no packer of this version does)");
}

Result<Packer> ReadPackerFlags(const PackerFlags& flags) {
  if (flags.time_limit) {
    return Error{ErrorCode::kUnsupported,
                 "[time-limit] no packer of this version takes one; leave it "
                 "out: linear and greedy need no limit"};
  }
  if (flags.packer == "best") {
    return Error{ErrorCode::kUnsupported,
                 "[packer] best is not in this version; available: linear, "
                 "greedy"};
  }
  if (flags.packer == "linear") return Packer::kLinear;
  if (flags.packer == "greedy") return Packer::kGreedy;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[packer] there is no packer ", Quoted(flags.packer),
                      "; expected linear, greedy or best")};
}

}  // namespace stowage::tools
