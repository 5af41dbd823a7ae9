#ifndef STOWAGE_TESTS_GPU_APART_H_
#define STOWAGE_TESTS_GPU_APART_H_

// Checks of a device, each in a process of its own, so that a check that breaks its context,
// crashes or never ends loses only its own rows. The process that runs them opens no device; its
// forks do.
//
//   const ApartResult result = RunApart(names, {.timeout = 60},
//       [&](const std::string& name, const CheckReport& report) {
//         report.At("matmul");  // named, should the check die there
//         report.Row({.name = name, .figure = "1 of 1 cases"});
//         return true;
//       });

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/check_rows.h"

namespace stowage::testing {

using ShowRow = std::function<void(const CheckRow&)>;

/// The report that the process of a check writes.
class CheckReport {
 public:
  explicit CheckReport(int file) : file_(file) {}

  void Row(const CheckRow& row) const;
  /// The part of the check that runs from now on; its row names it if the check dies there.
  void At(std::string_view part) const;

 private:
  int file_;  // written, a line a message
};

/// Runs one check in its process; false if it cannot.
using RunCheck =
    std::function<bool(const std::string& name, const CheckReport&)>;

struct ApartOptions {
  double timeout = 60;  // seconds that one check may take; then it is killed
  double seconds = 0;   // after which no more are started; 0: no limit
  std::set<std::string> skip = {};  // names, or first words of names
  /// A row after which the remaining checks are not run, since without a device all would
  /// fail.
  std::function<bool(const CheckRow&)> ends = {};
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
                     const ShowRow& shown = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_APART_H_
