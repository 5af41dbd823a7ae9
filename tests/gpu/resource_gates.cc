#include "tests/gpu/resource_gates.h"

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"

namespace stowage::testing {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Calls fn(line) for each line without its end, until it returns an error.
template <typename Fn>
Status ForEachLine(std::string_view text, Fn&& fn) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    STOWAGE_RETURN_IF_ERROR(fn(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// What lies between two marks, the first time that both are met.
std::optional<std::string_view> Between(std::string_view text,
                                        std::string_view before,
                                        std::string_view after) {
  const size_t start = text.find(before);
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start + before.size());
  const size_t end = text.find(after);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(0, end);
}

// The number that ends directly before a mark.
std::optional<int> NumberBefore(std::string_view text, std::string_view mark) {
  const size_t end = text.find(mark);
  if (end == std::string_view::npos) return std::nullopt;
  size_t start = end;
  while (start > 0 && text[start - 1] >= '0' && text[start - 1] <= '9') --start;
  int number = 0;
  const auto [stop, error] =
      std::from_chars(text.data() + start, text.data() + end, number);
  if (error != std::errc() || stop == text.data() + start) return std::nullopt;
  return number;
}

Error NotALog(std::string_view line) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[gates] cannot read \"", line,
                 "\"; expected what ptxas prints with --resource-usage")};
}

bool IsIdentifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '$';
}

// The last identifier of ".visible .entry _Z5ScalePf(".
std::string LastIdentifier(std::string_view line) {
  while (!line.empty() && !IsIdentifier(line.back())) line.remove_suffix(1);
  size_t start = line.size();
  while (start > 0 && IsIdentifier(line[start - 1])) --start;
  return std::string(line.substr(start));
}

// The first word of an instruction: "ld.global.v4.u32". A predicate is skipped.
std::string_view Opcode(std::string_view line) {
  const auto skip = [&line](auto&& passes) {
    size_t n = 0;
    while (n < line.size() && passes(line[n])) ++n;
    const std::string_view skipped = line.substr(0, n);
    line.remove_prefix(n);
    return skipped;
  };
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '{'; };
  const auto solid = [&blank](char c) { return !blank(c) && c != ';'; };
  skip(blank);
  if (!line.empty() && line[0] == '@') {
    skip(solid);
    skip(blank);
  }
  return skip(solid);
}

bool LoadsSixteenBytes(std::string_view opcode, std::string_view line) {
  if (opcode.starts_with("cp.async.c")) return Contains(line, ", 16");
  if (!opcode.starts_with("ld.") || Contains(opcode, ".shared") ||
      Contains(opcode, ".local") || Contains(opcode, ".param") ||
      Contains(opcode, ".const")) {
    return false;
  }
  return (Contains(opcode, ".v4.") && opcode.ends_with("32")) ||
         (Contains(opcode, ".v2.") && opcode.ends_with("64"));
}

// atom.global.add.f32, red.add.noftz.bf16x2.
bool IsFloatAtomic(std::string_view opcode) {
  return (opcode.starts_with("atom.") || opcode.starts_with("red.")) &&
         (Contains(opcode, ".f16") || Contains(opcode, ".bf16") ||
          Contains(opcode, ".f32") || Contains(opcode, ".f64"));
}

// How the functions of CUDA's own library begin, such as pow of doubles.
constexpr std::string_view kCudaFunction = "__internal_";

// Whether a name fits a pattern, in which * stands for any characters.
bool Fits(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  for (size_t start = star; start <= name.size(); ++start) {
    if (Fits(name.substr(start), pattern)) return true;
  }
  return false;
}

// Whether PTX for a target becomes machine code for an architecture: with a letter
// behind its number either is for that one alone.
bool IsCompiledFor(std::string_view target, std::string_view architecture) {
  const auto is_alone = [](std::string_view name) {
    return !name.empty() && name.back() >= 'a' && name.back() <= 'z';
  };
  return target == architecture ||
         !(is_alone(target) || is_alone(architecture));
}

