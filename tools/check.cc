// stowage check: the validator, for plan files and for packings in CSV.

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "report/plan_json.h"
#include "tools/command.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

// Prints what was found, and whether there was anything.
int PrintViolations(const std::vector<std::string>& violations,
                    std::string_view subject) {
  if (violations.empty()) {
    std::cout << "valid: " << subject << '\n';
    return kExitDone;
  }
  for (const std::string& violation : violations) {
    std::cout << violation << '\n';
  }
  std::cerr << "stowage: not valid: " << subject << std::endl;
  return kExitNo;
}

int CheckPlan(std::string_view text) {
  const Result<PlanFile> file = PlanFromJson(text);
  if (!file.ok()) return Fail(file.error());
  const Plan& plan = file->plan;
  return PrintViolations(
      ViolationsOf(*file),
      StrCat("plan of ", Quoted(plan.graph_name), ", ", plan.buffers.size(),
             " buffers in ", plan.arena_bytes(), " bytes"));
}

int CheckPacking(std::string_view text) {
  const Result<packing::PackedProblem> packed = packing::ParsePackingCsv(text);
  if (!packed.ok()) return Fail(packed.error());
  if (const Status status = packing::CheckProblem(packed->problem);
      !status.ok()) {
    return Fail(status.error());
  }
  std::vector<std::string> violations;
  for (const packing::Violation& violation :
       packing::Validate(packed->problem, packed->solution)) {
    violations.push_back(violation.text);
  }
  return PrintViolations(violations,
                         StrCat("packing of ", packed->problem.buffers.size(),
                                " buffers, height ", packed->solution.height));
}

int RunCheck(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return Fail(text.error());
  // A plan file is one JSON object; no CSV header begins with a brace.
  const size_t first = text->find_first_not_of(" \t\r\n");
  return first != std::string::npos && (*text)[first] == '{'
             ? CheckPlan(*text)
             : CheckPacking(*text);
}

}  // namespace

void AddCheck(Program& program) {
  Options options = program.AddSubcommand(
      "check",
      "Judge a plan file or a packing in CSV: exit 0 valid, 1 not valid",
      "stowage check step.plan");
  const auto path = std::make_shared<std::string>();
  options.Group("data");
  options.Add("file", path.get(),
              "A file that `stowage plan -o` wrote, or CSV with offsets");
  options.Require("file");
  options.OnRun([path] { return RunCheck(*path); });
}

}  // namespace stowage::tools
