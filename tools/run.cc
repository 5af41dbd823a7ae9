// stowage run starts a command once its bytes are reserved; stowage ledger lists the bytes that
// jobs hold or wait for.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "admission/admission.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"
#include "report/plan_json.h"
#include "tools/command.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

using Patience = std::optional<std::chrono::milliseconds>;

constexpr int64_t kMaxDevice = 1023;

struct JobFlags {
  std::string ledger, name;
  std::string resource;
  std::optional<int64_t> device;
  std::string capacity, bytes, plan, overhead;  // sizes, and a file
  std::string wait;
  std::vector<std::string> command;
};

// The origin of a size, for messages.
struct Size {
  Bytes bytes = 0;
  std::string of;
};

std::string ResourceOf(const JobFlags& flags) {
  if (flags.device) return StrCat("device:", *flags.device);
  return flags.resource.empty() ? "cgroup" : flags.resource;
}

Result<Bytes> CapacityOf(const JobFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Bytes> given,
                           ParseSizeOption("capacity", flags.capacity));
  if (given) return *given;
  if (flags.device || !flags.resource.empty()) {
    return InvalidArgumentError(
        "[run] the capacity of ", Quoted(ResourceOf(flags)),
        " is not given; give by --capacity how many bytes its jobs may hold in "
        "all",
        flags.device ? ", less than the device has by what its driver keeps "
                       "for each process"
                     : "");
  }
  const std::optional<CgroupLimit> limit = FindCgroupLimit();
  if (!limit) {
    return InvalidArgumentError(
        "[run] no cgroup of this process limits its memory; give --capacity, "
        "or --device or --resource with it");
  }
  return limit->bytes;
}

// The file that a shell would run, or an error with the reason.
Result<std::string> FindProgram(const std::string& name) {
  const auto can_run = [](const std::string& path) {
    std::error_code failed;
    return std::filesystem::is_regular_file(path, failed) &&
           ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (can_run(name)) return name;
    return InvalidArgumentError("[run] ", Quoted(name),
                                " is no file that can be run");
  }
  const char* const folders = std::getenv("PATH");
  std::string_view rest = folders == nullptr ? "/usr/bin:/bin" : folders;
  while (true) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string_view folder = rest.substr(0, end);
    std::string path = StrCat(folder, folder.empty() ? "" : "/", name);
    if (folder.empty()) path.insert(0, "./");
    if (can_run(path)) return path;
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  return InvalidArgumentError("[run] there is no program ", Quoted(name),
                              " in the folders of PATH");
}

// The last value of `option` among the command's words.
std::string ValueIn(const std::vector<std::string>& words,
                    const std::string& option) {
  std::string value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(option + "=")) {
      value = words[i].substr(option.size() + 1);
    }
  }
  return value;
}

Result<Size> BytesOfPlan(const JobFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(flags.plan));
  const Result<PlanFile> read = PlanFromJson(text);
  if (!read.ok()) {
    return Error{read.error().code,
                 StrCat(read.error().message, "; in ", Quoted(flags.plan))};
  }
  const std::vector<std::string> violations = ViolationsOf(*read);
  if (!violations.empty()) {
    return InvalidArgumentError("[run] ", Quoted(flags.plan),
                                " is no sound plan: ", violations.front(),
                                "; `stowage check` names all that is wrong");
  }
  const Bytes arena = read->plan.arena_bytes();
  if (flags.device) {
    return Size{arena, StrCat("the arena of ", Quoted(flags.plan))};
  }
  // A plan that offloads to disk keeps host bytes in a file.
  const bool on_disk =
      StrCat("\n", read->request.optimizations).find("\noffload disk\n") !=
      std::string::npos;
  if (on_disk) {
    return Size{arena, StrCat("the arena of ", Quoted(flags.plan),
                              ", which offloads to disk")};
  }
  const auto sum = CheckedAdd(arena, read->plan.host_bytes());
  STOWAGE_CHECK(sum.has_value());
  return Size{*sum,
              StrCat("the arena and the host bytes of ", Quoted(flags.plan))};
}

// The budget of a stowage command, such as `stowage train --budget 1GiB`.
Result<Size> BytesOfBudget(const JobFlags& flags) {
  constexpr std::string_view kWithBudgets[] = {"train", "finetune", "time"};
  const std::vector<std::string>& words = flags.command;
  const std::string program = std::filesystem::path(words[0]).filename();
  const bool has_budget =
      program == "stowage" && words.size() > 1 &&
      std::ranges::find(kWithBudgets, words[1]) != std::end(kWithBudgets);
  const std::string text = has_budget ? ValueIn(words, "--budget") : "";
  if (text.empty()) {
    return InvalidArgumentError(
        "[run] how many bytes to reserve is not known: give --bytes, or the "
        "command's --plan",
        has_budget ? ", or the command a --budget" : "");
  }
  const Result<std::optional<Bytes>> budget = ParseSizeOption("budget", text);
  if (!budget.ok()) {
    return InvalidArgumentError(budget.error().message,
                                "; of the command, for which --bytes is left "
                                "out");
  }
  return Size{**budget, StrCat("the command's --budget ", text)};
}