const KernelRule* RuleFor(const std::string& name,
                          std::span<const KernelRule> rules) {
  const KernelRule* found = nullptr;
  for (const KernelRule& rule : rules) {
    if (Fits(name, rule.kernels)) found = &rule;
  }
  return found;
}

}  // namespace

Status AddPtxasLog(std::string_view log, Compiled* compiled) {
  std::string kernel, architecture;
  bool in_properties = false;
  return ForEachLine(log, [&](std::string_view line) -> Status {
    if (Contains(line, "Compiling entry function '")) {
      const auto name = Between(line, "entry function '", "'");
      const auto target = Between(line, "' for 'sm_", "'");
      if (!name || !target) return NotALog(line);
      kernel = *name;
      architecture = *target;
    } else if (Contains(line, "Function properties for ")) {
      constexpr std::string_view kMark = "properties for ";
      compiled->resources.push_back(
          {std::string(line.substr(line.find(kMark) + kMark.size())),
           architecture});
      in_properties = true;
    } else if (Contains(line, " bytes stack frame")) {
      const auto stack = NumberBefore(line, " bytes stack frame");
      const auto stores = NumberBefore(line, " bytes spill stores");
      const auto loads = NumberBefore(line, " bytes spill loads");
      if (!in_properties || !stack || !stores || !loads) return NotALog(line);
      compiled->resources.back().stack_bytes = *stack;
      compiled->resources.back().spill_bytes = *stores + *loads;
      in_properties = false;
    } else if (Contains(line, ": Used ")) {
      const auto registers = NumberBefore(line, " registers");
      // Of the kernel; functions that it calls may stand between.
      auto of_kernel = compiled->resources.rbegin();
      while (of_kernel != compiled->resources.rend() &&
             (of_kernel->function != kernel ||
              of_kernel->architecture != architecture)) {
        ++of_kernel;
      }
      if (!registers || of_kernel == compiled->resources.rend()) {
        return NotALog(line);
      }
      of_kernel->registers = *registers;
    } else if (Contains(line, "warning") ||
               Contains(line, "Potential Performance Loss")) {
      compiled->warnings.emplace_back(line);
    }
    return {};
  });
}

Status AddPtx(std::string_view ptx, Compiled* compiled) {
  if (!Contains(ptx, "\n.target sm_")) {
    return Error{ErrorCode::kInvalidArgument,
                 "[gates] no .target in the PTX; expected what nvcc writes"};
  }
  const auto target = Between(ptx, "\n.target sm_", "\n").value_or("");
  PtxFunction* function = nullptr;
  return ForEachLine(ptx, [&](std::string_view line) -> Status {
    const bool is_kernel = Contains(line, ".entry ");
    if (is_kernel || line.starts_with(".func ") || Contains(line, " .func ")) {
      function = &compiled->ptx.emplace_back();
      function->function = LastIdentifier(line);
      function->target = target;
      function->is_kernel = is_kernel;
    }
    if (function == nullptr) return {};
    const std::string_view opcode = Opcode(line);
    function->bounded |= opcode == ".maxntid";
    function->tensor_cores |= opcode.starts_with("mma.sync.");
    function->warpgroups |= opcode.starts_with("wgmma.mma_async.");
    function->bulk_copies |= opcode.starts_with("cp.async.bulk.tensor.");
    function->async_copies |= opcode.starts_with("cp.async.ca.") ||
                              opcode.starts_with("cp.async.cg.");
    function->wide_loads |= LoadsSixteenBytes(opcode, line);
    function->local_memory |=
        opcode.starts_with("ld.local") || opcode.starts_with("st.local");
    function->float_atomics |= IsFloatAtomic(opcode);
    return {};
  });
}

