#include "tests/tools/run_stowage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/strings.h"

namespace stowage::testing {

namespace {

// Runs it with stdout going to this file.
Outcome Run(const std::string& out_path,
            const std::vector<std::string>& arguments,
            const RunLimits& limits = {}) {
  // Files rather than pipes: no reader has to keep up with two of them.
  const std::string err_path = TempPath("stderr");
  const std::string cache_home = TempPath("cache");
  const pid_t child = fork();
  STOWAGE_CHECK(child >= 0);
  if (child == 0) {
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
    if (limits.largest_file > 0) {
      const auto bytes = static_cast<rlim_t>(limits.largest_file);
      const rlimit limit = {bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  STOWAGE_CHECK(waitpid(child, &status, 0) == child);
  Outcome outcome;
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  outcome.err = ReadAll(err_path);
  return outcome;
}

}  // namespace

Outcome RunStowage(const std::vector<std::string>& arguments,
                   const RunLimits& limits) {
  const std::string out_path = TempPath("stdout");
  Outcome outcome = Run(out_path, arguments, limits);
  outcome.out = ReadAll(out_path);
  return outcome;
}

Outcome RunStowageInto(const std::string& file,
                       const std::vector<std::string>& arguments) {
  return Run(file, arguments);
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

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream contents;
  contents << in.rdbuf();
  return contents.str();
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

std::string SomeText() {
  std::string text;
  for (int line = 0; text.size() < 4000; ++line) {
    text += StrCat("line ", line, ": the ship is stowed before it sails.\n");
  }
  return text;
}

}  // namespace stowage::testing
