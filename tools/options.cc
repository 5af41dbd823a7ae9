#include "tools/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "base/version.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

// Digits, after a minus or not, that fit 64 bits; CLI11 takes more, and cuts off
// what does not fit.
std::string CheckWholeNumber(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end) {
    return StrCat(text, " does not fit 64 bits");
  }
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return StrCat(Quoted(text), " is no whole number");
  }
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
  return "";
}

}  // namespace

void Options::Add(const std::string& name, std::string* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)->capture_default_str();
}

void Options::Add(const std::string& name, int* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)->check(CheckWholeNumber);
}

void Options::Add(const std::string& name, int64_t* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)
      ->capture_default_str()
      ->check(CheckWholeNumber);
}

void Options::Add(const std::string& name, std::optional<int64_t>* value,
                  const std::string& help) {
  command_->add_option(name, *value, help)->check(CheckWholeNumber);
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
  command_->add_option(name, *values, help)->expected(1, most);
}

Options Options::AddVerb(const std::string& name,
                         const std::string& description) {
  command_->require_subcommand(1);
  return Options(command_->add_subcommand(name, description), exit_code_);
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

void Options::OnRun(std::function<int()> run) {
  command_->callback(
      [run = std::move(run), exit_code = exit_code_] { *exit_code = run(); });
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
  // An option given twice means what was given last, as scripts expect.
  command->option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  return Options(command, &exit_code_);
}

int Program::Run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app_->exit(error) != 0) return kExitUsage;  // not so for help
  }
  return exit_code_;
}

}  // namespace stowage::tools
