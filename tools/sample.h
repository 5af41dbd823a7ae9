#ifndef STOWAGE_TOOLS_SAMPLE_H_
#define STOWAGE_TOOLS_SAMPLE_H_

// Text from a trained character model.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "runtime/session.h"
#include "tools/work_progress.h"

namespace stowage::tools {

/// Draws `length` characters, one run of the generation program each: from the
/// softmax of the logits over `temperature`, by the seed alone. The model sees
/// the last `seq` characters, a newline before the first. Tells `progress` of each.
/// Precondition: a program for batch 1 and that seq.
Result<std::string> SampleText(Runner& generate, int64_t seq, int64_t length,
                               double temperature, uint64_t seed,
                               WorkProgress& progress);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SAMPLE_H_
