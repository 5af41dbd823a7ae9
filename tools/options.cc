#include "tools/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "base/version.h"
#include "cluster/launch.h"
#include "cpu/targets.h"
#include "tools/command.h"

namespace stowage::tools {

namespace {

// Ranks started with the same options make the same error, and a launcher ends all when the
// first ends: other ranks delay their message, which is printed only if they are still there.
void WaitForFirstRank() {
  const Result<cluster::Launch> launch = cluster::ReadLaunch();
  if (!launch.ok() || launch->rank == 0) return;
  // Ending them takes seconds on a busy machine.
  std::this_thread::sleep_for(std::chrono::seconds(15));
  std::cerr << "rank " << launch->rank << ": ";
}

int FailUsage(const Error& error) {
  WaitForFirstRank();
  return Fail(error);
}

// Parses an integer of 64 bits. CLI11 would accept more, truncate large numbers, and read 010 as
// 8; so leading zeros are dropped.
std::string ReadWholeNumber(std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end) {
    return StrCat(text, " does not fit 64 bits");
  }
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return StrCat(Quoted(text), " is no whole number");
  }
  text = StrCat(value);
  return "";
}

std::string CheckNumber(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end) {
    return StrCat(text, " is no number that 64 bits can hold");
  }
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) {
    return StrCat(Quoted(text), " is no number");
  }
  const auto narrow = static_cast<float>(value);
  if ((narrow == 0) != (value == 0) || !std::isfinite(narrow)) {
    return StrCat(text, " is ", narrow == 0 ? "0" : "infinite", " in f32");
  }
  return "";
}

CLI::Validator WholeNumber() { return {ReadWholeNumber, ""}; }

// The reason why `value` of `option`, an argument of its own or after "=", is invalid; "" if it
// is valid.
std::string CheckValue(const CLI::Option& option, const std::string& name,
                       const std::string& value, bool is_apart) {
  const std::string whole =
      option.get_lnames().empty() ? name : "--" + option.get_lnames().front();
  if (value.empty()) {
    return StrCat("the value of ", name, " is empty; leave ", name,
                  " out, or give one");
  }
  if (is_apart && (value.starts_with("--") || value == "-h")) {
    return StrCat(name, " has no value before ", value, "; write ", whole, "=",
                  value, " where that is its value");
  }
  // CLI11 would make the "=" part of the value.
  if (!is_apart && !name.starts_with("--")) {
    return StrCat(name, " takes no \"=\"; write ", name, " ", value, ", or ",
                  whole, "=", value);
  }
  return "";
}

std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* const option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name);
    }
  }
  return flags;
}

std::vector<std::string> SubcommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string Joined(const std::vector<std::string>& names,
                   std::string_view between = ", ") {
  std::string joined;
  for (const std::string& name : names) {
    joined += StrCat(joined.empty() ? "" : between, name);
  }
  return joined;
}

// "--name" of "--name=value".
std::string NameOf(const std::string& argument) {
  return argument.substr(0, argument.find('='));
}

// Translates former names of flags, which work for one release, and prints a note.
constexpr std::pair<std::string_view, std::string_view> kOldNames[] = {
    {"--keep", "--recompute-keep"},
    {"--remake", "--recompute-always"},
};

void TranslateOldNames(std::span<std::string> arguments) {
  for (std::string& argument : arguments) {
    const std::string name = NameOf(argument);
    for (const auto& [before, now] : kOldNames) {
      if (name != before) continue;
      std::cerr << "stowage: " << before << " is now " << now << std::endl;
      argument = StrCat(now, argument.substr(name.size()));
    }
  }
}

const CLI::App* FindSubcommand(const CLI::App& app, std::string_view name) {
  for (const CLI::App* const command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// Checks that options with values have one, and that outputs are given once.
Status CheckValues(const CLI::App* command,
                   std::span<const std::string> arguments) {
  std::map<const CLI::Option*, std::string> outputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty()) {
      return InvalidArgumentError("an argument of ", command->get_name(),
                                  " is empty; leave it out");
    }
    if (!argument.starts_with('-')) {
      const auto* const verb = FindSubcommand(*command, argument);
      if (verb != nullptr) command = verb;
      continue;
    }
    const std::string name = NameOf(argument);
    const auto* const option = command->get_option_no_throw(name);
    if (option == nullptr || option->get_expected_max() == 0) continue;
    const bool is_apart = name.size() == argument.size();
    if (is_apart && ++i == arguments.size()) break;  // CLI11 reports it
    const std::string value =
        is_apart ? arguments[i] : argument.substr(name.size() + 1);
    const std::string wrong = CheckValue(*option, name, value, is_apart);
    if (!wrong.empty()) return InvalidArgumentError(wrong);
    if (option->get_expected_max() > 1 ||
        option->get_multi_option_policy() != CLI::MultiOptionPolicy::Throw) {
      continue;
    }
    const auto [first, is_new] = outputs.emplace(option, value);
    if (!is_new) {
      return InvalidArgumentError(name, " is given as ", Quoted(first->second),
                                  " and as ", Quoted(value),
                                  ", and one of them is written; give it once");
    }
  }
  return {};
}

