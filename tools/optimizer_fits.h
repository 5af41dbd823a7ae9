#ifndef STOWAGE_TOOLS_OPTIMIZER_FITS_H_
#define STOWAGE_TOOLS_OPTIMIZER_FITS_H_

// What the step would take with each optimizer, as --fit-optimizer prints it: a line
// each. It chooses none.
//
//   const std::vector<OptimizerFit> fits = FitOptimizers(spec, device);
//   PrintOptimizerFits(fits, spec.budget, /*as_json=*/false);

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "planner/lifetimes.h"
#include "train/param_bytes.h"
#include "train/training.h"

namespace stowage::tools {

struct OptimizerFit {
  std::string_view name;
  /// Why it cannot train this model at all; empty if it can.
  std::string refused = {};
  bool fits = false;
  Bytes arena = 0;        // where it does not fit, the smallest that works
  ParamBytes bytes = {};  // of that plan, or of the step as given
};

/// The step of `spec` with each optimizer of NamedOptimizers in place of its own,
/// otherwise as the spec says, for kernels that need what `device` says. As long as it
/// takes to plan as many steps.
std::vector<OptimizerFit> FitOptimizers(const TrainingSpec& spec,
                                        const DeviceNeeds& device);

/// Prints them as a table, or as {"budget_bytes": ..., "optimizers": [...]}.
void PrintOptimizerFits(const std::vector<OptimizerFit>& fits,
                        std::optional<Bytes> budget, bool as_json);

/// {"weights": ..., "states": ..., "gradients": ..., "total": ...}, for each element of
/// the params.
nlohmann::ordered_json ParamBytesJson(const ParamBytes& bytes);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_OPTIMIZER_FITS_H_
