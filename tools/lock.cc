// stowage lock records the memory of plans in a file that is kept with the code, and compares.

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "data/text_data.h"
#include "report/memory_lock.h"
#include "report/plan_json.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/task.h"

namespace stowage::tools {
namespace {

constexpr int kMaxPrograms = 64;

struct LockFlags {
  std::string lock;
  std::vector<std::string> plans;  // "NAME=PLAN"
  std::string html;
  bool json = false;
};

// The path after the first "="; "" without one.
std::string PathOf(const std::string& plan) {
  const size_t equals = plan.find('=');
  return equals == std::string::npos ? "" : plan.substr(equals + 1);
}

Result<MemoryLock> LockOf(const std::vector<std::string>& plans) {
  MemoryLock lock;
  for (const std::string& plan : plans) {
    const std::string path = PathOf(plan);
    const std::string name = plan.substr(0, plan.find('='));
    if (name.empty() || path.empty()) {
      return InvalidArgumentError("[lock] ", Quoted(plan),
                                  " is no NAME=PLAN, as train=step.plan");
    }
    for (const LockedProgram& other : lock.programs) {
      if (other.name == name) {
        return InvalidArgumentError("[lock] two plans are called ",
                                    Quoted(name), "; give each its own name");
      }
    }
    // JSON must be UTF-8.
    if (!CheckIsText(name, name).ok()) {
      return InvalidArgumentError("[lock] the name of ", Quoted(path),
                                  " is no UTF-8; give it another");
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
    const Result<PlanFile> read = PlanFromJson(text);
    if (!read.ok()) {
      return Error{read.error().code,
                   StrCat(read.error().message, "; in ", Quoted(path))};
    }
    const PlanFile& file = *read;
    const std::vector<std::string> violations = ViolationsOf(file);
    if (!violations.empty()) {
      return InvalidArgumentError("[lock] ", Quoted(path),
                                  " is no sound plan: ", violations.front(),
                                  "; `stowage check` names all that is wrong");
    }
    lock.programs.push_back(LockProgram(name, file));
  }
  return lock;
}

// Checks that no output is one of the plans or the other output.
Status ClaimOutputs(const LockFlags& flags, bool writes_lock) {
  for (const std::string& plan : flags.plans) {
    STOWAGE_RETURN_IF_ERROR(CheckPaths(
        {{"the lock", writes_lock ? flags.lock : ""}, {"html", flags.html}},
        {{"the plan", PathOf(plan)},
         {"the lock", writes_lock ? "" : flags.lock}}));
  }
  return TryOutputs(
      {{"lock", writes_lock ? flags.lock : ""}, {"html", flags.html}}, {});
}

int RunWrite(const LockFlags& flags) {
  const Status tried = ClaimOutputs(flags, true);
  if (!tried.ok()) return Fail(tried.error());
  const Result<MemoryLock> lock = LockOf(flags.plans);
  if (!lock.ok()) return Fail(lock.error());
  const Status written = WriteOutput(flags.lock, ToText(*lock));
  if (!written.ok()) return Fail(written.error());
  for (const LockedProgram& program : lock->programs) {
    std::cout << WithoutControls(program.name) << ": arena " << program.arena
              << " bytes\n";
  }
  return kExitDone;
}

Result<MemoryChanges> CompareWithLock(const LockFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(flags.lock));
  const auto in_lock = [&](const Error& error) {
    return Error{error.code,
                 StrCat(error.message, "; the lock is ", Quoted(flags.lock))};
  };
  const Result<MemoryLock> locked = ParseMemoryLock(text);
  if (!locked.ok()) return in_lock(locked.error());
  STOWAGE_ASSIGN_OR_RETURN(const MemoryLock now, LockOf(flags.plans));
  Result<MemoryChanges> changes = CompareLocks(*locked, now);
  if (!changes.ok()) return in_lock(changes.error());
  return changes;
}

int RunCompare(const LockFlags& flags) {
  const Status tried = ClaimOutputs(flags, false);
  if (!tried.ok()) return Fail(tried.error());
  const Result<MemoryChanges> changes = CompareWithLock(flags);
  if (!changes.ok()) return Fail(changes.error());
  if (flags.json) {
    PrintJson(ToJson(*changes));
  } else if (changes->figures.empty()) {
    std::cout << "nothing changed\n";
  } else {
    std::cout << ToText(*changes);
  }
  if (!flags.html.empty()) {
    const Status written = WriteOutput(flags.html, ToHtml(*changes));
    if (!written.ok()) return Fail(written.error());
  }
  if (!changes->grew) return kExitDone;
  std::cerr << "stowage: a step takes more memory than "
            << WithoutControls(Quoted(flags.lock))
            << " has; where that is meant, `stowage lock write` keeps it"
            << std::endl;
  return kExitNo;
}

}  // namespace

void AddLock(Program& program) {
  Options options = program.AddSubcommand(
      "lock",
      "Keep what steps take in a file, and say what has grown since: exit 0 "
      "nothing, 1 something",
      "stowage lock check memory.lock train=step.plan");
  const auto flags = std::make_shared<LockFlags>();
  options.Group("data");
  const auto add = [&](const char* name, const char* description,
                       const char* lock, int (*run)(const LockFlags&)) {
    Options verb = options.AddVerb(name, description);
    verb.Add("lock", &flags->lock, lock);
    verb.AddSome("plan", &flags->plans, kMaxPrograms,
                 "NAME=PLAN: a program's name and its file written by `stowage "
                 "plan -o`; may be repeated");
    verb.Require("lock");
    verb.Require("plan");
    verb.OnRun([flags, run] { return run(*flags); });
    return verb;
  };
  add("write", "Write the lock from plans", "The file to write", RunWrite);
  Options check =
      add("check", "Compare plans with the lock", "The lock", RunCompare);
  check.AddOutput("--html", &flags->html,
                  "Write the changes to this file as a page");
  check.AddFlag("--json", &flags->json, "Print one JSON object");
}

}  // namespace stowage::tools
