#ifndef STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
#define STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_

// Runs attention and its gradient on a device with each algorithm for tensor cores
// (docs/explanation/gpu_kernels.md). Compares their results and times, and reports the choice of
// the autotuner.
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

/// The shape of a causal attention in bf16, and the number of steps to run.
struct AttentionCheck {
  int64_t batch = 1, length = 1, heads = 1, depth = 64;
  int64_t warm_up = 3;  // steps that are not timed
  int64_t steps = 20;
};

/// Returns for example "16 x 1024, 12 heads of 64", which is the batch and the sequence length,
/// then the heads and their depth.
std::string AttentionName(const AttentionCheck& check);

/// A backend that computes attention only with the algorithm `way`.
struct AttentionBackend {
  gpu::AttentionAlgorithm way = gpu::AttentionAlgorithm::kWarps;
  Backend* backend = nullptr;
};

/// Writes to `row` the median times of attention and its gradient with each algorithm. Also writes
/// how far o, log_sum_exp, dq, dk and dv differ from the results of the first algorithm, as
/// LargestError defines it. Fails the row if a difference is above the tolerance of the op table.
///
/// `trying` is null or a backend that autotunes over all algorithms. Its measurements are
/// reported, and the row fails if the autotuner left out an algorithm.
///
/// Propagates errors of planning, of Session::Create and of the device.
Status CheckAttention(const AttentionCheck& check,
                      const std::vector<AttentionBackend>& ways,
                      Backend* trying, CheckRow* row);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
