// tools/gpu_check.sh with programs in place of the real ones: what it runs, how
// it ends, and what it writes.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/strings.h"
#include "tests/support/files.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;

// Says that it ran, writes its file, and ends with $STATUS.
constexpr char kChecks[] = R"(echo "checks $*" >>ran
[[ $4 == *.checks.json ]] && echo '{"rows": []}' >"$4"
echo 'ops f32  ok'
[[ ${STATUS:-0} != 3 ]] || echo 'no driver' >&2
exit "${STATUS:-0}")";

// Runs what it is given, and complains as the tool $BAD_TOOL.
constexpr char kSanitizer[] = R"(echo "sanitizer $2" >>ran
if [[ $2 == "${BAD_TOOL-}" ]]; then
  echo "=========     at ${BAD_KERNEL-stowage::SoftmaxRows}"
  echo '========= ERROR SUMMARY: 3 errors'
  exit 99
fi
while [[ $1 == --* ]]; do shift 2; done
"$@" >/dev/null
echo '========= ERROR SUMMARY: 0 errors')";

// Nsight Compute, of three launches by two kernels.
constexpr char kNcu[] = R"(echo "ncu $*" >>ran
while [[ $1 == --* ]]; do
  [[ $1 != --log-file ]] || file=$2
  if [[ $1 == --csv ]]; then shift; else shift 2; fi
