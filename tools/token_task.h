#ifndef STOWAGE_TOOLS_TOKEN_TASK_H_
#define STOWAGE_TOOLS_TOKEN_TASK_H_

// Batches of tokens for a published model: windows of a text, or examples of which a
// part is to be learnt.
//
//   std::unique_ptr<Task> task = MakeTokenTask(tuning, /*batch=*/4, seed);

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "tools/task.h"
#include "tools/tuning.h"

namespace stowage::tools {

/// `tuning` must outlive it. Of examples, the loss of a batch is the mean over its tokens
/// that are to be learnt; each pass over them has an order of its own, by the seed, and
/// each batch the shortest of the tuning's lengths that holds it.
std::unique_ptr<Task> MakeTokenTask(const Tuning& tuning, int64_t batch,
                                    uint64_t seed, const TaskShare& share = {});

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TOKEN_TASK_H_
