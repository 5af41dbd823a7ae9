#include "tests/tools/run_stowage.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::testing {

namespace {

// Files rather than pipes: no reader has to keep up with two of them.
// A test that forks runs several at a time.
std::string OutPath() { return TempPath(StrCat("stdout.", getpid())); }
std::string ErrPath() { return TempPath(StrCat("stderr.", getpid())); }

pid_t Start(const std::vector<std::string>& arguments,
            const std::string& out_path, const RunLimits& limits = {}) {
  const std::string err_path = ErrPath();
  const std::string cache_home = TempPath("cache");
  const pid_t child = fork();
  STOWAGE_CHECK(child >= 0);
  if (child != 0) return child;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  dup2(open(out_path.c_str(), kFlags, 0600), STDOUT_FILENO);
  dup2(open(err_path.c_str(), kFlags, 0600), STDERR_FILENO);
  std::vector<char*> argv;
  std::string program = "tools/stowage";
  argv.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // The same on every machine: a GPU, if there is one, cannot be used.
  setenv("STOWAGE_CUBLASLT", "/nowhere/libcublasLt.so", 1);
  // Plans that are kept are kept here, not in the user's folder.
  setenv("XDG_CACHE_HOME", cache_home.c_str(), 1);
  if (!limits.cpu_target.empty()) {
    setenv("STOWAGE_CPU_TARGET", limits.cpu_target.c_str(), 1);
  }
  if (!limits.input.empty()) {
    dup2(open(limits.input.c_str(), O_RDONLY), STDIN_FILENO);
  }
  if (limits.largest_file > 0) {
    const auto bytes = static_cast<rlim_t>(limits.largest_file);
    const rlimit limit = {bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const int descriptor : limits.closed) close(descriptor);
  execv(program.c_str(), argv.data());
  _exit(127);
}

// Lines of progress (tools/progress.h) come by the clock: on a slow machine, or not.
std::string WithoutProgress(const std::string& err) {
  static const std::regex line(
      "(planning|evaluating|writing|answering): [0-9,]+( of [0-9,]+)? [a-z "
      "]+\n");
  return std::regex_replace(err, line, "");
}

Outcome Wait(pid_t child) {
  int status = 0;
  STOWAGE_CHECK(waitpid(child, &status, 0) == child);
  Outcome outcome;
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  outcome.out = ReadAll(OutPath());
  outcome.err = WithoutProgress(ReadAll(ErrPath()));
  return outcome;
}

}  // namespace

Outcome RunStowage(const std::vector<std::string>& arguments,
                   const RunLimits& limits) {
  return Wait(Start(arguments, OutPath(), limits));
}

Outcome RunStowageInto(const std::string& file,
                       const std::vector<std::string>& arguments) {
  Outcome outcome = Wait(Start(arguments, file));
  outcome.out.clear();
  return outcome;
}

namespace {

// Sends the signal once `is_time`, and waits.
template <typename F>
Outcome SignalOnce(pid_t child, int signal, F&& is_time) {
  while (!is_time()) {
    // It may have ended by itself, which the caller then sees.
    siginfo_t info = {};
    STOWAGE_CHECK(waitid(P_PID, static_cast<id_t>(child), &info,
                         WEXITED | WNOHANG | WNOWAIT) == 0);
    if (info.si_pid == child) return Wait(child);
    usleep(1000);
  }
  kill(child, signal);
  return Wait(child);
}

}  // namespace

Outcome RunAndSignal(const std::vector<std::string>& arguments,
                     const std::function<bool()>& is_time, int signal) {
  return SignalOnce(Start(arguments, OutPath()), signal, is_time);
}

Outcome RunAndSignal(const std::vector<std::string>& arguments,
                     const std::string& path, int signal) {
  return RunAndSignal(
      arguments, [&] { return access(path.c_str(), F_OK) == 0; }, signal);
}

Outcome RunUnreadAndSignal(const std::string& file,
                           const std::vector<std::string>& arguments,
                           int signal) {
  // For reading, too: so that a pipe can be opened before anyone reads it.
  const int end = open(file.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY);
  STOWAGE_CHECK(end >= 0);
  fcntl(end, F_SETPIPE_SZ, 4096);  // of a pipe: full the sooner
  // A terminal has no room while a write is under way, too: so it must last.
  int times = 0;
  Outcome outcome = SignalOnce(Start(arguments, file), signal, [end, &times] {
    pollfd room = {.fd = end, .events = POLLOUT, .revents = 0};
    times = poll(&room, 1, 0) == 0 ? times + 1 : 0;
    return times == 50;  // looks, a millisecond apart
  });
  close(end);
  outcome.out.clear();
  return outcome;
}

std::string TempPath(const std::string& name) {
  const char* directory = std::getenv("TEST_TMPDIR");
  return StrCat(directory != nullptr ? directory : "/tmp", "/", name);
}

std::string WriteTemp(const std::string& name, const std::string& contents) {
  const std::string path = TempPath(name);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << contents;
  out.close();
  STOWAGE_CHECK(!out.fail());
  return path;
}

std::string SomeDigits() {
  std::string csv;
  for (int row = 0; row < 60; ++row) {
    const int digit = row % 10;
    for (int pixel = 0; pixel < 64; ++pixel) {
      csv += StrCat((pixel * (digit + 1) + row / 10) % 17, ",");
    }
    csv += StrCat(digit, "\n");
  }
  return csv;
}

std::string SomeGraph() {
  return "stowage-ir 1\n"
         "graph \"small\" {\n"
         "  x: f32(64) = input\n"
         "  h: f32(64) = exp(x)\n"
         "  y: f32(64) = relu(h)\n"
         "  output \"y\" = y\n"
         "}\n";
}

std::string SomeText() {
  std::string text;
  for (int line = 0; text.size() < 4000; ++line) {
    text += StrCat("line ", line, ": the ship is stowed before it sails.\n");
  }
  return text;
}

}  // namespace stowage::testing
