#ifndef STOWAGE_TESTS_TOOLS_RUN_STOWAGE_H_
#define STOWAGE_TESTS_TOOLS_RUN_STOWAGE_H_

// Runs the built program as on a machine without a GPU, and returns its output and exit code.
//
//   const Outcome outcome = RunStowage({"plan", "--model", "mlp", "--json"});
//   CHECK(outcome.exit_code == 0);

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/files.h"  // for those who read what a run wrote

namespace stowage::testing {

struct Outcome {
  int exit_code = -1;  // -1 when a signal ended it
  std::string out;     // stdout
  std::string err;     // stderr, but for progress, which comes by the clock
};

/// Limits of a run, and its environment.
struct RunLimits {
  int64_t largest_file = 0;  // bytes that it may write; 0: any number
  std::string input = {};    // a file to be its stdin; empty: this test's own
  std::vector<int> closed = {};  // descriptors, as >&- has it
  std::string cpu_target = {};   // STOWAGE_CPU_TARGET; empty: this test's own
};

/// Plans are kept in a cache of this test's own.
Outcome RunStowage(const std::vector<std::string>& arguments,
                   const RunLimits& limits = {});

/// The same with stdout written to an existing file; `out` is empty.
Outcome RunStowageInto(const std::string& file,
                       const std::vector<std::string>& arguments);

/// Starts the program, sends it `signal` once `is_time` returns true (polled every
/// millisecond), and waits.
Outcome RunAndSignal(const std::vector<std::string>& arguments,
                     const std::function<bool()>& is_time, int signal);
/// The same once a file exists at `path`, which must stay there.
Outcome RunAndSignal(const std::vector<std::string>& arguments,
                     const std::string& path, int signal);

/// Starts the program with stdout written to `file`, an existing named pipe or terminal that
/// nobody reads, sends it `signal` once it is full, and waits. `out` is empty.
Outcome RunUnreadAndSignal(const std::string& file,
                           const std::vector<std::string>& arguments,
                           int signal);

/// A path in this test's own directory.
std::string TempPath(const std::string& name);
/// Writes a file there; returns its path.
std::string WriteTemp(const std::string& name, const std::string& contents);

/// 60 rows of digits that `train --model mlp` takes, each class its own
/// pattern.
std::string SomeDigits();
/// 4,000 characters of text in lines.
std::string SomeText();
/// The text form of a graph that `plan --graph` takes: relu(exp(x)) of 64 numbers.
std::string SomeGraph();

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_RUN_STOWAGE_H_
