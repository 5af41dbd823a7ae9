#include "tools/packer_flags.h"

#include <chrono>

#include "base/strings.h"
#include "planner/packing/deadline.h"

namespace stowage::tools {

void AddPackerOptions(Options& options, PackerFlags* flags) {
  options.Group("memory");
  options.Add("--packer", &flags->packer,
              "linear, greedy or best (which searches for some seconds)");
  options.Add("--time-limit", &flags->time_limit,
              "Seconds after which --packer best looks no further");
}

Result<packing::PackOptions> ReadPackerFlags(const PackerFlags& flags) {
  packing::PackOptions options;
  if (flags.packer == "linear") {
    options.packer = packing::Packer::kLinear;
  } else if (flags.packer == "greedy") {
    options.packer = packing::Packer::kGreedy;
  } else if (flags.packer == "best") {
    options.packer = packing::Packer::kBest;
  } else {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[packer] there is no packer ", Quoted(flags.packer),
                        "; expected linear, greedy or best")};
  }
  if (!flags.time_limit) return options;
  if (options.packer != packing::Packer::kBest) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[time-limit] the ", flags.packer,
                        " packer does not search; leave the limit out, or say "
                        "--packer best")};
  }
  constexpr double kMostSeconds = 1e6;
  const double seconds = *flags.time_limit;
  if (!(seconds > 0 && seconds <= kMostSeconds)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[time-limit] ", seconds,
                        " is out of range; expected seconds above 0, at most "
                        "1000000")};
  }
  options.deadline = packing::Clock::now() +
                     std::chrono::duration_cast<packing::Clock::duration>(
                         std::chrono::duration<double>(seconds));
  return options;
}

}  // namespace stowage::tools
