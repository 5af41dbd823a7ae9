#ifndef STOWAGE_TESTS_GPU_APART_H_
#define STOWAGE_TESTS_GPU_APART_H_

// Runs checks of a device, each in a separate process. If a check corrupts its CUDA context,
// crashes or hangs, only the rows of that check are lost. The parent process does not open the
// device. Only its forked children do.
//
//   const ApartResult result = RunApart(names, {.timeout = 60},
//       [&](const std::string& name, const CheckReport& report) {
//         report.At("matmul");  // reported if the check dies in this section
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

/// Sends messages from the process of a check to the parent process.
class CheckReport {
 public:
  explicit CheckReport(int file) : file_(file) {}

  /// Reports a result of the check.
  void Row(const CheckRow& row) const;
  /// Reports the section of the check that starts now. If the check dies in that section, its row
  /// names the section.
  void At(std::string_view part) const;

 private:
  int file_;  // a file descriptor, to which each message is one line
};

/// Runs one check in its process. Returns false if the check cannot run.
using RunCheck =
    std::function<bool(const std::string& name, const CheckReport&)>;

struct ApartOptions {
  double timeout = 60;  // seconds after which a check is killed
  double seconds = 0;   // no check starts after this time; 0 means no limit
  std::set<std::string> skip = {};  // names, or first words of names
  /// Returns whether the remaining checks must not run after this row. Without a working device,
  /// for example, all of them would fail. If empty, all checks run.
  std::function<bool(const CheckRow&)> ends = {};
  /// A file to which the rows of each check and then its outcome are appended. Each is a line of
  /// JSON, synced to disk immediately. If empty, no file is written.
  std::string lines = {};
};

struct ApartResult {
  std::vector<CheckRow> rows;  // with an extra failed row per check that died
  /// The names of the checks that died, of those in ApartOptions::skip, and of those that did not
  /// start because of ApartOptions::seconds or ApartOptions::ends.
  std::vector<std::string> died, skipped, waiting;
  bool written = true;  // ApartOptions::lines was written without an error
};

/// Runs the checks in sequence. Calls `shown`, unless it is empty, with each row as soon as the
/// row is reported.
ApartResult RunApart(const std::vector<std::string>& names,
                     const ApartOptions& options, const RunCheck& run,
                     const ShowRow& shown = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_APART_H_