Result<Size> BytesOf(const JobFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Bytes> bytes,
                           ParseSizeOption("bytes", flags.bytes));
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Bytes> overhead,
                           ParseSizeOption("overhead", flags.overhead));
  if (bytes) return Size{*bytes, "--bytes"};
  STOWAGE_ASSIGN_OR_RETURN(Size size, flags.plan.empty() ? BytesOfBudget(flags)
                                                         : BytesOfPlan(flags));
  if (!overhead) return size;
  const std::optional<Bytes> sum = CheckedAdd(size.bytes, *overhead);
  if (!sum) {
    return InvalidArgumentError("[overhead] ", *overhead, " and ", size.bytes,
                                " bytes do not fit 64 bits");
  }
  return Size{*sum, size.of + " and --overhead"};
}

Result<Patience> PatienceOf(const std::string& wait) {
  if (wait.empty()) return Patience();
  if (wait == "none") return Patience(0);
  double seconds = 0;
  const char* const end = wait.data() + wait.size();
  const auto parsed = std::from_chars(wait.data(), end, seconds);
  constexpr double kMaxSeconds = 1e9;
  if (parsed.ec != std::errc() || parsed.ptr != end || !(seconds >= 0) ||
      seconds > kMaxSeconds) {
    return InvalidArgumentError("[wait] ", Quoted(wait),
                                " is neither none nor a number of seconds "
                                "from 0 to 1000000000");
  }
  return Patience(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

// The command, truncated to the size of a record.
std::string NameOfCommand(const std::vector<std::string>& words) {
  std::string name;
  for (const std::string& word : words) {
    name += StrCat(name.empty() ? "" : " ", word);
  }
  for (char& c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) c = ' ';
  }
  size_t size = std::min(name.size(), kMaxJobNameBytes);
  // Do not cut within a character of UTF-8.
  while (size < name.size() && size > 0 &&
         (static_cast<unsigned char>(name[size]) & 0xc0) == 0x80) {
    --size;
  }
  name.resize(size);
  const size_t first = std::min(name.find_first_not_of(' '), name.size());
  name.erase(0, first);
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "command" : name;
}

// Returns only if it fails.
Error BecomeCommand(const std::string& program,
                    std::vector<std::string> command) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  std::cout.flush();
  // The command would inherit an ignored signal.
  std::signal(SIGXFSZ, SIG_DFL);
  ::execv(program.c_str(), words.data());
  const int why = errno;
  return InvalidArgumentError("[run] ", Quoted(program),
                              " cannot be run: ", std::strerror(why));
}

Status ReserveAndExec(const JobFlags& flags) {
  if (flags.command.empty()) {
    return InvalidArgumentError(
        "[run] there is no command to run; write it behind --, as `stowage run "
        "--ledger FILE ... -- stowage train ...`");
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string program,
                           FindProgram(flags.command[0]));
  STOWAGE_ASSIGN_OR_RETURN(const Patience patience, PatienceOf(flags.wait));
  STOWAGE_ASSIGN_OR_RETURN(const Bytes capacity, CapacityOf(flags));
  STOWAGE_ASSIGN_OR_RETURN(const Size size, BytesOf(flags));
  ReservationRequest request = {
      .resource = ResourceOf(flags),
      .capacity = capacity,
      .bytes = size.bytes,
      .name = flags.name.empty() ? NameOfCommand(flags.command) : flags.name,
      .patience = patience};
  request.on_wait = [&](const std::vector<LedgerJob>& jobs) {
    const Bytes held = HeldBytes(jobs, request.resource);
    std::cerr << "stowage: " << Quoted(request.name) << " waits for "
              << FormatExactBytes(size.bytes) << " of "
              << Quoted(request.resource) << ", of which "
              << FormatExactBytes(held) << " of " << FormatExactBytes(capacity)
              << " are held; `stowage ledger " << WithoutControls(flags.ledger)
              << "` lists by whom" << std::endl;
  };
  STOWAGE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::Open(flags.ledger));
  STOWAGE_ASSIGN_OR_RETURN(const Reservation reservation,
                           ledger.Reserve(request));
  std::cerr << "stowage: " << Quoted(request.name) << " holds "
            << FormatExactBytes(size.bytes) << " of "
            << Quoted(request.resource) << ", from " << size.of << std::endl;
  STOWAGE_RETURN_IF_ERROR(reservation.KeepOverExec());
  return BecomeCommand(program, flags.command);
}

int RunJob(const JobFlags& flags) {
  const Status ran = ReserveAndExec(flags);
  return ran.ok() ? kExitDone : Fail(ran.error());
}

}  // namespace

