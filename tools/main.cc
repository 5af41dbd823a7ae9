// The stowage program: plan, train, and judge plans, from the command line.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "base/version.h"
#include "tools/command.h"

namespace {

// A failed internal check aborts, having said so; scripts see EX_SOFTWARE.
void ExitAsBug(int) { _exit(stowage::tools::kExitBug); }

// In whichever thread memory runs out, it is no bug.
void EndOutOfMemory() {
  try {
    if (std::current_exception())
      std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kWords =
        "stowage: [memory] the system gives this process no more memory; a "
        "smaller batch or file takes less\n";
    static_cast<void>(!write(STDERR_FILENO, kWords.data(), kWords.size()));
    _exit(stowage::tools::kExitNoDevice);
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  namespace tools = stowage::tools;
  std::signal(SIGABRT, ExitAsBug);
  std::set_terminate(EndOutOfMemory);
  // A file that may not grow further is an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  // `bazel run` starts programs in a folder of its own; paths are the caller's.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY")) {
    if (chdir(folder) != 0) {
      return tools::Fail({stowage::ErrorCode::kIo,
                          "[file] the working directory cannot be entered"});
    }
  }

  CLI::App app(
      "Stowage plans every byte of a training step before the first step "
      "runs.",
      "stowage");
  app.set_version_flag("--version",
                       std::string("stowage ").append(stowage::kVersion));
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 the answer is no (budget too small, plan "
      "invalid,\ntraining diverged), 2 usage or bad input, 3 no such device or "
      "memory, 70 a bug\nin stowage, 130, 143 or 129 stopped by a signal, "
      "saved."
      "\n`stowage SUBCOMMAND --help` shows an example.");

  int exit_code = tools::kExitDone;
  tools::AddTrain(app, &exit_code);
  tools::AddTime(app, &exit_code);
  tools::AddPlan(app, &exit_code);
  tools::AddPack(app, &exit_code);
  tools::AddCheck(app, &exit_code);
  tools::AddReport(app, &exit_code);
  tools::AddModels(app, &exit_code);
  tools::CheckNumbers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return tools::kExitUsage;  // not so for help
  }
  std::cout.flush();
  if (!std::cout) {
    return tools::Fail(
        {stowage::ErrorCode::kIo, "[file] stdout cannot be written"});
  }
  return exit_code;
}
