#ifndef STOWAGE_TOOLS_COMMAND_H_
#define STOWAGE_TOOLS_COMMAND_H_

// Shared by all subcommands: exit codes, errors, and files. Data goes to stdout, progress and
// errors to stderr. Each subcommand has an Add... function that declares it.
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

/// The path given to an option, or to a positional argument, called "the plan" and so on; ""
/// if it was not given.
struct PathOption {
  std::string_view option;
  std::string path;
};

/// Error kInvalidArgument if an output is also an input, or two outputs are one file.
Status CheckPaths(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs);

/// An output, claimed for its lifetime.
class Output {
 public:
  /// "" is stdout. Devices and pipes are written to, files replaced. Errors: those of
  /// OutputFile::Claim.
  static Result<Output> Open(const std::string& path);

  /// Errors, kIo: those of OutputFile::Replace.
  Status Write(std::string_view contents) const;

 private:
  Output() = default;

  std::string path_;
  std::optional<OutputFile> file_;
};

/// CheckPaths, and checks that each output can be written.
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

// Each declares one subcommand.
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

int ExitCodeOf(ErrorCode code);

/// Prints the error to stderr; returns its exit code.
int Fail(const Error& error);
/// Sets a function that Fail calls before it prints an error kRankLost, to receive the reason
/// from another rank; an empty one unsets it.
void CallOnRankLost(std::function<void()> call);

/// OK if both are; of two errors, the code of the first and both messages.
Status Both(const Status& first, const Status& second);

/// Prints one line of JSON to stdout; ill-formed UTF-8 becomes U+FFFD.
void PrintJson(const nlohmann::ordered_json& json);

/// The size given to an option, if any. Error kInvalidArgument, with the option: not a
/// positive size.
Result<std::optional<Bytes>> ParseSizeOption(std::string_view option,
                                             const std::string& text);

/// Reads a file or a pipe. Errors: kNotFound; kIo, also for a pipe without a writer;
/// kInvalidArgument if it is larger than 1 GiB.
Result<std::string> ReadFile(const std::string& path);
/// Reads a text, without a byte order mark (U+FEFF).
Result<std::string> ReadTextFile(const std::string& path);

/// Replaces the file at `path` by `contents`, or writes to stdout if it is "". Error kIo.
Status WriteOutput(const std::string& path, std::string_view contents);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_COMMAND_H_
