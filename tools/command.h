#ifndef STOWAGE_TOOLS_COMMAND_H_
#define STOWAGE_TOOLS_COMMAND_H_

// Defines exit codes, error messages and access to files for all subcommands. Data goes to stdout;
// progress and errors go to stderr. Each subcommand has an Add... function that declares it.
//
//   Status tried = TryOutputs({{"output", flags.output}}, {{"data", flags.data}});
//   ...
//   Status written = WriteOutput(flags.output, text);

#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"

namespace stowage::tools {

/// The path given to an option or to a positional argument. A positional argument is named in
/// words, such as "the plan". The path is "" if it was not given.
struct PathOption {
  std::string_view option;
  std::string path;
};

/// Returns kInvalidArgument if an output is also an input or in a folder that is an input, or if
/// two outputs are the same file. Devices, pipes and paths that are "" are not compared.
Status CheckPaths(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs);

/// An output file or stream, claimed for the lifetime of the object.
class Output {
 public:
  /// Opens `path`, or stdout if `path` is "". Write replaces a file, and writes to a device or
  /// pipe. Propagates errors of OutputFile::Claim.
  static Result<Output> Open(const std::string& path);

  /// Writes `contents`. Returns kIo if writing fails, or if nobody reads a pipe for 3 seconds.
  /// Errors of stdout are not reported.
  Status Write(std::string_view contents) const;

 private:
  Output() = default;

  std::string path_;
  std::optional<OutputFile> file_;
};

/// Checks that each output can be opened (Output::Open). Also propagates errors of CheckPaths.
Status TryOutputs(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs);

class Program;  // tools/options.h

// Exit codes, which are stable.
inline constexpr int kExitDone = 0;
inline constexpr int kExitNo = 1;        // infeasible budget, invalid plan,
                                         // training diverged
inline constexpr int kExitUsage = 2;     // bad options or input
inline constexpr int kExitNoDevice = 3;  // no such device or memory
inline constexpr int kExitBug = 70;      // a bug of stowage

// Each of these functions declares one subcommand.
void AddTrain(Program& program);
void AddFinetune(Program& program);
void AddTime(Program& program);
void AddPlan(Program& program);
void AddPack(Program& program);
void AddCheck(Program& program);
void AddReport(Program& program);
void AddLock(Program& program);
void AddRun(Program& program);
void AddLedger(Program& program);
void AddTokens(Program& program);
void AddExportOnnx(Program& program);
void AddCompile(Program& program);
void AddModels(Program& program);

/// Returns the exit code for errors with this code.
int ExitCodeOf(ErrorCode code);

/// Prints `error` to stderr and returns its exit code. The middle of a message above 4 KiB is
/// omitted.
int Fail(const Error& error);
/// Sets a function that Fail calls before it prints a kRankLost error. The function can wait for
/// the reason to arrive from another rank. An empty function removes the current one.
void CallOnRankLost(std::function<void()> call);

/// Returns OK if both statuses are OK. If both are errors, returns the code of the first with both
/// messages.
Status Both(const Status& first, const Status& second);

/// Prints one line of JSON to stdout. Replaces ill-formed UTF-8 by U+FFFD.
void PrintJson(const nlohmann::ordered_json& json);

/// Returns the size that is given to `option` as `text`, or nullopt if `text` is empty. If the unit
/// is a power of 1000, such as "MB", sizes are from then on also printed in such units. Returns
/// kInvalidArgument, naming the option, if `text` is not a positive size.
Result<std::optional<Bytes>> ParseSizeOption(std::string_view option,
                                             const std::string& text);

/// Reads a file or a pipe. Returns kNotFound if there is no such file, kIo if reading fails, `path`
/// is a folder or a device, or a pipe has no writer for 3 seconds, and kInvalidArgument if the
/// contents exceed 1 GiB.
Result<std::string> ReadFile(const std::string& path);
/// Reads a text file and removes a byte order mark (U+FEFF) at its start. Propagates errors of
/// ReadFile.
Result<std::string> ReadTextFile(const std::string& path);

/// Writes `contents` to Output::Open(path). Propagates errors of Output.
Status WriteOutput(const std::string& path, std::string_view contents);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_COMMAND_H_
