#ifndef STOWAGE_TESTS_GPU_DEVICE_SUITE_H_
#define STOWAGE_TESTS_GPU_DEVICE_SUITE_H_

// Whether a device computes what it should, and how fast: the checks behind
// tools/gpu_check.sh. They run on any device, a fake one included.
//
//   device  what it is
//   ops     every row of the op test table, as a program of its own, against
//           the interpreter; replayed and op by op
//   bench   step times, and memory beside the arena
//   times   how long each kind of op takes in a step that runs op by op
//   growth  many steps take no memory of the device or the host
//   models  losses and params of training steps against the CPU's
//   bits    the same steps in other ways give the same bytes: again, in another
//           layout, op by op, poisoned, started ahead
//   branches  random loops and branches, taken by graphs and by the host, against the CPU
//           and each other; what a branch costs either way
//   attention
//           in each way that the device has: how they differ, how long they take, and
//           what a trial of them chooses
//
// They run in this order, so that a short time on a device yields the most, and what no
// device has run comes last: a kernel that never ends, or that breaks the device, takes no
// row of the others.
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
  /// Rows that are there already, by name, as "bits mlp f32": not run again.
  std::set<std::string> known = {};
  /// This row alone, by name; empty: all.
  std::string row = {};
  /// Cases of the op table a row, "ops f32 1-100"; 0: all, "ops f32".
  size_t op_cases = 0;
  OpCheckOptions ops = {};  // of these, `skip` and `at`
  /// What else there is to say of a device, added to the row of it; may be empty.
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

/// The names of the rows that RunDeviceSuite would run, those worth most first, as a lent
/// device may go at any time: what no device has run in 16 bits, whole steps of GPT-2 at
/// 64 x 1024, attention in each way, then the others.
std::vector<std::string> SuiteRows(const SuiteOptions& options);

/// Runs the checks; calls `shown`, where there is one, with each row when it is
/// known. What a device cannot do is a failed row. Error: it cannot be opened.
Result<std::vector<CheckRow>> RunDeviceSuite(
    const OpenDevice& open, const SuiteOptions& options,
    const std::function<void(const CheckRow&)>& shown = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_DEVICE_SUITE_H_
