#ifndef STOWAGE_TESTS_GPU_DEVICE_SUITE_H_
#define STOWAGE_TESTS_GPU_DEVICE_SUITE_H_

// Checks the correctness and speed of a device, for tools/gpu_check.sh. The checks run on any
// device, including a fake one. The groups of checks are:
//
//   device     describes the device
//   ops        runs every row of the op test table as a program, as a replayed graph and op by
//              op, and compares the results with the interpreter
//   bench      measures step times, and the memory outside the arena
//   times      measures each kind of op in a step that runs op by op
//   growth     checks that many steps allocate no memory of the device or the host
//   models     compares losses and params of training steps with the CPU's
//   bits       checks that steps give the same bytes when they are repeated, planned with another
//              memory layout, run op by op in a poisoned arena, or started ahead
//   branches   compares random loops and branches with the CPU, once with branches in CUDA graphs
//              and once with the host choosing them, and measures a branch in both cases
//   attention  compares results and times of the device's attention algorithms, and reports the
//              autotuner's choice
//
// Groups run in this order, so that a short session on a device yields as many rows as possible.
// The checks that have not yet run on a real device come last. If one of their kernels hangs or
// breaks the device, no other row is lost.
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

/// A backend, and the device that it owns.
struct OpenedDevice {
  std::unique_ptr<Backend> backend;
  gpu::Device* device = nullptr;
};
using OpenDevice =
    std::function<Result<OpenedDevice>(const gpu::BackendOptions&)>;

struct ModelCase {
  SyntheticStep step;  // in f32, and checked in bf16 as well
  int64_t steps = 20;
};

struct SuiteOptions {
  std::set<std::string> only = {};  // groups; if empty, all groups
  std::vector<ModelCase> models;
  GrowthCase growth;
  BranchCostCase branches = {};
  std::vector<AttentionCheck> attention;
  std::vector<BenchCase> bench;
  std::vector<BenchCase> times;
  /// The names of rows that are known already and do not run, for example "bits mlp f32".
  std::set<std::string> known = {};
  /// The name of the only row to run. If empty, all rows run.
  std::string row = {};
  /// Cases of the op table per row. If 100, the first row is "ops f32 1-100". If 0, one row,
  /// "ops f32", has all cases.
  size_t op_cases = 0;
  OpCheckOptions ops = {};  // only `skip` and `at` are used
  /// Adds more of the device's description to its row. May be empty.
  std::function<void(CheckRow*)> describe = {};
};

enum class SuiteSize {
  kFull,   // takes minutes
  kQuick,  // kFull with fewer steps
  kSmall,  // for tools that slow a program down by a factor of 100
};
SuiteOptions SuiteOptionsFor(SuiteSize size);

/// Returns the names that SuiteOptions::only may contain, in the order in which the groups run.
const std::vector<std::string>& SuiteGroups();

/// Returns the names of the rows that RunDeviceSuite would run. The most valuable rows come first,
/// since a borrowed device may be lost at any time. After the description of the device, these are
/// the ops in bf16, whole steps of GPT-2 at 64 x 1024, and the attention algorithms.
std::vector<std::string> SuiteRows(const SuiteOptions& options);

/// Runs the checks. Calls `shown`, unless it is empty, with each row as soon as the row is
/// complete. A check that the device cannot run is a failed row. Returns an error only if the
/// device cannot be opened.
Result<std::vector<CheckRow>> RunDeviceSuite(
    const OpenDevice& open, const SuiteOptions& options,
    const std::function<void(const CheckRow&)>& shown = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_DEVICE_SUITE_H_