void AddRun(Program& program) {
  Options options = program.AddSubcommand(
      "run",
      "Run the command behind -- once its bytes of a device or a cgroup are "
      "reserved in a ledger; exit 1 they can never fit, 3 not now",
      "stowage run --ledger jobs.ledger --device 0 --capacity 16GiB -- "
      "stowage train --model gpt-nano --data text.txt --budget 2GiB");
  const auto flags = std::make_shared<JobFlags>();
  options.Group("data");
  options.Add("--ledger", &flags->ledger,
              "The ledger file; created if it does not exist");
  options.Require("--ledger");
  options.Add("--name", &flags->name,
              "Name of the job in the ledger; default: its command");
  options.Group("memory");
  options.Add("--device", &flags->device,
              "Number of the device whose bytes to reserve");
  options.Limit("--device", 0, kMaxDevice);
  options.Add("--resource", &flags->resource,
              "Name of the resource whose bytes to reserve; default: the "
              "memory of this process's cgroup");
  options.Exclude("--resource", "--device");
  options.Add("--capacity", &flags->capacity,
              "Bytes that all jobs of the device or resource may hold "
              "together; default: the memory limit of the cgroup");
  options.Add("--bytes", &flags->bytes,
              "Bytes to reserve; without it and --plan, the --budget of a "
              "stowage command");
  options.Add("--plan", &flags->plan,
              "Reserve the arena of this plan of `stowage plan -o`, and "
              "without --device its host bytes");
  options.Exclude("--plan", "--bytes");
  options.Add("--overhead", &flags->overhead,
              "Bytes to reserve in addition to a plan or a budget, for the "
              "rest of the process");
  options.Exclude("--overhead", "--bytes");
  options.Group("run");
  options.Add("--wait", &flags->wait,
              "Maximum number of seconds to wait, or none; default: no limit");
  options.AddCommand(&flags->command);
  options.OnRun([flags] { return RunJob(*flags); });
}

namespace {

struct LedgerFlags {
  std::string ledger;
  bool json = false;
};

// The jobs of each resource in order of arrival; resources in order of their first job.
std::vector<std::vector<LedgerJob>> ByResource(
    const std::vector<LedgerJob>& jobs) {
  std::vector<std::vector<LedgerJob>> resources;
  for (const LedgerJob& job : jobs) {
    auto same = std::ranges::find_if(resources, [&](const auto& of_one) {
      return of_one.front().resource == job.resource;
    });
    if (same == resources.end()) {
      same = resources.insert(same, std::vector<LedgerJob>());
    }
    same->push_back(job);
  }
  return resources;
}

nlohmann::ordered_json LedgerJson(const std::vector<LedgerJob>& jobs) {
  auto resources = nlohmann::ordered_json::array();
  for (const std::vector<LedgerJob>& of_one : ByResource(jobs)) {
    const LedgerJob& first = of_one.front();
    const Bytes held = HeldBytes(of_one, first.resource);
    auto list = nlohmann::ordered_json::array();
    for (const LedgerJob& job : of_one) {
      list.push_back({{"name", job.name},
                      {"state", job.is_held ? "held" : "waiting"},
                      {"bytes", job.bytes},
                      {"since", FormatUtc(job.since)},
                      {"process", job.process}});
    }
    resources.push_back({{"resource", first.resource},
                         {"capacity_bytes", first.capacity},
                         {"held_bytes", held},
                         {"free_bytes", first.capacity - held},
                         {"jobs", std::move(list)}});
  }
  return {{"resources", std::move(resources)}};
}

void PrintLedger(const std::vector<LedgerJob>& jobs) {
  if (jobs.empty()) std::cout << "no job holds or waits\n";
  for (const std::vector<LedgerJob>& of_one : ByResource(jobs)) {
    const LedgerJob& first = of_one.front();
    std::cout << WithoutControls(first.resource) << ": "
              << FormatExactBytes(HeldBytes(of_one, first.resource)) << " of "
              << FormatExactBytes(first.capacity) << " held\n";
    for (const LedgerJob& job : of_one) {
      std::cout << "  " << (job.is_held ? "held by " : "waiting ")
                << DescribeJob(job) << '\n';
    }
  }
}

int RunLedger(const LedgerFlags& flags) {
  const Result<std::vector<LedgerJob>> jobs = ReadLedger(flags.ledger);
  if (!jobs.ok()) return Fail(jobs.error());
  if (flags.json) {
    PrintJson(LedgerJson(*jobs));
  } else {
    PrintLedger(*jobs);
  }
  return kExitDone;
}

}  // namespace

void AddLedger(Program& program) {
  Options options = program.AddSubcommand(
      "ledger", "List the bytes that jobs of `stowage run` hold or wait for",
      "stowage ledger jobs.ledger");
  const auto flags = std::make_shared<LedgerFlags>();
  options.Group("data");
  options.Add("ledger", &flags->ledger, "The file of `stowage run --ledger`");
  options.Require("ledger");
  options.Group("output");
  options.AddFlag("--json", &flags->json, "Print one JSON object");
  options.OnRun([flags] { return RunLedger(*flags); });
}

}  // namespace stowage::tools
