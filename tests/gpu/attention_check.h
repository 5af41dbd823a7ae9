#ifndef STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
#define STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_

// Attention and its gradient on a device in each way that it has on tensor cores
// (docs/explanation/gpu_kernels.md), beside one another, and what a trial of them chooses.
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

/// A backend that computes attention in this way alone.
struct AttentionBackend {
  gpu::AttentionAlgorithm way = gpu::AttentionAlgorithm::kWarps;
  Backend* backend = nullptr;
};

/// The median time of either op in each way, and how o, log_sum_exp, dq, dk and dv differ
/// from those of the first: at most by so much, relative to the largest element or 1, which
/// fails the row above what the op table allows. `trying` is a backend that may choose
/// among all of them, whose trials are told of; one that leaves a way out fails the row;
/// null: there is none. Errors are those of planning, of Session::Create and of the device.
Status CheckAttention(const AttentionCheck& check,
                      const std::vector<AttentionBackend>& ways,
                      Backend* trying, CheckRow* row);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
