// stowage report prints a plan file or compares two; stowage check validates plan files, and
// packings in CSV.

#include "report/report.h"

#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "report/plan_json.h"
#include "tools/command.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

struct ReportFlags {
  std::vector<std::string> plans;  // one or two
  std::string format = "text";
  std::string output;
  bool at_peak = false;
};

Result<std::string> Print(const PlanFile& file, const ReportFlags& flags) {
  const Report report = MakeReport(file.graph, file.plan);
  if (flags.at_peak) {
    const size_t all = report.peak_live.size();
    if (flags.format == "text") return PeakTable(report, all);
    if (flags.format == "json") {
      const nlohmann::ordered_json figures = FiguresJson(report, all);
      nlohmann::ordered_json json = nlohmann::ordered_json::object();
      for (const char* name : {"peak_time", "peak_node", "peak_live"}) {
        json[name] = figures[name];
      }
      return json.dump(1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace) +
             '\n';
    }
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[report] --at-peak has no form ", flags.format,
                        "; expected text or json")};
  }
  if (flags.format == "text") return ToText(report);
  if (flags.format == "json") return ToJson(report);
  if (flags.format == "svg") return ToSvg(report);
  if (flags.format == "html") {
    return ToHtml({.title = report.graph_name,
                   .programs = {DescribeProgram(report.graph_name, file.graph,
                                                file.plan)}});
  }
  if (flags.format == "trace") return ToChromeTrace(report);
  if (flags.format == "stream") return ToStreamText(file.graph, file.plan);
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[report] there is no format ", Quoted(flags.format),
                      "; expected text, json, svg, html, trace or stream")};
}

// The names of two plan files; their paths if the names are equal.
std::array<std::string, 2> NamesOf(const std::string& a, const std::string& b) {
  const std::filesystem::path x(a), y(b);
  if (x.filename() != y.filename()) {
    return {x.filename().string(), y.filename().string()};
  }
  return {a, b};
}

Result<std::string> Compare(const std::array<PlanFile, 2>& files,
                            const ReportFlags& flags) {
  const auto names = NamesOf(flags.plans[0], flags.plans[1]);
  if (flags.at_peak) {
    return Error{ErrorCode::kInvalidArgument,
                 "[report] --at-peak has no form for two plans; give one"};
  }
  if (flags.format == "html") {
    Page page{.title = files[0].graph.name(), .compares = true};
    if (files[1].graph.name() != page.title) {
      page.title += StrCat(" and ", files[1].graph.name());
    }
    for (size_t i = 0; i < files.size(); ++i) {
      page.programs.push_back(
          DescribeProgram(names[i], files[i].graph, files[i].plan));
    }
    return ToHtml(page);
  }
  const Report a = MakeReport(files[0].graph, files[0].plan);
  const Report b = MakeReport(files[1].graph, files[1].plan);
  if (flags.format == "text") {
    return ComparisonText({names[0], &a}, {names[1], &b});
  }
  if (flags.format == "json") {
    return ComparisonJson({names[0], &a}, {names[1], &b})
               .dump(1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace) +
           '\n';
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[report] two plans have no form ", Quoted(flags.format),
                      "; expected text, json or html")};
}

// A plan that `stowage check` refuses has no report.
Result<PlanFile> ReadPlan(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  STOWAGE_ASSIGN_OR_RETURN(PlanFile file, PlanFromJson(text));
  const std::vector<std::string> violations = ViolationsOf(file);
  if (!violations.empty()) {
    return InvalidArgumentError("[report] ", Quoted(path),
                                " is no sound plan: ", violations.front(),
                                "; `stowage check` names all that is wrong");
  }
  return file;
}

Result<std::string> Print(const ReportFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(PlanFile first, ReadPlan(flags.plans[0]));
  if (flags.plans.size() == 1) return Print(first, flags);
  STOWAGE_ASSIGN_OR_RETURN(PlanFile second, ReadPlan(flags.plans[1]));
  return Compare({std::move(first), std::move(second)}, flags);
}

int RunReport(const ReportFlags& flags) {
  const Status tried = TryOutputs(
      {{"output", flags.output}},
      {{"the plan", flags.plans[0]},
       {"the second plan", flags.plans.size() > 1 ? flags.plans[1] : ""}});
  if (!tried.ok()) return Fail(tried.error());
  const Result<std::string> printed = Print(flags);
  if (!printed.ok()) return Fail(printed.error());
  const Status written = WriteOutput(flags.output, *printed);
  return written.ok() ? kExitDone : Fail(written.error());
}

}  // namespace

void AddReport(Program& program) {
  Options options = program.AddSubcommand(
      "report",
      "Print a plan file as text, JSON, SVG, page, trace or "
      "stream, or compare two",
      "stowage report kept.plan recomputed.plan --format html "
      "-o both.html");
  const auto flags = std::make_shared<ReportFlags>();
  options.Group("data");
  options.AddSome("plan", &flags->plans, 2,
                  "A file written by `stowage plan -o`; two files are compared "
                  "(text, json, html)");
  options.Require("plan");
  options.Group("output");
  options.Add(
      "--format", &flags->format,
      "text, json, svg, html (an interactive page), trace (for Perfetto), or "
      "stream (allocations, launches and frees in order)");
  options.AddFlag("--at-peak", &flags->at_peak,
                  "Print all buffers that are live at the peak, and no others "
                  "(text, json)");
  options.AddOutput("-o,--output", &flags->output,
                    "Write to this file instead of stdout");
  options.OnRun([flags] { return RunReport(*flags); });
}

namespace {

// Prints the violations; returns whether there are any.
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
              "A file written by `stowage plan -o`, or a CSV with offsets");
  options.Require("file");
  options.OnRun([path] { return RunCheck(*path); });
}

}  // namespace stowage::tools
