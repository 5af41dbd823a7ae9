#ifndef STOWAGE_TOOLS_OPTIONS_H_
#define STOWAGE_TOOLS_OPTIONS_H_

// The subcommands of the program and their options, from the command line and from a TOML file
// (--config). Only options.cc includes CLI11, which is slow to compile.
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

/// The options of one subcommand. Names begin with "--", those of positional arguments do not;
/// "-o,--output" is short and long. Of an option given twice the last counts, except for
/// outputs. The value before parsing is the default, which help shows. Values are not empty;
/// one that begins with "--" must be written "--name=--value", since it is usually a missing
/// value. The variables must live until the program has run.
class Options {
 public:
  /// Begins a group of the help, for the options added next.
  void Group(const std::string& name);

  void Add(const std::string& name, std::string* value,
           const std::string& help);
  /// A file or folder that is written; giving it twice is an error.
  void AddOutput(const std::string& name, std::string* value,
                 const std::string& help);
  /// Numbers are decimal without surrounding text; fractions must not overflow or
  /// underflow in f32.
  void Add(const std::string& name, int64_t* value, const std::string& help);
  /// The default 0 is not shown; `help` explains it.
  void Add(const std::string& name, int* value, const std::string& help);
  void Add(const std::string& name, std::optional<int64_t>* value,
           const std::string& help);
  void Add(const std::string& name, std::optional<double>* value,
           const std::string& help);
  void AddFlag(const std::string& name, bool* value, const std::string& help);
  /// An option that may be repeated, each time with a value.
  void AddEach(const std::string& name, std::vector<std::string>* values,
               const std::string& help);
  /// An option followed by up to `most` values.
  void AddSome(const std::string& name, std::vector<std::string>* values,
               int most, const std::string& help);

  /// Takes the words after "--" as another program's command. Precondition: no verbs.
  void AddCommand(std::vector<std::string>* command);

  /// Adds a verb, with options of its own; the subcommand then requires one.
  Options AddVerb(const std::string& name, const std::string& description);

  // Constraints on options added before.
  void Require(const std::string& name);
  void Limit(const std::string& name, int64_t least, int64_t most);
  void Exclude(const std::string& name, const std::string& other);
  /// Refuses options of `names` unless one of `subjects` is given; help states this.
  void ApplyTo(const std::vector<std::string>& subjects,
               const std::vector<std::string>& names);

  /// Sets the function of the subcommand, called after parsing; it returns the exit code.
  void OnRun(std::function<int()> run);

 private:
  friend class Program;
  // By subcommand, the words after "--".
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
  /// `footer` ends the program's help.
  Program(const std::string& description, const std::string& footer);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Declares the subcommand `name`, with `example` at the end of its help. Its options may also
  /// be in the file of --config: outside of tables, in its own table, and in tables named like a
  /// group. The command line takes precedence.
  Options AddSubcommand(const std::string& name, const std::string& description,
                        const std::string& example);

  /// Runs the given subcommand and returns its exit code; kExitDone for help; kExitUsage, after
  /// printing the error, if options are wrong or the subcommand is unknown, with the nearest
  /// name.
  int Run(int argc, char** argv);

 private:
  int RefuseFirst(std::span<const std::string> arguments) const;
  int RefuseLeftover() const;

  std::unique_ptr<CLI::App> app_;
  Options::Commands commands_;
  std::string config_;
  int exit_code_;
};

/// The options that the running subcommand was given on the command line and in the file of
/// --config, as {"--lr=0.1", "--steps=9"}, sorted by name. Empty before Program::Run.
const std::vector<std::string>& GivenOptions();

/// The name of `names` that begins with `name`, or differs from it by the fewest edits
/// (Levenshtein 1966); "" if that is more than a third of its letters. Takes time proportional
/// to the product of the lengths.
///
///   NearestName("--clipnorm", {"--lr", "--clip-norm"});  // "--clip-norm"
std::string NearestName(std::string_view name,
                        std::span<const std::string> names);

/// "; did you mean NAME?" with the nearest name, or "".
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
/// Values are strings, decimal numbers, booleans, and arrays of these; the rest of TOML is
/// refused: dotted keys, inline tables, arrays of tables, dates, multi-line strings.
struct ConfigEntry {
  std::string table;  // "" for none
  std::string key = {};
  std::vector<std::string> values = {};  // without quotes; "true" or "false"
  bool is_array = false;
  bool is_boolean = false;
  int64_t line = 0;  // counts from 1
};

/// The entries of a file in order. Error kInvalidArgument, with the line: invalid or refused
/// TOML, and duplicate keys.
Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_OPTIONS_H_
