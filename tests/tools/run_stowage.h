#ifndef STOWAGE_TESTS_TOOLS_RUN_STOWAGE_H_
#define STOWAGE_TESTS_TOOLS_RUN_STOWAGE_H_

// Runs the `stowage` program and returns its output and exit code. The program cannot use a GPU, so
// the results do not depend on the machine.
//
//   const Outcome outcome = RunStowage({"plan", "--model", "mlp", "--json"});
//   CHECK(outcome.exit_code == 0);

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/files.h"  // for tests that read files of a run

namespace stowage::testing {

struct Outcome {
  int exit_code = -1;  // -1 if a signal ended the program
  std::string out;     // stdout
  std::string err;     // stderr without progress lines, which depend on time
};

/// Limits and environment of a run.
struct RunLimits {
  int64_t largest_file = 0;  // maximum bytes per file; 0 means no limit
  std::string input = {};    // a file for stdin; if empty, stdin is inherited
  std::vector<int> closed = {};  // file descriptors to close
  std::string cpu_target = {};   // STOWAGE_CPU_TARGET; if empty, inherited
};

/// Runs the program and waits until it ends. Plans are cached in the folder of this test.
Outcome RunStowage(const std::vector<std::string>& arguments,
                   const RunLimits& limits = {});

/// Does the same, but writes stdout to the file `file`. `out` is empty.
Outcome RunStowageInto(const std::string& file,
                       const std::vector<std::string>& arguments);

/// Starts the program, sends it `signal` as soon as `is_time` returns true, and waits until it
/// ends. Calls `is_time` every millisecond.
Outcome RunAndSignal(const std::vector<std::string>& arguments,
                     const std::function<bool()>& is_time, int signal);
/// Does the same, but sends `signal` as soon as a file exists at `path`. The file must not be
/// removed.
Outcome RunAndSignal(const std::vector<std::string>& arguments,
                     const std::string& path, int signal);

/// Starts the program with stdout written to `file`, which is an existing named pipe or terminal
/// that nobody reads. Sends the program `signal` as soon as `file` is full, and waits until it
/// ends. `out` is empty.
Outcome RunUnreadAndSignal(const std::string& file,
                           const std::vector<std::string>& arguments,
                           int signal);

/// Returns a path in the temporary folder of this test.
std::string TempPath(const std::string& name);
/// Writes a file at TempPath(name), and returns its path.
std::string WriteTemp(const std::string& name, const std::string& contents);

/// Returns CSV data for `train --model mlp`: 60 digit images. Each class has a
/// different pattern.
std::string SomeDigits();
/// Returns lines of text, 4,000 characters or slightly more.
std::string SomeText();
/// Returns a graph in text form for `plan --graph`, which computes relu(exp(x)) of 64 numbers.
std::string SomeGraph();

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_RUN_STOWAGE_H_
