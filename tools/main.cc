// The stowage program: plans, trains and checks plans, from the command line.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "base/memory.h"
#include "base/strings.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/stop_signals.h"

namespace {

// A failed internal check prints a message and aborts; scripts see EX_SOFTWARE.
void ExitAsBug(int) { _exit(stowage::tools::kExitBug); }

// Opens /dev/null for a closed stdin, stdout or stderr: otherwise the first file opened would
// get its descriptor, and receive the output.
void OpenStandardDescriptors() {
  int descriptor = 0;
  while (descriptor <= STDERR_FILENO) {
    descriptor = open("/dev/null", O_RDWR);
    if (descriptor < 0) return;
  }
  close(descriptor);
}

void EndWithoutDevice(std::string_view words) {
  static_cast<void>(!write(STDERR_FILENO, words.data(), words.size()));
  _exit(stowage::tools::kExitNoDevice);
}

// The number of threads of this process, and the limit of its user, for a message.
std::string ThreadsText() {
  std::string text = "this process has ";
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kThreads = "Threads:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kThreads)) continue;
    line.erase(0, line.find_first_not_of(" \t", kThreads.size()));
    text += line;
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += stowage::StrCat(", its user may have ", limit.rlim_cur,
                            " in all processes (ulimit -u)");
  }
  std::ifstream group("/sys/fs/cgroup/pids.max");
  std::string most;
  if (std::getline(group, most) && most != "max") {
    text += stowage::StrCat(", its container ", most, " (pids.max)");
  }
  return text;
}

// Running out of memory or threads is no bug, in any thread.
void EndOutOfResources() {
  try {
    if (std::current_exception())
      std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    EndWithoutDevice(
        "stowage: [memory] the system gives this process no more memory; a "
        "smaller batch or file takes less\n");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      EndWithoutDevice(stowage::StrCat(
          "stowage: [threads] the system gives this process no more threads: ",
          ThreadsText(), "; ask for fewer by --threads, or raise the limit\n"));
    }
  } catch (...) {
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  namespace tools = stowage::tools;
  OpenStandardDescriptors();
  std::signal(SIGABRT, ExitAsBug);
  std::set_terminate(EndOutOfResources);
  stowage::KeepLargeBlocksApart();
  // A file size limit becomes an error of the write, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  tools::StoppableOutput out(std::cout, STDOUT_FILENO);
  tools::StoppableOutput err(std::cerr, STDERR_FILENO);
  // `bazel run` starts programs in its own folder, but paths are relative to the caller's. In
  // another folder, the variable was inherited from a script that Bazel runs.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY")) {
    std::error_code failed;
    const std::string here = std::filesystem::current_path(failed).string();
    if (here.find(".runfiles/") != std::string::npos && chdir(folder) != 0) {
      return tools::Fail({stowage::ErrorCode::kIo,
                          "[file] the working directory cannot be entered"});
    }
  }

  stowage::KeepInputs();
  tools::Program program(
      "Stowage plans every byte of a training step before the first step "
      "runs.",
      "Exit codes: 0 done, 1 the answer is no (budget too small, plan "
      "invalid,\ntraining diverged), 2 usage or bad input, 3 no such device or "
      "memory, a rank\nwas lost, 70 a bug in stowage, 130, 143 or 129 stopped "
      "by a signal, saved."
      "\n`stowage SUBCOMMAND --help` shows an example.");
  tools::AddTrain(program);
  tools::AddFinetune(program);
  tools::AddTime(program);
  tools::AddPlan(program);
  tools::AddPack(program);
  tools::AddCheck(program);
  tools::AddReport(program);
  tools::AddLock(program);
  tools::AddCompile(program);
  tools::AddRun(program);
  tools::AddLedger(program);
  tools::AddTokens(program);
  tools::AddExportOnnx(program);
  tools::AddModels(program);
  const int exit_code = program.Run(argc, argv);
  std::cout.flush();
  // A run stopped by a closed pipe has reported it already.
  if (!std::cout && exit_code <= 128) {
    return tools::Fail(
        {stowage::ErrorCode::kIo, "[file] stdout cannot be written"});
  }
  return exit_code;
}
