// A run of 100,000 steps takes no more memory at its end than at its thousandth
// step. About half a minute; .ci/nightly runs it.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

// What the process has of memory that is no file's, in KiB.
int64_t AnonymousKib(pid_t process) {
  std::ifstream in(StrCat("/proc/", process, "/status"));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8));
  }
  return -1;
}

TEST_CASE("a run of 100,000 steps does not grow") {
  const std::string data = WriteTemp("digits.csv", SomeDigits());
  const std::string cache = TempPath("cache");
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    setenv("XDG_CACHE_HOME", cache.c_str(), 1);
    execl("tools/stowage", "tools/stowage", "train", "--model", "mlp", "--data",
          data.c_str(), "--steps", "100000", "--device", "cpu", "--json",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  // The run is ahead of what is read here by what a pipe holds, 64 KiB or about
  // 200 lines: so it is still there at both moments.
  FILE* const out = fdopen(ends[0], "r");
  REQUIRE(out != nullptr);
  int64_t early = 0, late = 0;
  Json last;
  char line[4096];
  for (int64_t step = 1; std::fgets(line, sizeof(line), out) != nullptr;
       ++step) {
    if (step == 1'000) early = AnonymousKib(child);
    if (step == 99'000) late = AnonymousKib(child);
    if (step > 100'000) last = Json::parse(line);
  }
  std::fclose(out);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(early > 0);
  MESSAGE("at step 1,000 ", early, " KiB, at step 99,000 ", late,
          " KiB, at most ", last["peak_rss_bytes"].get<int64_t>() / 1024,
          " KiB");
  // A byte a step would be 96 KiB.
  CHECK(late - early < 96);
  CHECK(last["steps"] == 100'000);
  CHECK(AllocatedNothing(last));
}

}  // namespace
}  // namespace stowage::testing
