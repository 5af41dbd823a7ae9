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

/// Declares the options of one subcommand. The name of an option begins with "--". A name that does
/// not is a positional argument. "-o,--output" is a short and a long name. If an option is given
/// twice, the last value is used, except that this is an error for outputs. The value of the
/// variable before parsing is the default, which the help shows. Values must not be empty. A value
/// that begins with "--" must be written "--name=--value", because a word that begins with "--"
/// usually follows an option whose value is missing. The variables must exist until Program::Run
/// returns.
class Options {
 public:
  /// Begins a group in the help, to which the options added next belong.
  void Group(const std::string& name);

  void Add(const std::string& name, std::string* value,
           const std::string& help);
  /// Adds an option for a file or folder that is written. It is an error to give the option twice.
  void AddOutput(const std::string& name, std::string* value,
                 const std::string& help);
  /// The following overloads of Add add an option for a number. A number must be decimal, without
  /// other characters around it. Fractions must not overflow or underflow in f32.
  void Add(const std::string& name, int64_t* value, const std::string& help);
  /// The help does not show a default of 0, so `help` must explain it.
  void Add(const std::string& name, int* value, const std::string& help);
  void Add(const std::string& name, std::optional<int64_t>* value,
           const std::string& help);
  void Add(const std::string& name, std::optional<double>* value,
           const std::string& help);
  void AddFlag(const std::string& name, bool* value, const std::string& help);
  /// Adds an option that may be repeated, each time with a value.
  void AddEach(const std::string& name, std::vector<std::string>* values,
               const std::string& help);
  /// Adds an option that is followed by up to `most` values.
  void AddSome(const std::string& name, std::vector<std::string>* values,
               int most, const std::string& help);

  /// Accepts the words after "--" as the command line of another program. The subcommand must not
  /// have verbs.
  void AddCommand(std::vector<std::string>* command);

  /// Adds a verb, which is a subcommand of the subcommand, and returns its options. If a subcommand
  /// has verbs, one of them must be given.
  Options AddVerb(const std::string& name, const std::string& description);

  // The following functions constrain options that were added earlier. Require makes an option
  // mandatory, Limit sets an inclusive range, and Exclude forbids two options together.
  void Require(const std::string& name);
  void Limit(const std::string& name, int64_t least, int64_t most);
  void Exclude(const std::string& name, const std::string& other);
  /// Makes it an error to give an option of `names` unless one of `subjects` is given. The help
  /// states this.
  void ApplyTo(const std::vector<std::string>& subjects,
               const std::vector<std::string>& names);

  /// Sets the function that runs the subcommand after parsing. It returns the exit code.
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
  /// given in the file of --config: outside of tables, in the table named after the subcommand, or
  /// in tables named after groups (Options::Group). The command line takes precedence.
  Options AddSubcommand(const std::string& name, const std::string& description,
                        const std::string& example);

  /// Runs the subcommand that `argv` names, and returns its exit code. Returns kExitDone after
  /// printing help. If an option is wrong or the subcommand is unknown, prints the error, with the
  /// most similar name, and returns kExitUsage.
  int Run(int argc, char** argv);

 private:
  int RefuseFirst(std::span<const std::string> arguments) const;
  int RefuseLeftover() const;

  std::unique_ptr<CLI::App> app_;
  Options::Commands commands_;
  std::string config_;
  int exit_code_;
};

/// Returns the options that were given to the running subcommand on the command line and in the
/// file of --config, in the form {"--lr=0.1", "--steps=9"}, sorted by name. The result is empty
/// before Program::Run.
const std::vector<std::string>& GivenOptions();

/// Returns the first of `names` that begins with `name`, if `name` has more than three characters.
/// If there is none, returns the element of `names` with the smallest edit distance to `name`
/// (Levenshtein 1966). Returns "" if this distance exceeds max(2, n / 3) for a `name` of n
/// characters. A comparison of names of m and n characters takes O(mn) time.
///
///   NearestName("--clipnorm", {"--lr", "--clip-norm"});  // "--clip-norm"
std::string NearestName(std::string_view name,
                        std::span<const std::string> names);

/// Returns "; did you mean NAME?" with the result of NearestName, or "" if that is "".
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
/// Values are strings, decimal numbers, booleans, and arrays of these. Dotted keys, inline tables,
/// arrays of tables, dates and multi-line strings are not supported.
struct ConfigEntry {
  std::string table;  // "" outside of tables
  std::string key = {};
  std::vector<std::string> values = {};  // without quotes; "true" or "false"
  bool is_array = false;
  bool is_boolean = false;
  int64_t line = 0;  // starts at 1
};

/// Returns the entries in the content of a file, in order. Returns kInvalidArgument, with the line,
/// if the TOML is invalid or not supported, or if a key occurs twice.
Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_OPTIONS_H_
