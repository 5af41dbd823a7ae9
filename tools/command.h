#ifndef STOWAGE_TOOLS_COMMAND_H_
#define STOWAGE_TOOLS_COMMAND_H_

// What the subcommands share: exit codes, how errors are printed, and files.
//
// Data goes to stdout, progress and errors to stderr. Each subcommand has a
// file of its own with an Add... function, which declares it and what it does.

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

// Where a command writes: a file that is replaced whole, a device or a pipe, or
// stdout. All of them are tried before the work begins.
//
//   Status tried = TryOutputs({{"output", flags.output}}, {{"data", flags.data}});
//   ...
//   Status written = WriteOutput(flags.output, text);  // tools/command.h

/// What an option was given, or an argument by its place, which is called "the plan" and so
/// on; an empty path where it was not.
struct PathOption {
  std::string_view option;
  std::string path;
};

/// Error, kInvalidArgument, when something that will be written is an input, or
/// two of them are one file.
Status CheckPaths(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs);

/// One place to write to, held until this is gone.
class Output {
 public:
  /// An empty path is stdout. Devices and pipes are written to, never replaced.
  /// Errors: those of OutputFile::Claim.
  static Result<Output> Open(const std::string& path);

  /// Errors, kIo: those of OutputFile::Replace.
  Status Write(std::string_view contents) const;

 private:
  Output() = default;

  std::string path_;
  std::optional<OutputFile> file_;
};

/// CheckPaths, and whether each could be written now.
Status TryOutputs(std::initializer_list<PathOption> outputs,
                  std::initializer_list<PathOption> inputs);

class Program;  // tools/options.h

// What scripts may rely on.
inline constexpr int kExitDone = 0;
inline constexpr int kExitNo = 1;        // infeasible budget, invalid plan,
                                         // training diverged
inline constexpr int kExitUsage = 2;     // bad options or input
inline constexpr int kExitNoDevice = 3;  // no such device or memory
inline constexpr int kExitBug = 70;      // ours

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
/// Has Fail make this call before it prints an error kRankLost, whose reason another rank
/// knows; an empty one ends that.
void CallOnRankLost(std::function<void()> call);

/// Success where both are; of two errors the code of the first and both messages.
Status Both(const Status& first, const Status& second);

/// Prints one line of JSON to stdout. Text that is no UTF-8 is replaced.
void PrintJson(const nlohmann::ordered_json& json);

/// The size an option was given, if it was. Error naming the option when the
/// text is no size or not positive.
Result<std::optional<Bytes>> ParseSizeOption(std::string_view option,
                                             const std::string& text);

/// The whole file, or all that a pipe gives. Errors: kNotFound; kIo, also for a pipe
/// that nobody writes to; kInvalidArgument when it is larger than 1 GiB.
Result<std::string> ReadFile(const std::string& path);
/// The same of a text, without the byte order mark (U+FEFF) that it may begin with.
Result<std::string> ReadTextFile(const std::string& path);

/// Writes `contents` to the file, replaced whole, or to stdout when `path` is empty
/// (tools/command.h). Error kIo.
Status WriteOutput(const std::string& path, std::string_view contents);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_COMMAND_H_
