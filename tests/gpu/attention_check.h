#ifndef STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
#define STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_

// Attention and its gradient on a device in both ways that there are on tensor cores: by
// products of warps and by products of warpgroups (docs/gpu.md), beside one another.
//
//   const AttentionCheck check = {.batch = 16, .length = 1024, .heads = 12, .depth = 64};
//   CheckRow row{.name = StrCat("attention ", AttentionName(check))};
//   Status status = CheckAttention(check, *without, *with, &row);

#include <cstdint>
#include <string>

#include "base/result.h"
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

/// The largest differences of o, log_sum_exp, dq, dk and dv, each relative to its largest
/// element or 1, which fail the row above what the op table allows; and the median time of
/// either op both ways. `warps` and `warpgroups` are backends without and with products of
/// warpgroups; where the device has none, both compute the same. Errors are those of
/// planning, of Session::Create and of the device.
Status CheckAttention(const AttentionCheck& check, Backend& warps,
                      Backend& warpgroups, CheckRow* row);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_ATTENTION_CHECK_H_