constexpr std::string_view kConfig = "--config";

// The last path of --config; "" without it.
std::string ConfigPath(std::span<const std::string> arguments) {
  std::string path;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kConfig && i + 1 < arguments.size()) {
      path = arguments[i + 1];
    } else if (arguments[i].starts_with("--config=")) {
      path = arguments[i].substr(kConfig.size() + 1);
    }
  }
  return path;
}

// The options of a command line, and those that they exclude.
std::set<const CLI::Option*> Decided(const CLI::App& command,
                                     std::span<const std::string> arguments) {
  std::set<const CLI::Option*> decided;
  for (const std::string& argument : arguments) {
    if (!argument.starts_with('-')) continue;
    const auto* const option = command.get_option_no_throw(NameOf(argument));
    if (option == nullptr) continue;
    decided.insert(option);
    for (const CLI::Option* const other : option->get_excludes()) {
      decided.insert(other);
    }
  }
  return decided;
}

// An entry of a configuration file as arguments.
Result<std::vector<std::string>> ArgumentsOf(const ConfigEntry& entry,
                                             const CLI::Option& option) {
  const bool is_flag = option.get_expected_max() == 0;
  const bool takes_several = option.get_expected_max() > 1;
  if (is_flag != entry.is_boolean || (entry.is_array && !takes_several)) {
    return InvalidArgumentError("--", entry.key, " takes ",
                                is_flag         ? "true or false"
                                : takes_several ? "a value or an array"
                                                : "one value",
                                ", and no ",
                                entry.is_array     ? "array"
                                : entry.is_boolean ? "true or false"
                                                   : "other value");
  }
  if (is_flag) {
    return entry.values[0] == "true"
               ? std::vector<std::string>{"--" + entry.key}
               : std::vector<std::string>{};
  }
  std::vector<std::string> arguments;
  for (const std::string& value : entry.values) {
    arguments.push_back("--" + entry.key);
    arguments.push_back(value);
  }
  return arguments;
}

// The arguments for `command` in the file of --config, except those given on the command line.
Result<std::vector<std::string>> ConfigArguments(
    const CLI::App& command, std::span<const std::string> arguments) {
  std::vector<std::string> all;
  const std::string path = ConfigPath(arguments);
  if (path.empty()) return all;
  const auto in_file = [&](const Error& error) {
    return Error{
        error.code,
        StrCat(error.message, "; in the file of --config, ", Quoted(path))};
  };
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  const Result<std::vector<ConfigEntry>> entries = ParseConfig(text);
  if (!entries.ok()) return in_file(entries.error());
  const std::vector<std::string> commands =
      SubcommandsOf(*command.get_parent());
  std::vector<std::string> tables = commands;
  std::ranges::copy(command.get_groups(), std::back_inserter(tables));
  const std::set<const CLI::Option*> decided = Decided(command, arguments);
  for (const ConfigEntry& entry : *entries) {
    const auto refuse = [&](const std::string& what) {
      return in_file(
          InvalidArgumentError("[config] line ", entry.line, ": ", what));
    };
    if (!entry.table.empty() &&
        std::ranges::find(tables, entry.table) == tables.end()) {
      return refuse(StrCat("table ", Quoted(entry.table),
                           " is no subcommand and no group of flags",
                           DidYouMean(entry.table, tables)));
    }
    const bool is_of_other =
        entry.table != command.get_name() &&
        std::ranges::find(commands, entry.table) != commands.end();
    if (is_of_other) continue;
    const std::string flag = "--" + entry.key;
    const CLI::Option* const option = command.get_option_no_throw(flag);
    if (option == nullptr || flag == kConfig) {
      return refuse(StrCat(command.get_name(), " has no flag ", flag,
                           " that a file could set",
                           DidYouMean(flag, FlagsOf(command))));
    }
    if (decided.contains(option)) continue;
    const auto read = ArgumentsOf(entry, *option);
    if (!read.ok()) return refuse(read.error().message);
    std::ranges::copy(*read, std::back_inserter(all));
  }
  return all;
}

}  // namespace

