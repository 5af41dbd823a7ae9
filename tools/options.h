#ifndef STOWAGE_TOOLS_OPTIONS_H_
#define STOWAGE_TOOLS_OPTIONS_H_

// Declares the subcommands of the program and their options. Options are read from the command line
// and from a TOML file (--config). Only options.cc includes CLI11, which is slow to compile.
//
//   Program program("Stowage plans every byte.", "Exit codes: ...");
//   const auto flags = std::make_shared<Flags>();
//   Options pack = program.AddSubcommand("pack", "Pack the buffers of a CSV file",
//                                        "stowage pack buffers.csv");
//   pack.Group("data");
//   pack.Add("file", &flags->file, "CSV with the header id,lower,upper,size");
//   pack.Require("file");
//   pack.OnRun([flags] { return Run(*flags); });
//   return program.Run(argc, argv);

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {

class App;

}  // namespace CLI

namespace stowage::tools {

/// The options of one subcommand. The name of an option begins with "--"; the name of a positional
/// argument does not. "-o,--output" is a short and a long name. If an option is given twice, the
/// last value counts; for outputs this is an error. The value of the variable before parsing is the
/// default, which the help shows. Values must not be empty. A value that begins with "--" must be
/// written "--name=--value", because a word that begins with "--" usually follows an option whose
/// value is missing. The variables must outlive the run of the program.
class Options {
 public:
  /// Begins a group in the help, to which the options added next belong.
  void Group(const std::string& name);

  void Add(const std::string& name, std::string* value,
           const std::string& help);
  /// Adds an option for a file or folder that is written. Giving it twice is an error.
  void AddOutput(const std::string& name, std::string* value,
                 const std::string& help);
  /// Adds an option for a number. Numbers are decimal without surrounding text. Fractions must not
  /// overflow or underflow in f32.
  void Add(const std::string& name, int64_t* value, const std::string& help);
  /// Adds an option whose default, if it is 0, is not shown. `help` explains it.
  void Add(const std::string& name, int* value, const std::string& help);
  void Add(const std::string& name, std::optional<int64_t>* value,
           const std::string& help);
  void Add(const std::string& name, std::optional<double>* value,
           const std::string& help);
  void AddFlag(const std::string& name, bool* value, const std::string& help);
  /// Adds an option that may be repeated, each time with a value.
  void AddEach(const std::string& name, std::vector<std::string>* values,
               const std::string& help);
  /// Adds an option followed by up to `most` values.
  void AddSome(const std::string& name, std::vector<std::string>* values,
               int most, const std::string& help);

  /// Accepts the words after "--" as the command of another program. The subcommand must have no
  /// verbs.
  void AddCommand(std::vector<std::string>* command);

  /// Adds a verb with its own options. A subcommand with verbs requires one of them.
  Options AddVerb(const std::string& name, const std::string& description);

  // The following constrain options that were added earlier.
  void Require(const std::string& name);
  void Limit(const std::string& name, int64_t least, int64_t most);
  void Exclude(const std::string& name, const std::string& other);
  /// Refuses options of `names` unless one of `subjects` is given. The help states this.
  void ApplyTo(const std::vector<std::string>& subjects,
               const std::vector<std::string>& names);

  /// Sets the function that runs the subcommand after parsing and returns the exit code.
  void OnRun(std::function<int()> run);

 private:
  friend class Program;
  // The words after "--" of each subcommand.
  using Commands = std::map<const CLI::App*, std::vector<std::string>*>;

  Options(CLI::App* command, int* exit_code, Commands* commands)
      : command_(command), exit_code_(exit_code), commands_(commands) {}

  struct Scope {
    std::vector<std::string> subjects, names;
  };

  CLI::App* command_;
  int* exit_code_;
  Commands* commands_;
  std::shared_ptr<std::vector<Scope>> scopes_ =
      std::make_shared<std::vector<Scope>>();
};

class Program {
 public:
  /// Creates a program whose help ends with `footer`.
  Program(const std::string& description, const std::string& footer);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Declares the subcommand `name`, with `example` at the end of its help. Its options may also be
  /// given in the file of --config: outside of tables, in the table of the subcommand, and in
  /// tables named after groups. The command line takes precedence.
  Options AddSubcommand(const std::string& name, const std::string& description,
                        const std::string& example);

  /// Runs the given subcommand and returns its exit code. Returns kExitDone for help. If an option
  /// is wrong or the subcommand is unknown, prints the error, with the nearest name, and returns
  /// kExitUsage.
  int Run(int argc, char** argv);

 private:
  int RefuseFirst(std::span<const std::string> arguments) const;
  int RefuseLeftover() const;

  std::unique_ptr<CLI::App> app_;
  Options::Commands commands_;
  std::string config_;
  int exit_code_;
};

/// Returns the options that the running subcommand was given on the command line and in the file of
/// --config, as {"--lr=0.1", "--steps=9"}, sorted by name. The result is empty before Program::Run.
const std::vector<std::string>& GivenOptions();

/// Returns the first of `names` that begins with `name`, if `name` has over three letters.
/// Otherwise returns the one at the smallest edit distance (Levenshtein 1966), or "" if the
/// distance exceeds 2 and a third of the letters of `name`. One comparison takes O(mn) time for
/// names of m and n letters.
///
///   NearestName("--clipnorm", {"--lr", "--clip-norm"});  // "--clip-norm"
std::string NearestName(std::string_view name,
                        std::span<const std::string> names);

/// Returns "; did you mean NAME?" with the nearest name, or "" if no name is near.
std::string DidYouMean(std::string_view name,
                       std::span<const std::string> names);

/// An option in a TOML 1.0 file (toml.io):
///
///   model = "gpt-nano"          # --model gpt-nano
///   no-decay = ["*.bias"]       # --no-decay '*.bias'
///   json = true                 # --json
///
///   [train]                     # of one subcommand
///   clip-norm = 1.0
///
/// Values are strings, decimal numbers, booleans, and arrays of these. Other TOML is refused:
/// dotted keys, inline tables, arrays of tables, dates and multi-line strings.
struct ConfigEntry {
  std::string table;  // "" outside of tables
  std::string key = {};
  std::vector<std::string> values = {};  // without quotes; "true" or "false"
  bool is_array = false;
  bool is_boolean = false;
  int64_t line = 0;  // starts at 1
};

/// Returns the entries of a file in order. Returns kInvalidArgument, with the line, if the TOML is
/// invalid or refused, or if a key occurs twice.
Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_OPTIONS_H_