std::string ShortName(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
      std::free);
  if (demangled == nullptr) return mangled;
  std::string name = demangled.get();
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(kAnonymous)) != std::string::npos;) {
    name.erase(at, kAnonymous.size());
  }
  for (size_t end; (end = name.find("::")) != std::string::npos;) {
    size_t start = end;
    while (start > 0 && IsIdentifier(name[start - 1])) --start;
    name.erase(start, end + 2 - start);
  }
  // From the last space outside of <> to the first ( outside of them.
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth > 0) continue;
    if (name[i] == '(') return name.substr(start, i - start);
    if (name[i] == ' ') start = i + 1;
  }
  return name.substr(start);
}

std::vector<std::string> Faults(const Compiled& compiled,
                                std::span<const KernelRule> rules) {
  std::vector<std::string> faults = compiled.warnings;
  std::map<std::string, std::string> kernels;  // the target of each
  std::set<std::string> others, architectures;
  std::set<std::pair<std::string, std::string>> in_log;
  std::set<const KernelRule*> used;

  for (const PtxFunction& ptx : compiled.ptx) {
    const std::string name = ShortName(ptx.function);
    const auto fault = [&](const auto&... what) {
      faults.push_back(StrCat(name, ": ", what...));
    };
    if (ptx.is_kernel) {
      kernels.emplace(ptx.function, ptx.target);
    } else {
      others.insert(ptx.function);
      if (!name.starts_with(kCudaFunction)) {
        fault("is called by kernels; mark it STOWAGE_DEVICE to inline it");
      }
      continue;
    }
    const KernelRule* rule = RuleFor(name, rules);
    used.insert(rule);
    if (rule == nullptr) {
      fault("no rule is for it");
      continue;
    }
    if (!ptx.bounded) {
      fault("no bound on the threads of a block; use STOWAGE_KERNEL");
    }
    if (rule->tensor_cores && !ptx.tensor_cores) fault("no mma.sync");
    if (rule->warpgroups && !ptx.warpgroups) fault("no wgmma.mma_async");
    if (rule->bulk_copies && !ptx.bulk_copies) fault("no cp.async.bulk.tensor");
    if (rule->bulk_copies && ptx.async_copies) {
      fault("copies by cp.async, beside cp.async.bulk.tensor");
    }
    if (rule->wide_loads && !ptx.wide_loads) {
      fault("no load of 16 bytes from global memory");
    }
    if (ptx.local_memory) fault("keeps values in local memory");
    if (ptx.float_atomics) fault("adds floats atomically, in no fixed order");
  }

  for (const Resources& resources : compiled.resources) {
    const std::string name = ShortName(resources.function);
    const auto fault = [&](const auto&... what) {
      faults.push_back(
          StrCat(name, " for ", resources.architecture, ": ", what...));
    };
    architectures.insert(resources.architecture);
    in_log.insert({resources.function, resources.architecture});
    const KernelRule* rule = RuleFor(name, rules);
    if (rule == nullptr) continue;  // said above
    if (resources.spill_bytes > 0) {
      fault("spills ", resources.spill_bytes, " bytes of registers");
    }
    if (resources.stack_bytes > 0) {
      fault("has a stack of ", resources.stack_bytes, " bytes");
    }
    if (resources.registers > rule->registers) {
      fault("takes ", resources.registers, " registers, over ",
            rule->registers);
    }
  }

  for (const std::string& architecture : architectures) {
    for (const auto& [function, target] : kernels) {
      if (!IsCompiledFor(target, architecture)) continue;
      if (!in_log.contains({function, architecture})) {
        faults.push_back(StrCat(ShortName(function), " for ", architecture,
                                ": in the PTX and not in a log"));
      }
    }
  }
  for (const auto& [function, architecture] : in_log) {
    if (!kernels.contains(function) && !others.contains(function)) {
      faults.push_back(StrCat(ShortName(function), " for ", architecture,
                              ": in a log and not in the PTX"));
    }
  }
  for (const KernelRule& rule : rules) {
    if (!used.contains(&rule)) {
      faults.push_back(
          StrCat("the rule for ", rule.kernels, " is for no kernel"));
    }
  }
  if (kernels.empty() || in_log.empty())
    faults.push_back("there are no kernels");
  return faults;
}

}  // namespace stowage::testing