void Options::Group(const std::string& name) {
  command_->option_defaults()->group(name);
}

void Options::Add(const std::string& name, std::string* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)->capture_default_str();
}

void Options::AddOutput(const std::string& name, std::string* value,
                        const std::string& help) {
  Add(name, value, help);
  command_->get_option(name.substr(name.find(',') + 1))
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

void Options::Add(const std::string& name, int* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)->transform(WholeNumber());
}

void Options::Add(const std::string& name, int64_t* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)
      ->capture_default_str()
      ->transform(WholeNumber());
}

void Options::Add(const std::string& name, std::optional<int64_t>* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)->transform(WholeNumber());
}

void Options::Add(const std::string& name, std::optional<double>* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)->check(CheckNumber);
}

void Options::AddFlag(const std::string& name, bool* value,
                      const std::string& help) {
  command_->add_flag(name, *value, help);
}

void Options::AddEach(const std::string& name, std::vector<std::string>* values,
                      const std::string& help) {
  command_->add_option(name, *values, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

void Options::AddSome(const std::string& name, std::vector<std::string>* values,
                      int most, const std::string& help) {
  command_->add_option(name, *values, help)
      ->expected(1, most)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

void Options::AddCommand(std::vector<std::string>* command) {
  commands_->emplace(command_, command);
}

Options Options::AddVerb(const std::string& name,
                         const std::string& description) {
  command_->require_subcommand(1);
  return Options(command_->add_subcommand(name, description), exit_code_,
                 commands_);
}

void Options::Require(const std::string& name) {
  command_->get_option(name)->required();
}

void Options::Limit(const std::string& name, int64_t least, int64_t most) {
  command_->get_option(name)->check(CLI::Range(least, most));
}

void Options::Exclude(const std::string& name, const std::string& other) {
  command_->get_option(name)->excludes(command_->get_option(other));
}

void Options::ApplyTo(const std::vector<std::string>& subjects,
                      const std::vector<std::string>& names) {
  scopes_->push_back({subjects, names});
  for (const std::string& name : names) {
    CLI::Option* const option = command_->get_option(name);
    option->description(StrCat(option->get_description(), "; only with ",
                               Joined(subjects, " or ")));
  }
}

void Options::OnRun(std::function<int()> run) {
  const auto check = [command = command_, scopes = scopes_]() -> Status {
    const auto is_given = [&](const std::string& name) {
      return command->get_option(name)->count() > 0;
    };
    for (const auto& [subjects, names] : *scopes) {
      if (std::ranges::any_of(subjects, is_given)) continue;
      const auto unused = std::ranges::find_if(names, is_given);
      if (unused == names.end()) continue;
      return InvalidArgumentError(*unused, " applies where ",
                                  Joined(subjects, " or "),
                                  " is given; leave it out");
    }
    return {};
  };
  command_->callback([check, run = std::move(run), exit_code = exit_code_] {
    const Status applies = check();
    *exit_code = applies.ok() ? run() : FailUsage(applies.error());
  });
}

Program::Program(const std::string& description, const std::string& footer)
    : app_(std::make_unique<CLI::App>(description, "stowage")),
      exit_code_(kExitDone) {
  app_->set_version_flag("--version", StrCat("stowage ", kVersion));
  app_->require_subcommand(1);
  app_->footer(footer);
}

Program::~Program() = default;

Options Program::AddSubcommand(const std::string& name,
                               const std::string& description,
                               const std::string& example) {
  CLI::App* const command = app_->add_subcommand(name, description);
  command->footer("Example:\n  " + example);
  // Of an option given twice, the last counts, as scripts expect.
  command->option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  command->add_option(
      std::string(kConfig), config_,
      "Read flags from this TOML file, such as no-decay = [\"*.bias\"]; flags "
      "on the command line take precedence");
  return Options(command, &exit_code_, &commands_);
}

// Prints that a subcommand must come first, with the list of them.
int Program::RefuseFirst(std::span<const std::string> arguments) const {
  const std::vector<std::string> names = SubcommandsOf(*app_);
  const std::string there_are =
      StrCat("there are ", Joined(names),
             "; `stowage --help` says what each of them does");
  if (arguments.empty()) {
    return FailUsage(
        InvalidArgumentError("no subcommand is given; ", there_are));
  }
  const std::string& first = arguments.front();
  const bool is_flag = first.starts_with('-');
  return FailUsage(InvalidArgumentError(
      "there is no ", is_flag ? "flag " : "subcommand ", Quoted(first),
      is_flag ? " before a subcommand" : "", "; ", there_are,
      DidYouMean(first, is_flag ? FlagsOf(*app_) : names)));
}

namespace {

std::vector<std::string>& Given() {
  static std::vector<std::string> given;
  return given;
}

// Sets GivenOptions from the `arguments` after the subcommand.
std::vector<std::string> GivenWords(const CLI::App& command,
                                    std::span<const std::string> arguments) {
  std::vector<std::pair<std::string, std::string>> given;  // name and word
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string name = NameOf(argument);
    const auto* const option =
        argument.starts_with('-') ? command.get_option_no_throw(name) : nullptr;
    const bool takes_next = option != nullptr && name == argument &&
                            option->get_expected_max() > 0 &&
                            i + 1 < arguments.size();
    std::string word = argument;
    if (takes_next) word += StrCat("=", arguments[++i]);
    given.emplace_back(option == nullptr ? "" : option->get_name(),
                       std::move(word));
  }
  std::ranges::stable_sort(given, {},
                           &std::pair<std::string, std::string>::first);
  std::vector<std::string> words;
  for (auto& [name, word] : given) {
    if (name != kConfig) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

const std::vector<std::string>& GivenOptions() { return Given(); }

// Refuses arguments that no option takes; kExitDone if there are none.
int Program::RefuseLeftover() const {
  const CLI::App* command = app_.get();
  std::string name;  // "tokens encode"
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += StrCat(name.empty() ? "" : " ", command->get_name());
  }
  for (const std::string& argument : app_->remaining(true)) {
    const std::string help = StrCat(
        commands_.contains(command) ? "; the command to run stands behind --"
                                    : "",
        "; `stowage ", name, " --help` lists what there is");
    if (!argument.starts_with('-')) {
      return FailUsage(InvalidArgumentError(name, " takes no argument ",
                                            Quoted(argument), help));
    }
    return FailUsage(
        InvalidArgumentError(name, " has no flag ", NameOf(argument), help,
                             DidYouMean(NameOf(argument), FlagsOf(*command))));
  }
  return kExitDone;
}

int Program::Run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const CLI::App* const command =
      arguments.empty() ? nullptr : FindSubcommand(*app_, arguments.front());
  const bool is_own_flag =
      !arguments.empty() && arguments.front().starts_with('-') &&
      app_->get_option_no_throw(NameOf(arguments.front())) != nullptr;
  if (command == nullptr && !is_own_flag) return RefuseFirst(arguments);
  if (command != nullptr) {
    const auto behind = commands_.find(command);
    const auto mark = std::ranges::find(arguments, "--");
    if (behind != commands_.end() && mark != arguments.end()) {
      behind->second->assign(mark + 1, arguments.end());
      arguments.erase(mark, arguments.end());
    }
    TranslateOldNames(arguments);
    const Result<std::vector<std::string>> from_file =
        ConfigArguments(*command, std::span(arguments).subspan(1));
    if (!from_file.ok()) return FailUsage(from_file.error());
    arguments.insert(arguments.begin() + 1, from_file->begin(),
                     from_file->end());
    const Status values = CheckValues(command, std::span(arguments).subspan(1));
    if (!values.ok()) return FailUsage(values.error());
    Given() = GivenWords(*command, std::span(arguments).subspan(1));
  }
  try {
    std::ranges::reverse(arguments);  // the order of CLI11's parse()
    app_->parse(std::move(arguments));
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    const Result<std::string> target = cpu::DescribeCpuTarget();
    if (!target.ok()) return Fail(target.error());
    std::cout << "CPU kernels: " << *target << "\n";
    return kExitDone;
  } catch (const CLI::ExtrasError&) {
    return RefuseLeftover();
  } catch (const CLI::RequiredError& error) {
    // A required flag that is misspelt is an unknown one: report that instead.
    if (RefuseLeftover() == kExitDone) {
      WaitForFirstRank();
      app_->exit(error);
    }
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == 0;
    if (!is_help) WaitForFirstRank();
    app_->exit(error);
    if (!is_help) return kExitUsage;
  }
  return exit_code_;
}

namespace {

// The number of letters to insert, remove or replace.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(std::string_view name,
                        std::span<const std::string> names) {
  std::string nearest;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& known : names) {
    const size_t distance = known.starts_with(name) && name.size() > 3
                                ? 0
                                : EditDistance(name, known);
    if (distance >= least) continue;
    least = distance;
    nearest = known;
  }
  return nearest;
}

std::string DidYouMean(std::string_view name,
                       std::span<const std::string> names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : StrCat("; did you mean ", nearest, "?");
}

}  // namespace stowage::tools
