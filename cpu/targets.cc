#include "cpu/targets.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/strings.h"
#include "cpu/kernels/kernel_table.h"

#if defined(STOWAGE_CPU_TARGETS) && defined(__x86_64__)
#define STOWAGE_CPU_LEVELS 1
extern "C" const stowage::cpu::KernelTable stowage_cpu_kernels_v3;
extern "C" const stowage::cpu::KernelTable stowage_cpu_kernels_v4;
#else
#define STOWAGE_CPU_LEVELS 0
#endif

namespace stowage::cpu {
namespace {

constexpr char kVariable[] = "STOWAGE_CPU_TARGET";

#if defined(__aarch64__)
constexpr std::string_view kArchitecture = "AArch64";
#else
constexpr std::string_view kArchitecture = "x86-64";
#endif

// Targets for other processors than the build machine's, and the build option for them.
struct PortableTarget {
  std::string_view name;
  std::string_view architecture;
  std::string_view option;
};
constexpr std::array kPortableTargets = {
    PortableTarget{"v2", "x86-64", "--config=portable"},
    PortableTarget{"v3", "x86-64", "--config=portable"},
    PortableTarget{"v4", "x86-64", "--config=portable"},
    PortableTarget{"v4-bf16", "x86-64", "--config=portable"},
    PortableTarget{"armv8", "AArch64", "--config=armv8"}};

// The lowest target, for which the rest of the build is compiled.
#if STOWAGE_CPU_LEVELS && !defined(__AVX__)
constexpr std::string_view kBaseline = "v2";
#elif defined(STOWAGE_CPU_TARGETS) && defined(__aarch64__)
constexpr std::string_view kBaseline = "armv8";
#else
constexpr std::string_view kBaseline = "native";
#endif

#if STOWAGE_CPU_LEVELS
// clang 14 knows no levels. Of their parts it lacks f16c, lzcnt and movbe, which all
// processors with AVX2, FMA and BMI2 have.
#ifdef __clang__
bool RunsV3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}
bool RunsV4() {
  return RunsV3() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
bool RunsV3() { return __builtin_cpu_supports("x86-64-v3"); }
bool RunsV4() { return __builtin_cpu_supports("x86-64-v4"); }
#endif
bool RunsV4Bf16() { return RunsV4() && __builtin_cpu_supports("avx512bf16"); }
#endif

std::string Names(std::span<const CpuTarget> targets, bool all) {
  std::string names;
  for (const CpuTarget& target : targets) {
    if (!all && !target.runs) continue;
    names += StrCat(names.empty() ? "" : ", ", target.name);
  }
  return names;
}

// Which builds have a target of this name, which this one lacks; empty if none.
std::string WhichBuildsHave(std::string_view name) {
  const auto known =
      std::ranges::find(kPortableTargets, name, &PortableTarget::name);
  if (known == kPortableTargets.end()) return "";
  if (known->architecture != kArchitecture) {
    return StrCat(" (", name, " is for ", known->architecture,
                  ", this build for ", kArchitecture, ")");
  }
  return StrCat(" (a build with ", known->option, " has ", name, ")");
}

const CpuTarget* HighestThatRuns(std::span<const CpuTarget> targets) {
  const CpuTarget* highest = nullptr;
  for (const CpuTarget& target : targets) {
    if (target.runs) highest = &target;
  }
  return highest;
}

const std::string& VariableOnce() {
  static const std::string variable = [] {
    const char* const value = std::getenv(kVariable);
    return std::string(value == nullptr ? "" : value);
  }();
  return variable;
}

}  // namespace

std::span<const CpuTarget> CpuTargets() {
#if STOWAGE_CPU_LEVELS
  static const std::array targets = {
      CpuTarget{kBaseline, &stowage_cpu_kernels, true},
      CpuTarget{"v3", &stowage_cpu_kernels_v3, RunsV3()},
      CpuTarget{"v4", &stowage_cpu_kernels_v4, RunsV4()},
      CpuTarget{"v4-bf16", stowage_cpu_kernels_v4.by_pairs, RunsV4Bf16()},
  };
#else
  static constexpr std::array targets = {
      CpuTarget{kBaseline, &stowage_cpu_kernels, true}};
#endif
  return targets;
}

Result<const CpuTarget*> ChooseCpuTarget(std::span<const CpuTarget> targets,
                                         std::string_view name,
                                         std::string_view variable) {
  const bool by_variable = name.empty() && !variable.empty();
  if (by_variable) name = variable;
  if (name.empty()) return HighestThatRuns(targets);
  const std::string asked =
      by_variable ? StrCat(kVariable, " is ", Quoted(name), ": ") : "";
  const auto found = std::ranges::find(targets, name, &CpuTarget::name);
  if (found == targets.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[cpu-target] ", asked, "there is no CPU target ",
                        Quoted(name), " in this build; expected ",
                        Names(targets, /*all=*/true), WhichBuildsHave(name))};
  }
  if (!found->runs) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[cpu-target] ", asked, "CPU target ", Quoted(name),
                        " needs instructions that this processor lacks, to "
                        "compute its scratch as well as to run; expected ",
                        Names(targets, /*all=*/false))};
  }
  return &*found;
}

Result<const CpuTarget*> FindCpuTarget(std::string_view name) {
  return ChooseCpuTarget(CpuTargets(), name, VariableOnce());
}

const CpuTarget& RunningCpuTarget() {
  static const CpuTarget& running = *[] {
    const Result<const CpuTarget*> found = FindCpuTarget();
    return found.ok() ? *found : HighestThatRuns(CpuTargets());
  }();
  return running;
}

Result<std::string> DescribeCpuTarget() {
  STOWAGE_ASSIGN_OR_RETURN(const CpuTarget* const target, FindCpuTarget());
  const std::string all = Names(CpuTargets(), /*all=*/true);
  return StrCat(target->name, " (", target->kernels->vectors, ")",
                CpuTargets().size() > 1 ? StrCat(" of ", all) : "");
}

}  // namespace stowage::cpu
