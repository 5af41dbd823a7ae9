#ifndef STOWAGE_TESTS_GPU_DEVICE_SUITE_H_
#define STOWAGE_TESTS_GPU_DEVICE_SUITE_H_

// The correctness and speed of a device: the checks of tools/gpu_check.sh. They run on any
// device, a fake one included.
//
//   device  its description
//   ops     every row of the op test table, as a program of its own, against
//           the interpreter; replayed and op by op
//   bench   step times, and memory beside the arena
//   times   the time of each kind of op in a step that runs op by op
//   growth  many steps take no memory of the device or the host
//   models  losses and params of training steps against the CPU's
//   bits    the same steps in other ways give the same bytes: again, in another
//           layout, op by op, poisoned, started ahead
//   branches  random loops and branches, taken by graphs and by the host, against the CPU
//           and each other; the time of a branch in both cases
//   attention
//           by each algorithm of the device: differences, times, and the autotuner's
//           choice
//
// They run in this order, so that a short time on a device yields the most rows. Checks that no
// device has run come last: a kernel that never ends or breaks the device loses no other row.
//
//   for (const CheckRow& row : RunDeviceSuite(open, SuiteOptionsFor(size)))

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"
#include "gpu/gpu_backend.h"
#include "runtime/backend.h"
#include "tests/gpu/attention_check.h"
#include "tests/gpu/check_rows.h"
#include "tests/gpu/device_bench.h"
#include "tests/gpu/op_check.h"
#include "tests/gpu/synthetic_run.h"

namespace stowage::testing {

/// A backend, and the device that belongs to it.
struct OpenedDevice {
  std::unique_ptr<Backend> backend;
  gpu::Device* device = nullptr;
};
using OpenDevice =
    std::function<Result<OpenedDevice>(const gpu::BackendOptions&)>;

struct ModelCase {
  SyntheticStep step;  // in f32; checked in bf16, too
  int64_t steps = 20;
};

struct SuiteOptions {
  std::set<std::string> only = {};  // groups; empty: all
  std::vector<ModelCase> models;
  GrowthCase growth;
  BranchCostCase branches = {};
  std::vector<AttentionCheck> attention;
  std::vector<BenchCase> bench;
  std::vector<BenchCase> times;
  /// Names of rows that are not run again, as "bits mlp f32".
  std::set<std::string> known = {};
  /// This row alone, by name; empty: all.
  std::string row = {};
  /// Cases of the op table a row, "ops f32 1-100"; 0: all, "ops f32".
  size_t op_cases = 0;
  OpCheckOptions ops = {};  // of these, `skip` and `at`
  /// A further description of the device, added to its row; may be empty.
  std::function<void(CheckRow*)> describe = {};
};

enum class SuiteSize {
  kFull,   // minutes
  kQuick,  // the same with fewer steps
  kSmall,  // for tools that slow a program down a hundredfold
};
SuiteOptions SuiteOptionsFor(SuiteSize size);

/// The names that SuiteOptions::only may hold, in the order in which they run.
const std::vector<std::string>& SuiteGroups();

/// The names of the rows that RunDeviceSuite would run, the most valuable first, since a borrowed
/// device may be lost at any time: ops of 16 bits that no device has run, whole steps of GPT-2
/// at 64 x 1024, attention by each algorithm, then the others.
std::vector<std::string> SuiteRows(const SuiteOptions& options);

/// Runs the checks; calls `shown`, where there is one, with each row when it is
/// known. A check that the device cannot run is a failed row. Error: the device cannot be opened.
Result<std::vector<CheckRow>> RunDeviceSuite(
    const OpenDevice& open, const SuiteOptions& options,
    const std::function<void(const CheckRow&)>& shown = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_DEVICE_SUITE_H_