done
"$@" >/dev/null
head='"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
{
  echo '==PROF== Connected to process 7'
  echo "$head"
  for launch in '0 add(float, int) 2,000 8,000 50' '1 gemm 9,000 1,000,000 25.5' \
    '2 add(float, int) 4,000 4,000 100'; do
    warps=${launch##* } launch=${launch% *}
    bytes=${launch##* } launch=${launch% *}
    time=${launch##* } launch=${launch% *}
    name="\"${launch%% *}\",\"${launch#* }\""
    echo "$name,\"gpu__time_duration.sum\",\"ns\",\"$time\""
    echo "$name,\"dram__bytes.sum\",\"byte\",\"$bytes\""
    echo "$name,\"sm__warps_active.avg.pct_of_peak_sustained_active\",\"%\",\"$warps\""
  done
} >"$file")";

// A Python with PyTorch.
constexpr char kPython[] = R"([[ $1 != -c ]] || exit 0
shift
echo "python $*" >>ran
echo '{"median_step_seconds": 0.05, "tokens_per_second": 327680.0,' \
  '"max_memory_allocated_bytes": 2e10, "max_memory_reserved_bytes": 21000000000}')";

// The project's folder, as far as the script looks at it, in a folder that is
// gone afterwards.
class Machine {
 public:
  Machine() {
    const char* const parent = std::getenv("TEST_TMPDIR");
    folder_ = fs::path(parent != nullptr ? parent : "/tmp") / "gpu_check";
    fs::remove_all(folder_);
    for (const char* name : {"bin", "tools", "bench"}) {
      fs::create_directories(folder_ / name);
    }
    fs::copy_file("tools/gpu_check.sh", folder_ / "tools/gpu_check.sh");
    std::ofstream(folder_ / "bench/pytorch_gpt2.py") << "";
    Add("checks", kChecks);
    Add("compute-sanitizer", kSanitizer);
    Add("python", "exit 1");
  }
  ~Machine() { fs::remove_all(folder_); }

  // Puts a program on the PATH.
  void Add(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / "bin" / name;
    std::ofstream(path) << "#!/usr/bin/env bash\n" << text << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }

  // Runs the script with these words, after settings such as "STATUS=1"; returns
  // how it ended.
  int Run(const std::string& words, const std::string& settings = "") {
    const std::string command =
        StrCat("cd '", folder_.string(),
               "' && env -u CUDA_HOME PATH=\"$PWD/bin:$PATH\"",
               " PYTHON=\"$PWD/bin/python\" ", settings,
               " bash tools/gpu_check.sh ", words, " >out 2>err");
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string Text(const std::string& file) const {
    return ReadAll(folder_ / file);
  }
  nlohmann::json Json(const std::string& file = "gpu_check.json") const {
    return nlohmann::json::parse(Text(file), nullptr,
                                 /*allow_exceptions=*/false);
  }
  // How many lines of `file` begin so.
  int Count(const std::string& file, const std::string& beginning) const {
    std::istringstream lines(Text(file));
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
      count += line.starts_with(beginning) ? 1 : 0;
    }
    return count;
  }
  bool Prints(const std::string& text) const {
    return Text("out").find(text) != std::string::npos;
  }

 private:
  fs::path folder_;
};

TEST_CASE("the checks run alone, then under every sanitizer") {
  Machine machine;
  REQUIRE(machine.Run("--binary bin/checks --quick") == 0);
  CHECK(machine.Count("ran", "checks --size quick -o ") == 1);
  CHECK(machine.Count("ran", "checks --size small --only ops,models") == 2);
  CHECK(machine.Count("ran", "checks --size small --only ops") == 3);
  CHECK(machine.Count("ran", "sanitizer ") == 3);
  CHECK(machine.Count("out", "ops f32  ok") == 1);
  for (const char* tool : {"memcheck", "racecheck", "initcheck"}) {
    CHECK(machine.Count("out", StrCat("sanitizer ", tool)) == 1);
  }
  CHECK(machine.Prints("  ERROR SUMMARY: 0 errors"));
  CHECK(machine.Count("out", "pytorch                       skipped") == 1);
  const auto json = machine.Json();
  CHECK(json["failed"] == false);
  CHECK(json["complete"] == true);
  CHECK(json["checks"]["rows"].empty());
  CHECK(json["beside"].size() == 5);
  CHECK(json["beside"][0]["name"] == "ncu");
  CHECK(json["beside"][3]["name"] == "sanitizer racecheck");
}

TEST_CASE("parts can be left out, and the file be another") {
  Machine machine;
  REQUIRE(machine.Run("--binary bin/checks --only checks -o x.y") == 0);
  CHECK(machine.Count("ran", "") == 1);
  CHECK(machine.Json("x.y")["beside"].empty());
  CHECK(machine.Json("x.y")["checks"]["rows"].empty());
  REQUIRE(
      machine.Run("--binary bin/checks --only checks --skip 'ops bf16 1-100' "
                  "--skip growth") == 0);
  CHECK(machine.Count("ran",
                      "checks --size full -o gpu_check.checks.json --apart "
                      "--skip ops bf16 1-100 --skip growth") == 1);
  REQUIRE(machine.Run("--binary bin/checks --only checks --timeout 30 "
                      "--seconds 500") == 0);
  CHECK(machine.Count("ran",
                      "checks --size full -o gpu_check.checks.json --apart "
                      "--timeout 30 --seconds 500") == 1);
  REQUIRE(machine.Run("--binary bin/checks --only sanitizer,pytorch") == 0);
  CHECK(machine.Count("ran", "checks --size full") == 3);
  CHECK(machine.Json()["checks"].is_null());
  CHECK(machine.Json()["beside"].size() == 4);
}

TEST_CASE("a run that is cut off leaves the rows that it has found") {
  Machine machine;
  machine.Add("checks",
              "echo '{\"rows\": [1]}' >\"$4\"; "
              "read -r _ _ _ script _ </proc/$PPID/stat; kill -9 $script; "
              "sleep 1");
  CHECK(machine.Run("--binary bin/checks") != 0);
  CHECK(machine.Json("gpu_check.checks.json")["rows"].size() == 1);
  machine.Add("checks", kChecks);
  machine.Add("compute-sanitizer",
              "read -r _ _ _ script _ </proc/$PPID/stat; kill -9 $script");
  CHECK(machine.Run("--binary bin/checks") != 0);
  const auto json = machine.Json();
  CHECK(json["complete"] == false);
  CHECK(json["checks"]["rows"].empty());
  CHECK(json["beside"].size() == 2);
}

TEST_CASE("checks that do not end are stopped, and the rest runs") {
  Machine machine;
  // As it is told: a second after its time it is killed, if it has not ended by then.
  machine.Add("timeout",
              R"([[ $1 == --kill-after=* ]] || exec /usr/bin/timeout "$@"
echo "limit $2" >>ran
shift 2
exec /usr/bin/timeout --kill-after=1 1 "$@")");
  machine.Add("checks", R"([[ $4 == *.checks.json ]] || exit 0
echo '{"rows": [1]}' >"$4"
trap '' TERM
while :; do sleep 0.1; done)");
  CHECK(machine.Run("--binary bin/checks --only checks,sanitizer") == 1);
  CHECK(machine.Count("ran", "limit 1200") == 1);
  CHECK(machine.Count("out", "device_check                  FAIL") == 1);
  CHECK(machine.Prints("was stopped after 1200 seconds"));
  CHECK(machine.Count("out", "sanitizer memcheck            ok") == 1);
  CHECK(machine.Json()["checks"]["rows"].size() == 1);
}

TEST_CASE("a run goes on where another was cut off") {
  Machine machine;
  machine.Add("checks", "echo '{\"rows\": [1]}' >\"$4\"");
  machine.Add("python", kPython);
  REQUIRE(machine.Run("--binary bin/checks --only checks") == 0);
  // Another part, the rows of the first kept.
  machine.Add("checks", kChecks);
  REQUIRE(machine.Run("--binary bin/checks --only pytorch --resume") == 0);
  CHECK(machine.Count("ran", "checks") == 0);
  CHECK(machine.Json()["checks"]["rows"].size() == 1);
  CHECK(machine.Json()["beside"].size() == 5);
  // All that is there: it is not run again, save what can tell itself.
  REQUIRE(machine.Run("--binary bin/checks --only checks,pytorch --resume") ==
          0);
  CHECK(machine.Count("ran",
                      "checks --size full -o gpu_check.checks.json "
                      "--resume") == 1);
  CHECK(machine.Count("ran", "python") == 5);
  CHECK(machine.Json()["beside"].size() == 5);
  CHECK(machine.Count("out", "torch eager bf16              ok") == 1);
  // What failed runs again.
  CHECK(machine.Run("--binary bin/checks --only sanitizer --resume",
                    "BAD_TOOL=racecheck") == 1);
  CHECK(machine.Json()["beside"].size() == 8);
  CHECK(machine.Run("--binary bin/checks --only sanitizer --resume") == 0);
  CHECK(machine.Json()["beside"].size() == 8);
  CHECK(machine.Count("ran", "sanitizer racecheck") == 2);
  CHECK(machine.Count("ran", "sanitizer memcheck") == 1);
  // Without the word everything is made anew.
  REQUIRE(machine.Run("--binary bin/checks --only pytorch") == 0);
  CHECK(machine.Json()["checks"].is_null());
  CHECK(machine.Json()["beside"].size() == 5);
}

TEST_CASE("what a sanitizer finds is a failure") {
  Machine machine;
  CHECK(machine.Run("--binary bin/checks", "BAD_TOOL=racecheck") == 1);
  CHECK(machine.Count("out", "sanitizer racecheck           FAIL") == 1);
  CHECK(machine.Prints("  ERROR SUMMARY: 3 errors"));
  CHECK(machine.Json()["failed"] == true);
}

TEST_CASE("what others read unwritten is told, and no failure") {
  Machine machine;
  const std::string initcheck = "BAD_TOOL=initcheck BAD_KERNEL=";
  CHECK(machine.Run("--binary bin/checks", initcheck + "gemmSN_kernel") == 0);
  CHECK(machine.Prints("0 in our kernels; in all ERROR SUMMARY: 3 errors"));
  CHECK(machine.Run("--binary bin/checks", initcheck + "stowage::Add") == 1);
  CHECK(machine.Prints("1 in our kernels; in all ERROR SUMMARY: 3 errors"));
  // Other tools judge every kernel.
  CHECK(machine.Run("--binary bin/checks",
                    "BAD_TOOL=memcheck BAD_KERNEL=gemmSN_kernel") == 1);
}

TEST_CASE("a check that fails and a program that crashes are failures") {
  Machine machine;
  CHECK(machine.Run("--binary bin/checks --only checks,pytorch", "STATUS=1") ==
        1);
  CHECK(machine.Json()["failed"] == true);
  CHECK(machine.Run("--binary bin/checks --only checks,pytorch", "STATUS=70") ==
        1);
  CHECK(machine.Count("out", "device_check                  FAIL") == 1);
}

TEST_CASE("no device ends the script with the reason and 3") {
  Machine machine;
  // The script waits for what it shows, be that slow.
  machine.Add("tee", "sleep 0.2; cat");
  CHECK(machine.Run("--binary bin/checks", "STATUS=3") == 3);
  CHECK(machine.Text("err") == "no driver\n");
  CHECK(machine.Count("ran", "") == 1);
}

TEST_CASE("a profiler's launches are added up by kernel") {
  Machine machine;
  machine.Add("ncu", kNcu);
  REQUIRE(machine.Run("--binary bin/checks --only checks,ncu") == 0);
  CHECK(machine.Count("ran", "checks --size quick --only times") == 1);
  CHECK(
      machine.Prints("2 kernels; gemm first: 1 launches, 0.009 ms, 0.11 TB/s, "
                     "26 % of warps active"));
  const auto row = machine.Json()["beside"][0];
  CHECK(row["status"] == "ok");
  CHECK(row["data"].size() == 2);
  CHECK(row["data"][1] == nlohmann::json{{"name", "add(float, int)"},
                                         {"launches", 2},
                                         {"nanoseconds", 6000},
                                         {"bytes", 12000},
                                         {"active_warps_percent", 75.0}});
  // It is kept, as other rows are.
  REQUIRE(machine.Run("--binary bin/checks --only ncu --resume") == 0);
  CHECK(machine.Count("ran", "ncu") == 1);
  CHECK(machine.Json()["beside"].size() == 1);
}

TEST_CASE("a profiler that may not count is told, and no failure") {
  Machine machine;
  machine.Add("ncu", R"(while [[ $1 != --log-file ]]; do shift; done
echo '==ERROR== ERR_NVGPUCTRPERM' >"$2"; exit 1)");
  REQUIRE(machine.Run("--binary bin/checks --only ncu") == 0);
  CHECK(machine.Json()["beside"][0]["status"] == "skipped");
  CHECK(machine.Prints("it counted nothing: ==ERROR== ERR_NVGPUCTRPERM"));
  machine.Add("ncu", "exit 7");
  REQUIRE(machine.Run("--binary bin/checks --only ncu") == 0);
  CHECK(machine.Prints("ended with status 7"));
}

TEST_CASE("PyTorch runs beside, eager and compiled, in two types") {
  Machine machine;
  machine.Add("python", kPython);
  REQUIRE(machine.Run("--binary bin/checks --only checks,pytorch") == 0);
  CHECK(machine.Count("ran", "python --dtype autocast") == 3);
  CHECK(machine.Count("ran",
                      "python --dtype autocast --steps 50 --compile "
                      "--vocabulary 50304") == 1);
  CHECK(machine.Count("ran", "python --dtype bf16 --steps 50 --compile") == 1);
  CHECK(
      machine.Prints("50.000 ms a step, 327680 tokens/s, allocated 20.00 GB, "
                     "reserved 21.00 GB"));
  CHECK(machine.Json()["beside"][3]["data"]["tokens_per_second"] == 327680.0);
}

TEST_CASE("what PyTorch cannot do is told, and no failure") {
  Machine machine;
  machine.Add("python",
              "[[ $1 == -c ]] || { echo 'says \"no\"' >&2; exit 1; }");
  REQUIRE(machine.Run("--binary bin/checks --only checks,pytorch") == 0);
  CHECK(machine.Json()["beside"][3]["figure"] == "says \"no\"");
}

TEST_CASE("usage") {
  Machine machine;
  CHECK(machine.Run("--help") == 0);
  CHECK(machine.Prints("Exit codes: 0 all checks are ok"));
  CHECK(machine.Run("--wrong") == 2);
  CHECK(machine.Run("--binary") == 2);
  CHECK(machine.Run("--only checks,bits") == 2);
  CHECK(machine.Text("err").find("there is no part bits") != std::string::npos);
  CHECK(machine.Run("--binary nowhere") == 2);
  CHECK(machine.Text("err").find("--build FILE") != std::string::npos);
}

}  // namespace
}  // namespace stowage::testing
