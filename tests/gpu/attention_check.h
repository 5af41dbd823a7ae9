#ifndef STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
#define STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_

// Attention and its gradient on a device by each algorithm for tensor cores
// (docs/explanation/gpu_kernels.md), compared with one another, and the autotuner's choice.
//
//   const AttentionCheck check = {.batch = 16, .length = 1024, .heads = 12, .depth = 64};
//   CheckRow row{.name = StrCat("attention ", AttentionName(check))};
//   Status status = CheckAttention(check, {{AttentionAlgorithm::kWarps, warps.get()},
//                                          {AttentionAlgorithm::kWarpgroups, warpgroups.get()}},
//                                  trying.get(), &row);

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/queue.h"
#include "runtime/backend.h"
#include "tests/gpu/check_rows.h"

namespace stowage::testing {

/// In bf16, causal.
struct AttentionCheck {
  int64_t batch = 1, length = 1, heads = 1, depth = 64;
  int64_t warm_up = 3;  // steps that are not timed
  int64_t steps = 20;
};

/// "16 x 1024, 12 heads of 64".
std::string AttentionName(const AttentionCheck& check);

/// A backend that computes attention by this algorithm alone.
struct AttentionBackend {
  gpu::AttentionAlgorithm way = gpu::AttentionAlgorithm::kWarps;
  Backend* backend = nullptr;
};

/// The median time of either op by each algorithm, and the largest difference of o, log_sum_exp,
/// dq, dk and dv from those of the first, relative to the largest element or 1; a difference
/// above the op table's tolerance fails the row. `trying` is a backend that may choose among all
/// algorithms, or null; its trials are reported, and a trial that leaves out an algorithm fails
/// the row. Errors: of planning, of Session::Create and of the device.
Status CheckAttention(const AttentionCheck& check,
                      const std::vector<AttentionBackend>& ways,
                      Backend* trying, CheckRow* row);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
