#ifndef STOWAGE_TESTS_GPU_APART_H_
#define STOWAGE_TESTS_GPU_APART_H_

// Checks of a device, each in a process of its own, so that one that breaks its
// context, crashes or never ends costs its own rows alone. The process that runs them
// opens no device: each is a fork of it that does.
//
//   const ApartResult result = RunApart(names, {.timeout = 60},
//       [&](const std::string& name, const EmitRow& emit) { ... });

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/check_rows.h"

namespace stowage::testing {

using EmitRow = std::function<void(const CheckRow&)>;
/// Runs one check in the process made for it; false: it cannot.
using RunCheck = std::function<bool(const std::string& name, const EmitRow&)>;

struct ApartOptions {
  double timeout = 60;  // seconds that one check may take; then it is killed
  double seconds = 0;   // after which no more are started; 0: no limit
  std::set<std::string> skip = {};  // names, or first words of names
  /// Rows as JSON, one a line, each synced when it is known, then how each check ended:
  /// appended to this file. Empty: none.
  std::string lines = {};
};

struct ApartResult {
  std::vector<CheckRow> rows;  // a check that died has a failed row more
  std::vector<std::string> died, skipped, waiting;
  bool written = true;  // the lines
};

/// Runs the checks one after the other; calls `shown`, where there is one, with each row
/// when it is known.
ApartResult RunApart(const std::vector<std::string>& names,
                     const ApartOptions& options, const RunCheck& run,
                     const EmitRow& shown = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_APART_H_
