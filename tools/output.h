#ifndef STOWAGE_TOOLS_OUTPUT_H_
#define STOWAGE_TOOLS_OUTPUT_H_

// Where a command writes: a file that is replaced whole, a device or a pipe, or
// stdout. All of them are tried before the work begins.
//
//   Status tried = TryOutputs({{"output", flags.output}}, {{"data", flags.data}});
//   ...
//   Status written = WriteOutput(flags.output, text);  // tools/command.h

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/output_file.h"
#include "base/result.h"

namespace stowage::tools {

/// What an option was given; an empty path where it was not.
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

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_OUTPUT_H_
