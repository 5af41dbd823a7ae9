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

/// The options of one subcommand. A name begins with -- or, of what is told by its
/// place, does not; "-o,--output" is short and long. What is given twice counts as
/// given last, as scripts expect, but for outputs. A value that is there before is the
/// default, and help shows it. A value is not empty, and one that begins with -- stands behind "=" alone, since most often a
/// value was left out there. The values must live until the program has run.
class Options {
 public:
  /// The part of the help that what is added from here on stands in.
  void Group(const std::string& name);

  void Add(const std::string& name, std::string* value,
           const std::string& help);
  /// A file or folder that is written. Two of them are refused, lest one be given and not
  /// be written.
  void AddOutput(const std::string& name, std::string* value,
                 const std::string& help);
  /// Numbers are written in decimal, with nothing before or behind them; those with a
  /// fraction are for 32 bits, too.
  void Add(const std::string& name, int64_t* value, const std::string& help);
  /// Its default is not shown: 0, for what `help` says.
  void Add(const std::string& name, int* value, const std::string& help);
  void Add(const std::string& name, std::optional<int64_t>* value,
           const std::string& help);
  void Add(const std::string& name, std::optional<double>* value,
           const std::string& help);
  void AddFlag(const std::string& name, bool* value, const std::string& help);
  /// One that may be repeated, each time with a value.
  void AddEach(const std::string& name, std::vector<std::string>* values,
               const std::string& help);
  /// One that is followed by up to `most` values.
  void AddSome(const std::string& name, std::vector<std::string>* values,
               int most, const std::string& help);

  /// The words behind "--" are another program's: no option is read from them. Only of a
  /// subcommand without verbs.
  void AddCommand(std::vector<std::string>* command);

  /// A verb behind the subcommand, which takes one of them then, with options of its
  /// own.
  Options AddVerb(const std::string& name, const std::string& description);

  // Of options that were added before.
  void Require(const std::string& name);
  void Limit(const std::string& name, int64_t least, int64_t most);
  void Exclude(const std::string& name, const std::string& other);
  /// What is given of `names` where none of `subjects` is, is refused; help says so.
  void ApplyTo(const std::vector<std::string>& subjects,
               const std::vector<std::string>& names);

  /// What the subcommand does, once its options are read; returns its exit code.
  void OnRun(std::function<int()> run);

 private:
  friend class Program;
  // Of a subcommand, the words behind "--".
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
  /// `footer` stands below the program's help.
  Program(const std::string& description, const std::string& footer);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Declares the subcommand `name`, which shows `example` below its help and reads any
  /// of its flags from --config (tools/options.h): those of no table, of its own and
  /// of tables called as a group. Flags on the command line take their place.
  Options AddSubcommand(const std::string& name, const std::string& description,
                        const std::string& example);

  /// Runs the subcommand asked for; returns its exit code, kExitUsage, having said
  /// why, when there is none or its options are wrong, and kExitDone for help. Of a name
  /// that is not known it says the nearest.
  int Run(int argc, char** argv);

 private:
  int RefuseFirst(std::span<const std::string> arguments) const;
  int RefuseLeftover() const;

  std::unique_ptr<CLI::App> app_;
  Options::Commands commands_;
  std::string config_;
  int exit_code_;
};

/// The options that the running subcommand was given, from the command line and from the
/// file of --config, as words, {"--lr=0.1", "--steps=9"}, by their names, each as often as it
/// was given. Empty before Program::Run.
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
